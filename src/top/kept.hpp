// Stores settings of the live view for the next run of `berth top`.
#pragma once

#include <string>

#include "top/keys.hpp"

namespace berth::top {

/// Reads the file into the settings. A missing or damaged file changes nothing.
void read_kept(const std::string& file, Kept& settings);
/// Stores the settings in which `after` differs from `before`, and leaves all others in the file
/// unchanged. So a setting that came from an option is not stored. Returns false on failure.
bool keep_changes(const std::string& file, const Kept& before, const Kept& after);

}  // namespace berth::top
