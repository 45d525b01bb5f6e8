// `berth ls` and `berth ps` as people read them.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// One row a device, the columns that fit; `wide`: all columns, however wide the terminal.
[[nodiscard]] std::string ls_text(const model::Snapshot& snapshot, const Terminal& given,
                                  bool wide);
/// Every field of every device, one a line, and why a reading is absent.
[[nodiscard]] std::string details_text(const model::Snapshot& snapshot, const Terminal& terminal);
/// What the list of processes does not show, and why: the snapshot's notes and more; translated.
[[nodiscard]] std::vector<std::string> ps_notes(const model::Snapshot& snapshot);
/// One row a process and device; `wide`: all columns and whole command lines.
[[nodiscard]] std::string ps_text(const model::Snapshot& snapshot, const Terminal& given,
                                  bool wide);

}  // namespace berth::output
