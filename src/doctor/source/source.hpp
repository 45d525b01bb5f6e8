// Files of the user's, read and never executed: which lines do not do what they look like. Readers
// turn a file into marks, plain values; rules.cpp says what a mark means.
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
  kShell,  // batch scripts, too
  kDockerfile,
  kRequirements,
  kYaml,  // environment.yml, compose.yaml, Kubernetes
  kUnknown,
};

/// Something that a rule has an opinion on.
struct Mark {
  int line = 0;
  std::string what;        // "set_device_cpu": a row of rules.cpp
  std::string value;       // what the row's sentence needs
  int other = 0;           // a second line that it speaks of; 0 none
  std::string code = {};   // the line itself, trimmed and printable
  std::string where = {};  // more about the place: "code cell 3, line 2"
  std::string meant = {};  // what stands in the replacement: the list of GPUs as it was meant
};

struct Source {
  std::string path;
  Kind kind = Kind::kUnknown;
  std::vector<Mark> marks;
  /// Why Python's syntax tree could not be had, so that only unmistakable rows were looked for.
  std::string no_tree;
};

/// A row: what a mark means. `title` may use {0} (value) and {1} (other line), `command` and `says`
/// {0}, {2} (what was meant; "…" where the file does not tell) and {file}.
struct Row {
  const char* what;
  const char* id;  // "SRC02"; several marks may be of one rule
  model::Severity severity;
  const char* seen;     // the line that it is about, for the list of rules
  const char* title;    // msgid
  const char* command;  // to paste or to write instead; "" none
  const char* says;     // msgid; "" where the command says it
  /// Which kinds of file it can be found in: letters of "pnsdry" (python, notebook, shell, docker,
  /// requirements, yaml).
  const char* kinds;
};

[[nodiscard]] std::span<const Row> rows();

/// By its name, else by what it begins with.
[[nodiscard]] Kind kind_of(std::string_view path, std::string_view bytes);

/// Fails with kInvalidArgument (E0807): not there, no regular file, unreadable, too large, or of no
/// kind that is known. `python` parses what is Python, alone: a path, or a name on the PATH.
[[nodiscard]] Result<Source> read(const std::string& path, const std::string& python = "python3");
/// The same for bytes at hand.
[[nodiscard]] Source read_bytes(std::string path, Kind kind, std::string_view bytes,
                                const std::string& python = "python3");

/// Findings by file and line. `only`: ids of rules; empty: all.
[[nodiscard]] model::Diagnosis diagnose(const std::vector<Source>& sources,
                                        const std::vector<std::string>& only = {});

}  // namespace berth::doctor::source
