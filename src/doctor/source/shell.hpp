// Shell commands as far as rules need them: words, variables, no expansion.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/source/readers.hpp"

namespace berth::doctor::source {

struct Command {
  int line = 0;
  std::vector<std::string> words;  // without quotes
};

/// Quotes, comments, continued lines and here-documents are known; `$(…)` is one more command.
std::vector<Command> shell_commands(std::string_view text, int first_line = 1);

/// What commands say that belongs together: a path set for wheels needs wheels.
class CommandMarks {
 public:
  explicit CommandMarks(Marks& marks) : marks_(marks) {}
  void add(const Command& command);
  void add_setting(int line, std::string_view name, std::string_view value);
  /// CUDA_VISIBLE_DEVICES=0, 1 without quotes: "0," and the words behind it.
  void add_split_list(int line, std::string_view value, std::string_view rest);
  /// After the last: what only several commands together show. What is added then stands by itself.
  void finish();
  /// A stage of a Dockerfile that begins as another one ends: where that set library paths.
  [[nodiscard]] std::vector<int> library_paths() const { return library_paths_; }
  void inherit(std::vector<int> library_paths) { library_paths_ = std::move(library_paths); }

  /// In Python a call of nvcc asks for the toolkit on purpose.
  bool asks_toolkit_on_purpose = false;

 private:
  void mark(int line, const char* what, std::string value = {}, std::string meant = {});
  std::size_t settings(const Command& command);
  void files(const Command& command, std::string_view program);
  void conda(const Command& command);
  void pip(const Command& command, std::size_t from);

  Marks& marks_;
  std::vector<int> library_paths_;  // lines
  bool wheels_ = false;
};

/// "NAME=VALUE" where commands do nothing but set a variable that is about GPUs, for a shell that
/// ends with them; "" they do more, or nothing.
std::string lone_export(std::span<const Command> commands);
/// The setting as it was meant: "CUDA_VISIBLE_DEVICES=0,1" of "0, 1"; "NAME=…" where it is not
/// told.
std::string setting_meant(const std::string& setting);

/// "tensorflow-gpu==2.9" and the like: a mark for a requirement that misleads.
/// `is_command`: it stands in one, and so does what to write instead.
void requirement_mark(Marks& marks, int line, std::string_view requirement,
                      bool is_command = false);
/// A channel or index of PyTorch's wheels.
bool is_wheel_index(std::string_view url);
/// "torch==2.5.1+cu121", or "torch==2.5.1", which such an index has as 2.5.1+cu121: that is the
/// higher version of the two, whatever stands at PyPI.
bool names_torch_build(std::string_view requirement);
/// "cu121" of such an index.
std::string wheel_tag(std::string_view url);
/// The index for who had "cudatoolkit=11.3": of that major, so that the driver will do.
std::string wheel_tag_for(std::string_view package);

Marks shell_marks(std::string_view text);
Marks dockerfile_marks(std::string_view text);
Marks requirements_marks(std::string_view text);
Marks yaml_marks(std::string_view text);

bool contains(std::string_view text, std::string_view part);

}  // namespace berth::doctor::source
