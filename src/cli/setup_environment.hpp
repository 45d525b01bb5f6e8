// Creates or upgrades a Python environment completely or not at all. All steps are done in a new
// folder or in a copy of the environment. The result replaces the old environment only after all
// steps have succeeded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::cli {

enum class Installer : unsigned char { kPip, kUv, kConda };
/// The installer as a word: "pip", "uv" or "conda".
[[nodiscard]] const char* word_of(Installer installer);

/// The packages of one call of `pip install`.
struct InstallStep {
  std::vector<std::string> packages;
  std::string index_url;  // the package index; "" for the installer's configured index
};

struct SetupEnvironment {
  Installer installer = Installer::kPip;
  std::string program;               // path of the program uv or conda
  std::string python;                // the interpreter with which the environment is created
  std::string python_version;        // the version for conda, such as "3.12"
  std::string folder;                // an absolute path without a trailing slash
  bool is_upgrade = false;           // true if an existing environment is upgraded, in a copy of it
  std::vector<std::string> removed;  // packages that an upgrade removes before it installs
  std::vector<InstallStep> steps;
};

/// The commands that create or change the environment in `folder`.
[[nodiscard]] std::vector<std::vector<std::string>> commands_for(const SetupEnvironment& wanted,
                                                                 const std::string& folder);

/// Checks that a new environment can be created in `folder`. Fails with E0841 (the path already
/// exists) or E0842 (the parent folder is not writable).
[[nodiscard]] Status check_place(const std::string& folder);
/// Checks that `folder` is an environment that can be upgraded by replacing it. Fails with E0842 or
/// E0848.
[[nodiscard]] Status check_existing(const std::string& folder);

struct SetupSteps {
  /// called before each command
  std::function<void(const std::vector<std::string>&)> before;
  /// called before an upgrade replaces the old environment, with the folder of the new one; if it
  /// returns false, the old environment stays
  std::function<bool(const std::string&)> may_replace;
};

/// Runs the commands, with their output on stderr. Fails with E0842, or with E0845 if a command
/// fails. On an error or a signal, the unfinished folder is removed, and an existing environment
/// stays unchanged.
[[nodiscard]] Status make_environment(const SetupEnvironment& wanted, const SetupSteps& steps);

/// Runs a program with its output on stderr, and waits for its end. Returns its exit code, 128 + N
/// if signal N ended it, or 127 if it cannot be started. `last_words` receives the end of its
/// stderr.
[[nodiscard]] int run_program(const std::vector<std::string>& words,
                              std::string* last_words = nullptr);
/// Like run_program(), but `output` receives the program's stdout.
[[nodiscard]] int run_for_output(const std::vector<std::string>& words, std::string& output);

}  // namespace berth::cli
