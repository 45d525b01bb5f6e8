// Splits shell commands into words and finds variables, as far as rules need this. Nothing is
// expanded.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/source/readers.hpp"

namespace berth::doctor::source {

struct Command {
  int line = 0;
  std::vector<std::string> words;  // words of the command, without quotes
};

/// Handles quotes, comments, continued lines and here-documents. `$(…)` counts as another command.
std::vector<Command> shell_commands(std::string_view text, int first_line = 1);

/// The known variable that was probably meant; "" if `name` is known, or is similar to no known
/// name.
std::string misspelt_variable(std::string_view name);
/// A misspelt key in a value of PYTORCH_CUDA_ALLOC_CONF, and the key that was probably meant.
std::pair<std::string, std::string> misspelt_allocator_key(std::string_view value);

/// Collects the pinned requirements of one list or command.
class Pins {
 public:
  void add(int line, std::string_view requirement);
  void finish(Marks& marks);

 private:
  struct Pin {
    int line = 0;
    std::string name, requirement;
  };
  std::vector<Pin> all_;
};

/// Collects the marks of commands. Some marks depend on several commands: a library path for wheels
/// is reported only if a command installs wheels.
class CommandMarks {
 public:
  explicit CommandMarks(Marks& marks) : marks_(marks) {}
  void add(const Command& command);
  void add_setting(int line, std::string_view name, std::string_view value);
  /// Reports CUDA_VISIBLE_DEVICES=0, 1 without quotes: `value` is "0,", and `rest` is the text of
  /// the words after it.
  void add_split_list(int line, std::string_view value, std::string_view rest);
  /// Adds the marks that depend on several commands. Later commands form a new group.
  void finish();
  /// The lines that set LD_LIBRARY_PATH. A Dockerfile stage that is based on this one inherits
  /// them.
  [[nodiscard]] std::vector<int> library_paths() const { return library_paths_; }
  void inherit(std::vector<int> library_paths) { library_paths_ = std::move(library_paths); }

  /// If true, calls of nvcc are not reported. Set this for Python code: it calls nvcc on purpose.
  bool asks_toolkit_on_purpose = false;

 private:
  void mark(int line, const char* what, std::string value = {}, std::string meant = {});
  std::size_t settings(const Command& command);
  bool foreign_setting(const Command& command);
  void files(const Command& command, std::string_view program);
  void conda(const Command& command);
  void pip(const Command& command, std::size_t from);

  Marks& marks_;
  std::vector<int> library_paths_;  // lines that set LD_LIBRARY_PATH
  bool wheels_ = false;
};

/// If the commands only set a GPU variable, and their shell exits afterwards: "NAME=VALUE".
/// Otherwise "".
std::string lone_export(std::span<const Command> commands);
/// The setting that was probably meant: "CUDA_VISIBLE_DEVICES=0,1" for "0, 1". "NAME=…" if the
/// intended value is unknown.
std::string setting_meant(const std::string& setting);

/// Adds a mark for a misleading requirement such as "tensorflow-gpu==2.9". `is_command`: the
/// requirement is part of a command, so the replacement is a command too.
void requirement_mark(Marks& marks, int line, std::string_view requirement,
                      bool is_command = false);
/// Whether the address is that of PyTorch's wheels for one build.
bool is_wheel_index(std::string_view url);
/// Whether a requirement selects a build of PyTorch in its index: "torch==2.5.1+cu121", or
/// "torch==2.5.1". For "torch==2.5.1", pip prefers 2.5.1+cu121 in this index to 2.5.1 on PyPI,
/// because 2.5.1+cu121 sorts higher.
bool names_torch_build(std::string_view requirement);
/// The build in the address of an index of PyTorch's wheels: "cu121".
std::string wheel_tag(std::string_view url);
/// The build that replaces "cudatoolkit=11.3". It has the same CUDA major version, so the driver is
/// new enough.
std::string wheel_tag_for(std::string_view package);

Marks shell_marks(std::string_view text);
Marks dockerfile_marks(std::string_view text);
Marks requirements_marks(std::string_view text);
Marks yaml_marks(std::string_view text);

bool contains(std::string_view text, std::string_view part);

}  // namespace berth::doctor::source
