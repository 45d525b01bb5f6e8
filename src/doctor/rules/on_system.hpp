// Fixes that depend on the system, because package managers and package names differ.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// How the inspected system performs `task` (data/systems.toml). `value` and `more` are values for
/// its command. `says` comes before the row's own note. If the system has no row, or its row has no
/// such task, the fix is a text without a command. For an unknown system, Ubuntu is assumed,
/// because it is the most common. A row can have variants of a task: "TASK@dkms" for a driver built
/// by DKMS, and "TASK@other" for a driver that is not from the repository that the row's commands
/// use.
[[nodiscard]] model::Fix on_system(Examination& look, const char* task, std::string says,
                                   const std::string& value = "", const std::string& more = "");
/// Changes the module variant to "kernel" or "kernel-open", in the configuration file of the
/// driver's packages.
[[nodiscard]] model::Fix with_variant(Examination& look, const char* variant);
/// Like on_system(), with additional commands before and after.
[[nodiscard]] model::Fix on_system_between(Examination& look, const char* task,
                                           const std::string& before, const std::string& after,
                                           std::string says, const std::string& value = "");

/// Whether to remove this part of a list "key=a,b" from the kernel's command line.
using ArgumentPart = std::function<bool(std::string_view)>;
/// A fix that removes these words from the kernel's command line. Of a word that is a list, it
/// keeps the parts that `gone` does not select.
[[nodiscard]] model::Fix without_arguments(Examination& look, const std::vector<std::string>& words,
                                           const ArgumentPart& gone, const std::string& says);

}  // namespace berth::doctor
