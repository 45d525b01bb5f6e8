// The settings of the live view that are stored between two runs.
#pragma once

#include <string>

#include "top/keys.hpp"

namespace berth::top {

/// Reads the file into the settings. A missing or damaged file changes nothing.
void read_kept(const std::string& file, Kept& settings);
/// Writes the settings that differ between the two to the file, and leaves the other settings in
/// the file unchanged. So a setting from an option is not stored. Returns false on failure.
bool keep_changes(const std::string& file, const Kept& before, const Kept& after);

}  // namespace berth::top
