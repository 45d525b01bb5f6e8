// Machines made by hand, for tests of the screens: each shows something the screens must get right.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/snapshot.hpp"

namespace berth::output {

/// Names and snapshots: eight busy GPUs, nothing at all, MIG, sick devices, unified memory, a
/// sleeping laptop, foreign processes and unexplained memory, names in Chinese and in no encoding
/// at all.
[[nodiscard]] std::vector<std::pair<std::string, model::Snapshot>> sample_machines();

}  // namespace berth::output
