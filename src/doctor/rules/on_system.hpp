// Fixes that depend on the system: its package manager and package names.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// How the inspected system performs `task` (data/systems.toml), with up to two values for its
/// command. The text `says` comes before the system's own note. A system without a row or without
/// that task gets only text and no command. If the system is unknown, Ubuntu is assumed, because it
/// is the most common. A row can have variants of a task: "TASK@dkms" for a driver built by DKMS,
/// and "TASK@other" for a driver that is not from the repository that the row's commands use.
[[nodiscard]] model::Fix on_system(Examination& look, const char* task, std::string says,
                                   const std::string& value = "", const std::string& more = "");
/// Sets the module variant ("kernel" or "kernel-open") in the configuration file of the driver
/// packages.
[[nodiscard]] model::Fix with_variant(Examination& look, const char* variant);
/// Like on_system(), with additional commands before and after.
[[nodiscard]] model::Fix on_system_between(Examination& look, const char* task,
                                           const std::string& before, const std::string& after,
                                           std::string says, const std::string& value = "");

/// Selects which parts of a list on the kernel's command line ("key=a,b") to remove.
using ArgumentPart = std::function<bool(std::string_view)>;
/// A fix that removes these words from the kernel's command line. It keeps the other parts of lists
/// that contain one of them.
[[nodiscard]] model::Fix without_arguments(Examination& look, const std::vector<std::string>& words,
                                           const ArgumentPart& gone, const std::string& says);

}  // namespace berth::doctor
