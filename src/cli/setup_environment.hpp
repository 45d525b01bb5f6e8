// Creates or upgrades a Python environment as a whole: all steps are done in a copy of it or in a
// new folder next to it. Only after all steps have succeeded does the result replace the old
// environment.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::cli {

enum class Installer : unsigned char { kPip, kUv, kConda };
/// The names of the installers: "pip", "uv", "conda".
[[nodiscard]] const char* word_of(Installer installer);

/// The packages of one call of `pip install`.
struct InstallStep {
  std::vector<std::string> packages;
  std::string index_url;  // the package index; "": the index for which the installer is configured
};

struct SetupEnvironment {
  Installer installer = Installer::kPip;
  std::string program;               // path of the program uv or conda
  std::string python;                // the interpreter with which the environment is created
  std::string python_version;        // for conda: "3.12"
  std::string folder;                // absolute, without a trailing slash
  bool is_upgrade = false;           // the environment exists, and a copy of it is changed
  std::vector<std::string> removed;  // packages that an upgrade removes before it installs
  std::vector<InstallStep> steps;
};

/// The commands that create or change the environment in `folder`.
[[nodiscard]] std::vector<std::vector<std::string>> commands_for(const SetupEnvironment& wanted,
                                                                 const std::string& folder);

/// Checks that a new environment can be created in the folder. Fails with E0841 (something already
/// exists) and E0842 (the parent folder is not writable).
[[nodiscard]] Status check_place(const std::string& folder);
/// Checks that the folder is an environment that can be replaced by a changed copy. Fails with
/// E0842, E0848.
[[nodiscard]] Status check_existing(const std::string& folder);

struct SetupSteps {
  /// called before each command
  std::function<void(const std::vector<std::string>&)> before;
  /// called with the folder of the complete new environment before an upgrade replaces the old one;
  /// if it returns false, the old environment stays
  std::function<bool(const std::string&)> may_replace;
};

/// Runs the commands with their output on stderr. Fails with E0842, or with E0845 if a command
/// fails; then the unfinished folder is removed, and an existing environment is unchanged. If a
/// signal ends this process, the unfinished folder is removed first.
[[nodiscard]] Status make_environment(const SetupEnvironment& wanted, const SetupSteps& steps);

/// Runs a program with its output on stderr, and waits for it. Returns its exit code, 128 + N after
/// a signal, or 127. `last_words` receives the end of its stderr.
[[nodiscard]] int run_program(const std::vector<std::string>& words,
                              std::string* last_words = nullptr);
/// Like run_program(), but `output` receives the program's stdout.
[[nodiscard]] int run_for_output(const std::vector<std::string>& words, std::string& output);

}  // namespace berth::cli
