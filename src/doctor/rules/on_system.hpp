// Fixes that are a system's own: by its package manager, with its packages' names.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rule.hpp"

namespace berth::doctor {

/// How the system that was looked at does `task` (data/systems.toml), with up to two values for
/// its command. `says` stands before the system's own note. A system that no row is about, and one
/// without that task, gets words and no command. A machine that does not say what it is counts as
/// Ubuntu, which most are.
[[nodiscard]] model::Fix on_system(Examination& look, const char* task, std::string says,
                                   const std::string& value = "", const std::string& more = "");
/// The same, with commands before and after its own.
[[nodiscard]] model::Fix on_system_between(Examination& look, const char* task,
                                           const std::string& before, const std::string& after,
                                           std::string says, const std::string& value = "");

/// Which parts of a list on the kernel's command line ("key=a,b") shall go.
using ArgumentPart = std::function<bool(std::string_view)>;
/// Takes these words off the kernel's command line, and puts back what else they list.
[[nodiscard]] model::Fix without_arguments(Examination& look, const std::vector<std::string>& words,
                                           const ArgumentPart& gone, const std::string& says);

}  // namespace berth::doctor
