// Checks users' source files, without executing them, for lines with an unexpected effect. Readers
// convert a file to marks (plain values); rules.cpp defines what a mark means.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/diagnosis.hpp"

namespace berth::doctor::source {

enum class Kind {
  kPython,
  kNotebook,
  kShell,  // and batch scripts
  kDockerfile,
  kRequirements,
  kYaml,     // environment.yml, compose.yaml, Kubernetes
  kArticle,  // Markdown, or pasted text with code
  kUnknown,
};

/// A place in a file that a rule is about.
struct Mark {
  int line = 0;
  std::string what;        // "set_device_cpu": a row of rules.cpp
  std::string value;       // the value for the row's sentence
  int other = 0;           // another line that it mentions; 0 none
  std::string code = {};   // the line itself, trimmed and printable
  std::string where = {};  // additional location: "code cell 3, line 2"
  std::string meant = {};  // the intended value, for the replacement: a GPU list
};

struct Source {
  std::string path;
  Kind kind = Kind::kUnknown;
  std::vector<Mark> marks;
  /// Why Python's syntax tree is missing; then only unambiguous rows are checked.
  std::string no_tree;
};

/// What a mark means. `title` may contain {0} (value) and {1} (other line); `command` and `says`
/// may contain {0}, {2} (intended value; "…" if unknown) and {file}.
struct Row {
  const char* what;
  const char* id;  // "SRC02"; a rule can have several marks
  model::Severity severity;
  const char* seen;     // the line it is about, for the rule list
  const char* title;    // msgid
  const char* command;  // to paste, or to write instead; "" none
  const char* says;     // msgid; "" if the command is clear
  /// File kinds in which it can occur: letters of "pnsdry" (python, notebook, shell, docker,
  /// requirements, yaml).
  const char* kinds;
};

[[nodiscard]] std::span<const Row> rows();

/// Determined by the name, otherwise by the first bytes.
[[nodiscard]] Kind kind_of(std::string_view path, std::string_view bytes);

/// `path`: "-" is standard input. Fails with kInvalidArgument (E0807): missing, not a regular file,
/// unreadable, too large, or of unknown kind; or E0860: an article without code. `python` only
/// parses Python code: a path or a name in PATH.
[[nodiscard]] Result<Source> read(const std::string& path, const std::string& python = "python3");
/// The same for bytes in memory.
[[nodiscard]] Source read_bytes(std::string path, Kind kind, std::string_view bytes,
                                const std::string& python = "python3");

/// Findings by file and line. `only`: rule ids; empty: all.
[[nodiscard]] model::Diagnosis diagnose(const std::vector<Source>& sources,
                                        const std::vector<std::string>& only = {});

}  // namespace berth::doctor::source
