// Messages of the forked NVML child, which are untrusted because a vendor's driver runs in it, and
// how they are interpreted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "inventory/nvml_collector.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::inventory;
  if (size == 0) return 0;
  // The first byte says where to split the rest into two reads.
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = bytes.empty() ? 0 : data[0] * bytes.size() / 256;
  frames::Parser parser;
  Collector collector({}, {});
  for (const std::string_view part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    parser.add(part);
    while (auto frame = parser.next()) collector.take(std::move(*frame));
  }
  Sources sources;
  sources.roots.sys = "/nonexistent";
  const NvmlReport report = collector.report(sources, Options{}, Ending{});
  for (const berth::model::DeviceProcess& process : report.processes) {
    if (process.device < 0 || static_cast<std::size_t>(process.device) >= report.devices.size())
      std::abort();
  }
  return 0;
}
