// The JSON documents of `ls`, `ps` and `berth` (docs/json.md lists every key). An absent value is
// null, keys contain the units, and invalid UTF-8 is replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "model/software.hpp"
#include "output/overview.hpp"

namespace berth::output {

/// What `berth ls` adds to its document with some options.
struct LsExtras {
  const model::Software* software = nullptr;  // for --details; null leaves the key out
  bool topology = false;  // for --topology: adds "links", with an entry for each pair of GPUs
};
[[nodiscard]] std::string ls_json(const model::Snapshot& snapshot, const LsExtras& extras = {});
/// The machine for programs that place jobs: the document of ls_json(), and for each process how it
/// uses its device. Contains no command lines.
[[nodiscard]] std::string machine_json(const model::Snapshot& snapshot);
[[nodiscard]] std::string ps_json(const model::Snapshot& snapshot);
[[nodiscard]] std::string overview_json(const model::Snapshot& snapshot,
                                        const std::vector<NextStep>& next);

/// What `berth top --json` and the daemon's stream add to the snapshot.
struct FrameFacts {
  std::uint64_t number = 0;
  double sampler_cpu_seconds = 0, sampler_driver_seconds = 0;
  // list at most this many processes; the others are only counted
  std::size_t most_processes = SIZE_MAX;
};
/// The devices and processes as JSON on one line.
[[nodiscard]] std::string frame_json(const model::Snapshot& snapshot, const FrameFacts& facts);

}  // namespace berth::output
