// Any text in the caller's variables and in a driver's names: the placement stays within the
// visible devices, and shell text is quoted correctly. One line of input for each.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text_parts.hpp"
#include "output/environment_text.hpp"
#include "policy/container.hpp"
#include "policy/environment.hpp"
#include "policy/libraries.hpp"
#include "policy/placement.hpp"
#include "policy/visible.hpp"

namespace {

using berth::model::Device;
using berth::model::Request;
using berth::model::Snapshot;
using berth::model::Vendor;

Device gpu(int index, Vendor vendor, const std::string& uuid) {
  Device device;
  device.index = index;
  device.vendor = vendor;
  device.uuid = uuid;
  device.pci_address = "0000:" + std::to_string(10 + index) + ":00.0";
  device.readings.memory_total_bytes = 8ULL << 30;
  device.readings.memory_used_bytes = 0;
  return device;
}

/// Two NVIDIA GPUs (one with a MIG partition), two from AMD, one from Intel; the second has an
/// invalid name.
Snapshot machine(const std::string& nonsense) {
  Snapshot snapshot;
  snapshot.host.cpu.affinity = "0-7";
  snapshot.host.cpu.cores_usable = 8;
  snapshot.devices = {gpu(0, Vendor::kNvidia, "GPU-aaaa0000-1111"),
                      gpu(1, Vendor::kNvidia, nonsense),
                      gpu(2, Vendor::kAmd, "GPU-00000000deadbeef"), gpu(3, Vendor::kAmd, nonsense),
                      gpu(4, Vendor::kIntel, "")};
  snapshot.devices[1].pci_address = nonsense;
  snapshot.devices[1].local_cpus = nonsense;
  snapshot.devices[0].mig_enabled = nonsense.size() % 2 == 1;
  snapshot.devices[0].partitions.push_back({0, "MIG 1g", "MIG-bbbb0000", 7, 0, 1ULL << 30, 0, {}});
  return snapshot;
}

/// Outside single quotes there must be nothing that a shell interprets.
void check_quotes(const std::string& text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'')
      quoted = !quoted;
    else if (!quoted && text[i] == '\\')
      ++i;
    else if (!quoted)
      BERTH_CHECK(std::string("$`\"();&|<>*?[]#~!\t").find(text[i]) == std::string::npos);
  }
  BERTH_CHECK(!quoted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines;
  for (const auto line : berth::split(text, '\n')) lines.emplace_back(line);
  lines.resize(8);
  const Snapshot snapshot = machine(lines[0]);
  Request request;
  const auto inherit = [&](std::size_t line) {
    return lines[line] == "-" ? std::nullopt : std::optional<std::string>(lines[line]);
  };
  request.inherited_cuda = inherit(1);
  request.inherited_rocr = inherit(2);
  request.inherited_hip = inherit(3);
  request.inherited_ze = inherit(4);
  if (!lines[5].empty()) request.devices = {lines[5]};
  std::map<std::string, std::string> user{{"OMP_NUM_THREADS", lines[6]},
                                          {"CUDA_DEVICE_ORDER", lines[7]}};
  static_cast<void>(berth::policy::advise(lines, snapshot));
  const auto placement = berth::policy::place(request, snapshot);
  if (!placement) {
    BERTH_CHECK(!placement.error().id.empty() && !placement.error().message.empty());
    return 0;
  }
  const auto visible = berth::policy::inherited_visibility(request, snapshot);
  for (std::size_t i = 0; i < placement->devices.size(); ++i)
    BERTH_CHECK(visible.allows(placement->devices[i], placement->partitions[i]));
  const auto environment = berth::policy::environment_for(*placement, snapshot, user, {});
  BERTH_CHECK(environment.threads >= 1);
  check_quotes(berth::output::environment_shell(environment));
  check_quotes(berth::output::environment_container(berth::policy::container_words(
      environment, *placement, snapshot, berth::policy::ContainerTool::kDocker)));
  static_cast<void>(berth::output::environment_json(environment, *placement, snapshot));
  return 0;
}
