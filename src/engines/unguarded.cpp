#include "engines/unguarded.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "base/file.hpp"
#include "base/write_file.hpp"

namespace berth::engines {
namespace {

constexpr std::uint64_t kContext = std::uint64_t{1} << 30U;
constexpr const char* kRunning = "/running";

/// Whether the folder of counters is so new that the kubelet may not list its pod yet.
bool is_new(const std::string& folder) {
  constexpr std::chrono::seconds kSettle(30);
  std::error_code problem;
  const auto made = std::filesystem::last_write_time(folder + "/usage", problem);
  return !problem && std::filesystem::file_time_type::clock::now() - made < kSettle;
}

}  // namespace

std::string slot_name(const std::string& id) {
  std::string name = id;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '/' || c == '.'; }, '-');
  return name;
}

void note_running(const std::string& state, const std::vector<std::string>& slots) {
  std::string text;
  for (const std::string& slot : slots) text += slot + "\n";
  const std::string path = state + kRunning;
  // A failed write is ignored: the old list stays, and counted_in_pods() may also count pods that
  // have ended.
  if (slurp(path) != text) static_cast<void>(replace_file(path, text, 0600));
}

std::vector<guard::CountedUse> counted_in_pods(const std::string& state) {
  const auto running = slurp(state + kRunning);
  std::vector<guard::CountedUse> all;
  for (const char* part : {"/slots", "/claims"})
    for (const std::string& name : list_folder(state + part)) {
      const std::string folder = state + part + "/" + name;
      if (std::string_view(part) == "/slots" && running && !is_new(folder) &&
          ("\n" + *running).find("\n" + name + "\n") == std::string::npos)
        continue;
      // The result is empty for a claim of whole GPUs, which has no counters.
      auto counted = guard::counted_in_container(folder);
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
