// Creates a virtual environment atomically: builds it in a folder beside its place and renames it
// after all steps have succeeded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::cli {

struct NewEnvironment {
  std::string python;                // the interpreter to create it with
  std::string folder;                // absolute, without a trailing slash
  std::vector<std::string> install;  // arguments of `pip install`
};

/// The two commands to create an environment in `folder`.
[[nodiscard]] std::vector<std::vector<std::string>> commands_for(const NewEnvironment& wanted,
                                                                 const std::string& folder);

/// Whether it can be created there. Fails with E0841: something exists already; E0842: the parent
/// is not writable.
[[nodiscard]] Status check_place(const std::string& folder);

/// Runs the commands with their output on stderr; calls `before` before each. Fails with E0842, or
/// with E0845 if a command fails; then nothing is left. If a signal ends this process, the folder
/// is removed first.
[[nodiscard]] Status make_environment(
    const NewEnvironment& wanted,
    const std::function<void(const std::vector<std::string>&)>& before);

/// Runs a program with its output on stderr and waits. Returns its exit code, 128 + N after a
/// signal, or 127.
[[nodiscard]] int run_program(const std::vector<std::string>& words);

}  // namespace berth::cli
