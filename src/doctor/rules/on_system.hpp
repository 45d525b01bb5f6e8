// Fixes that depend on the system: its package manager and package names.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// How the inspected system performs `task` (data/systems.toml), with up to two values for its
/// command. `says` precedes the system's own note. A system without a row, or without that task,
/// gets text and no command. An unknown system counts as Ubuntu, the most common one. A row may
/// also have the task as "TASK@dkms", for a driver built by DKMS, and as "TASK@other", for a driver
/// that is not from the repository of the row's commands.
[[nodiscard]] model::Fix on_system(Examination& look, const char* task, std::string says,
                                   const std::string& value = "", const std::string& more = "");
/// Sets the variant ("kernel" or "kernel-open") in the file that configures the driver's packages.
[[nodiscard]] model::Fix with_variant(Examination& look, const char* variant);
/// As on_system, with commands before and after its own.
[[nodiscard]] model::Fix on_system_between(Examination& look, const char* task,
                                           const std::string& before, const std::string& after,
                                           std::string says, const std::string& value = "");

/// Selects the parts of a list on the kernel's command line ("key=a,b") to remove.
using ArgumentPart = std::function<bool(std::string_view)>;
/// Removes these words from the kernel's command line, but keeps the other parts of their lists.
[[nodiscard]] model::Fix without_arguments(Examination& look, const std::vector<std::string>& words,
                                           const ArgumentPart& gone, const std::string& says);

}  // namespace berth::doctor
