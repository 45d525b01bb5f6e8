// Writes a recorded machine: one file, NAME.machine, or a bundle's folder.
#pragma once

#include <string>

#include "base/result.hpp"
#include "doctor/tree/recorded_machine.hpp"

namespace berth::doctor {

/// Checks a path for a bundle. A path that ends in ".machine" is a file, which must not exist. Any
/// other path is a folder, which must not exist or must be empty. Fails with E0804, like
/// write_record().
[[nodiscard]] Status check_record_path(const std::string& path);
[[nodiscard]] Status write_record(const RecordedMachine& machine, const std::string& path);
[[nodiscard]] Error record_not_written(const std::string& what);

}  // namespace berth::doctor
