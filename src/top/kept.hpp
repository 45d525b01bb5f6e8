// The settings of the live view that are kept from one time to the next.
#pragma once

#include <string>

#include "top/keys.hpp"

namespace berth::top {

/// Reads the file into the settings. A missing or damaged file changes nothing.
void read_kept(const std::string& file, Kept& settings);
/// Writes what differs between the two into the file, and keeps the rest of it: a setting that came
/// from an option is not kept. Returns false if it could not.
bool keep_changes(const std::string& file, const Kept& before, const Kept& after);

}  // namespace berth::top
