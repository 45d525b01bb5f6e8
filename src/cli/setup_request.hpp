// What the user requested from `berth setup`: frameworks, the environment and the installer.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/setup_environment.hpp"
#include "cli/verb.hpp"
#include "doctor/knowledge/builds.hpp"
#include "doctor/read/collect.hpp"

namespace berth::cli {

struct AskedFramework {
  doctor::Framework framework = doctor::Framework::kTorch;
  std::string version;  // the version; "" for the newest that works
};

struct SetupRequest {
  std::vector<AskedFramework> frameworks;
  Installer installer = Installer::kPip;
  std::string program;         // path of the program uv or conda
  std::string folder;          // absolute
  std::string python;          // path of an interpreter; "" for the default one
  std::string python_version;  // such as "3.12", if the user gave only a version
  bool is_upgrade = false, is_check = false, is_dry = false;
  std::optional<std::string> format;
};

/// Reads the options. Fails with E0840, E0846, E0848, E0849.
[[nodiscard]] Result<SetupRequest> read_setup_request(const Context& context);

/// The facts about this machine and about the environment's Python. For a new environment, this is
/// the Python that creates it. Fails with E0846.
[[nodiscard]] Result<doctor::Facts> facts_for_setup(const Context& context,
                                                    const SetupRequest& request);

/// Whether PATH contains a Python of this version, such as "3.12".
[[nodiscard]] bool has_python(const std::string& version);

/// The user's command with the given frameworks and without the options in `without`. Hints begin
/// with it: "berth setup torch 2.14 jax --uv". Passwords are left out.
[[nodiscard]] std::string command_with(const Arguments& given,
                                       const std::vector<AskedFramework>& frameworks,
                                       std::initializer_list<std::string_view> without);

}  // namespace berth::cli
