// Prints `berth ls` and `berth ps` for people.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// One row per device with the columns that fit; `wide`: all columns, regardless of the terminal's
/// width.
[[nodiscard]] std::string ls_text(const model::Snapshot& snapshot, const Terminal& given,
                                  bool wide);
/// How each pair of GPUs is connected, as `nvidia-smi topo -m` prints it, and what the codes mean.
[[nodiscard]] std::string topology_text(const model::Snapshot& snapshot, const Terminal& terminal);
/// Every field of every device, one per line, with the reason for each absent reading.
[[nodiscard]] std::string details_text(const model::Snapshot& snapshot, const Terminal& terminal);
/// Sentences about what the process list does not show and why, from the snapshot's notes and other
/// parts of the snapshot; translated.
[[nodiscard]] std::vector<std::string> ps_notes(const model::Snapshot& snapshot);
/// One row per process and device; `wide`: all columns and full command lines.
[[nodiscard]] std::string ps_text(const model::Snapshot& snapshot, const Terminal& given,
                                  bool wide);

}  // namespace berth::output
