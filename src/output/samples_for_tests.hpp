// Hand-made machines for tests of the texts. Each covers a special case.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/snapshot.hpp"

namespace berth::output {

/// Names and snapshots: eight busy GPUs, no device, MIG, faulty devices, unified memory, a sleeping
/// laptop, foreign processes and unexplained memory, names in Chinese and in invalid encoding.
[[nodiscard]] std::vector<std::pair<std::string, model::Snapshot>> sample_machines();

}  // namespace berth::output
