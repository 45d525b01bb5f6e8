// What a command would start, and with which variables: found by reading, nothing is run. Wrappers
// (env, timeout, torchrun, conda run, uv run, a shell script) are followed to the program behind.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

struct CommandTarget {
  std::string program;             // the file that is executed in the end
  std::string python;              // the interpreter; "" it is no Python
  Environment environment;         // as the program would get it
  std::vector<std::string> files;  // scripts that it reads: what the source rules can look at
  std::vector<std::string> notes;  // what could not be followed, a sentence each
};

/// `folder`: where the command would be started, absolute. Fails with kNotFound (E0510: no such
/// command; E0809: no such environment) or kInvalidArgument (E0516: no word is left).
[[nodiscard]] Result<CommandTarget> resolve_command(const Tree& tree,
                                                    const Environment& environment,
                                                    const std::string& folder,
                                                    const std::vector<std::string>& words);

}  // namespace berth::doctor
