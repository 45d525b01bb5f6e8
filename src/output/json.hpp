// The records of `ls`, `ps` and `berth` as JSON documents (docs/json.md lists every key). Absent is
// null, units are in the keys, and invalid UTF-8 is replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "model/software.hpp"
#include "output/overview.hpp"

namespace berth::output {

/// What `berth ls` adds to its document for some options.
struct LsExtras {
  const model::Software* software = nullptr;  // --details; nullptr: the key is left out
  bool topology = false;                      // --topology: "links", one for each pair of GPUs
};
[[nodiscard]] std::string ls_json(const model::Snapshot& snapshot, const LsExtras& extras = {});
/// Describes the machine for programs that place jobs: ls_json(), and how each process uses its
/// device. Contains no command lines.
[[nodiscard]] std::string machine_json(const model::Snapshot& snapshot);
[[nodiscard]] std::string ps_json(const model::Snapshot& snapshot);
[[nodiscard]] std::string overview_json(const model::Snapshot& snapshot,
                                        const std::vector<NextStep>& next);

/// What `berth top --json` and the daemon's stream contain in addition to the snapshot.
struct FrameFacts {
  std::uint64_t number = 0;
  double sampler_cpu_seconds = 0, sampler_driver_seconds = 0;
  std::size_t most_processes = SIZE_MAX;  // more processes than this are counted, but not listed
};
/// Devices and processes in one line.
[[nodiscard]] std::string frame_json(const model::Snapshot& snapshot, const FrameFacts& facts);

}  // namespace berth::output
