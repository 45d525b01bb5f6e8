// Command-line words for devices, sizes, shares, durations and processors.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "model/cpu_list.hpp"
#include "model/device_selector.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  berth::model::Device gpu;
  gpu.index = 0;
  gpu.uuid = "GPU-1a2b3c4d-0000";
  gpu.pci_address = "0000:81:00.0";
  berth::model::Device other = gpu;
  other.index = 1;
  other.uuid = text;  // a driver may return anything
  other.pci_address = text;
  const std::vector<berth::model::Device> devices{gpu, other};
  const auto chosen = berth::model::select_devices(devices, {text});
  if (chosen)
    for (const auto& one : *chosen) BERTH_CHECK(one.device == 0 || one.device == 1);
  else
    BERTH_CHECK(!chosen.error().id.empty() && !chosen.error().message.empty());
  const auto share = berth::parse_share(text);
  BERTH_CHECK(!share || (*share > 0 && *share <= 1));
  static_cast<void>(berth::parse_size(text));
  const auto duration = berth::parse_duration(text);
  BERTH_CHECK(!duration || duration->count() >= 0);
  static_cast<void>(berth::parse_integer(text, 0, 16));
  if (const auto cpus = berth::model::parse_cpu_list(text))
    BERTH_CHECK(berth::model::parse_cpu_list(berth::model::show_cpu_list(*cpus)) == cpus);
  return 0;
}
