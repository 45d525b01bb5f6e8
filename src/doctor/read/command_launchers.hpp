// Settings that launchers give the started program through their options, such as variables.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::doctor {

struct LauncherVariables {
  /// Variables in the order of the command line. The value nullopt means that the variable is
  /// unset.
  std::vector<std::pair<std::string, std::optional<std::string>>> set;
  /// Removes all variables except the scheduler's own (srun --export=NONE).
  bool drops_others = false;
};

/// Parses "srun --export=ALL,A=1", "mpirun -x A=1", "mpiexec -genv A 1", "sudo A=1", "systemd-run
/// -E A=1", "strace -E A=1". `words` ends before the started command.
[[nodiscard]] LauncherVariables launcher_variables(const std::vector<std::string>& words);

/// The arguments of "uv run …".
struct UvRun {
  std::string project;    // folder from --project or --directory
  std::string directory;  // working directory from --directory
  std::string python;     // --python
  bool no_project = false;
  bool isolated = false;
  bool adds = false;        // --with
  bool is_module = false;   // -m
  std::size_t command = 0;  // index of the command's first word
};
[[nodiscard]] UvRun parse_uv_run(const std::vector<std::string>& words);

/// Where the script of a shell command is: as text in "bash -euo pipefail -c 'python a.py' x", or
/// as a file.
struct ShellWords {
  bool is_text = false;
  std::size_t script = 1;
};
[[nodiscard]] ShellWords parse_shell_words(const std::vector<std::string>& words);

/// Whether a script contains a list of its requirements (PEP 723). For such a script, uv creates an
/// environment.
[[nodiscard]] bool has_script_metadata(std::string_view script);

}  // namespace berth::doctor
