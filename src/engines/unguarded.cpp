#include "engines/unguarded.hpp"

#include "base/file.hpp"

namespace berth::engines {
namespace {

constexpr std::uint64_t kContext = std::uint64_t{1} << 30U;

}  // namespace

std::vector<guard::CountedUse> counted_in_pods(const std::string& state) {
  std::vector<guard::CountedUse> all;
  for (const char* part : {"/slots", "/claims"})
    for (const std::string& name : list_folder(state + part)) {
      // Claims of whole GPUs have no counters.
      auto counted = guard::counted_in_container(state + part + "/" + name);
      if (counted) all.insert(all.end(), counted->begin(), counted->end());
    }
  return all;
}

void mark_unguarded(std::vector<KubeUnit>& units, const model::Snapshot& seen,
                    const std::vector<guard::CountedUse>& counted) {
  for (KubeUnit& unit : units) {
    std::uint64_t expected = kContext;
    bool is_shared = false;
    for (const guard::CountedUse& one : counted) {
      if (one.uuid != unit.uuid) continue;
      is_shared = true;
      expected += one.bytes + one.processes * kContext;
    }
    for (const model::Device& device : seen.devices)
      if (device.uuid == unit.uuid && is_shared && device.readings.memory_used_bytes)
        unit.unguarded = *device.readings.memory_used_bytes > expected;
  }
}

}  // namespace berth::engines
