// Fixes that depend on the system, because package managers and package names differ.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// The fix for `task` on the inspected system (data/systems.toml). `value` and `more` fill the
/// placeholders of its command; `says` is put before the note of the row. Without a row for the
/// system or the task, the fix is a text without a command. An unknown system is treated as Ubuntu,
/// the most common one. A task can have variants: "TASK@dkms" for a driver that DKMS builds,
/// "TASK@other" for a driver from another repository than the one in the commands.
[[nodiscard]] model::Fix on_system(Examination& look, const char* task, std::string says,
                                   const std::string& value = "", const std::string& more = "");
/// Changes the module variant to "kernel" or "kernel-open", in the configuration file of the
/// driver's packages.
[[nodiscard]] model::Fix with_variant(Examination& look, const char* variant);
/// The fix of on_system(), with the commands `before` and `after` around its own command.
[[nodiscard]] model::Fix on_system_between(Examination& look, const char* task,
                                           const std::string& before, const std::string& after,
                                           std::string says, const std::string& value = "");

/// Whether to remove this part of a list "key=a,b" from the kernel's command line.
using ArgumentPart = std::function<bool(std::string_view)>;
/// A fix that removes these words from the kernel's command line. If a word is a list, removes only
/// the parts that `gone` selects.
[[nodiscard]] model::Fix without_arguments(Examination& look, const std::vector<std::string>& words,
                                           const ArgumentPart& gone, const std::string& says);

}  // namespace berth::doctor
