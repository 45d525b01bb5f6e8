// Prints `berth ls` and `berth ps` for people.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// One row for each device, with the columns that fit the terminal. With `wide`, all columns.
[[nodiscard]] std::string ls_text(const model::Snapshot& snapshot, const Terminal& given,
                                  bool wide);
/// A table of how each pair of GPUs is connected, as `nvidia-smi topo -m` prints it, with an
/// explanation of the codes.
[[nodiscard]] std::string topology_text(const model::Snapshot& snapshot, const Terminal& terminal);
/// Every field of every device, one per line. If a reading is absent, the reason.
[[nodiscard]] std::string details_text(const model::Snapshot& snapshot, const Terminal& terminal);
/// Translated sentences about processes that the list does not show, and why.
[[nodiscard]] std::vector<std::string> ps_notes(const model::Snapshot& snapshot);
/// One row for each process on each device. With `wide`, all columns and full command lines.
[[nodiscard]] std::string ps_text(const model::Snapshot& snapshot, const Terminal& given,
                                  bool wide);

}  // namespace berth::output
