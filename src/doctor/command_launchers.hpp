// What launchers give to the program that they start, by their own options.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::doctor {

struct LauncherVariables {
  /// In their order; nullopt: it is taken away.
  std::vector<std::pair<std::string, std::optional<std::string>>> set;
  /// srun --export=NONE: of the others only the scheduler's own are left.
  bool drops_others = false;
};

/// Of "srun --export=ALL,A=1", "mpirun -x A=1", "mpiexec -genv A 1", "sudo A=1", "systemd-run -E
/// A=1", "strace -E A=1"; `words` ends before the command that it starts.
[[nodiscard]] LauncherVariables launcher_variables(const std::vector<std::string>& words);

/// "uv run …", as uv reads it.
struct UvRun {
  std::string project;    // --project, --directory
  std::string directory;  // --directory
  std::string python;     // --python
  bool no_project = false;
  bool isolated = false;
  bool adds = false;        // --with
  bool is_module = false;   // -m
  std::size_t command = 0;  // where the command begins
};
[[nodiscard]] UvRun parse_uv_run(const std::vector<std::string>& words);

/// "bash -euo pipefail -c 'python a.py' x": where its script begins, as text or as a file.
struct ShellWords {
  bool is_text = false;
  std::size_t script = 1;
};
[[nodiscard]] ShellWords parse_shell_words(const std::vector<std::string>& words);

/// A script that says by itself what it needs (PEP 723), for which uv makes an environment.
[[nodiscard]] bool has_script_metadata(std::string_view script);

}  // namespace berth::doctor
