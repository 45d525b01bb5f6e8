// PyTorch's flight recorder: the last collectives that a rank started over NCCL. A rank writes them
// when it reads a byte from a named pipe, and its program need not change for that. The file is a
// pickle. It is read as data only: an operation that would import or call something is an error.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tries.hpp"

namespace berth::run {

/// The first collective of a dump that has not completed. If all have completed, the last one.
/// nullopt: the dump is damaged or not plain data, or has no collective.
[[nodiscard]] std::optional<model::Collective> last_collective(std::string_view dump);

/// The variables that turn the recorder on. `stem`: the start of the paths of the recorder's files;
/// the number of the rank follows.
[[nodiscard]] std::map<std::string, std::string> flight_variables(const std::string& stem);
/// Asks these ranks for their dumps, and does not wait. PyTorch looks at its pipe once a second.
/// Returns the ranks whose pipe is read by their program.
std::vector<int> request_dumps(const std::string& stem, const std::vector<int>& ranks);
/// Reads those dumps of these ranks that are complete by now.
[[nodiscard]] std::map<int, model::Collective> read_dumps(const std::string& stem,
                                                          const std::vector<int>& ranks);
/// Asks these ranks for their dumps, and waits up to `patience`. A rank without
/// a recorder has no pipe, and is left out.
[[nodiscard]] std::map<int, model::Collective> ask_for_collectives(
    const std::string& stem, const std::vector<int>& ranks, std::chrono::milliseconds patience);
/// Removes the pipes, and the dumps unless `keeps_dumps`.
void remove_flight_files(const std::string& stem, const std::vector<int>& ranks, bool keeps_dumps);

}  // namespace berth::run
