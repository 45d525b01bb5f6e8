// Determines what a command would start, and with which variables, without running anything.
// Follows programs that start other programs (env, timeout, torchrun, conda run, uv run, a shell
// script) to the final one.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

struct CommandTarget {
  std::string program;             // path of the file that is finally executed
  std::string python;              // path of the interpreter; "" if the program is not Python
  Environment environment;         // variables as the started program would receive them
  std::vector<std::string> files;  // scripts that the program would run, for the source rules
  std::vector<std::string> notes;  // one sentence for each thing that could not be followed
};

/// `folder`: absolute working directory of the command. Fails with kNotFound (E0510: no such
/// command; E0809: no such environment) or kInvalidArgument (E0516: no command follows a wrapper).
[[nodiscard]] Result<CommandTarget> resolve_command(const Tree& tree,
                                                    const Environment& environment,
                                                    const std::string& folder,
                                                    const std::vector<std::string>& words);

}  // namespace berth::doctor
