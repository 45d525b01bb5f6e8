// Checks users' source files, without executing them, for lines that have another effect than users
// expect. Readers convert a file to marks (plain values). data/source_rules.toml defines what a
// mark means.
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
  kShell,  // shell scripts and batch scripts
  kDockerfile,
  kRequirements,
  kYaml,     // environment.yml, compose.yaml, or a Kubernetes manifest
  kArticle,  // Markdown, or other pasted text that contains code
  kUnknown,
};

/// A place in a file about which a rule has a finding.
struct Mark {
  int line = 0;
  std::string what;        // kind of the mark, such as "set_device_cpu" (Row::what)
  std::string value;       // the value that the rule's sentence shows
  int other = 0;           // number of another line that the sentence mentions; 0 if there is none
  std::string code = {};   // the text of the line, trimmed and printable
  std::string where = {};  // additional location: "code cell 3, line 2"
  std::string meant = {};  // what the user probably meant, such as a corrected GPU list
};

struct Source {
  std::string path;
  Kind kind = Kind::kUnknown;
  std::vector<Mark> marks;
  /// Why there is no syntax tree of the Python code; "" if there is one. Without a tree, only clear
  /// cases are found.
  std::string no_tree;
};

/// What a mark means. `title` may contain {0} (the mark's value) and {1} (its other line).
/// `command` and `says` may contain {0}, {2} (the intended value; "…" if unknown) and {file}.
struct Row {
  const char* what;
  const char* id;  // rule id, such as "SRC02"; a rule can have several marks
  model::Severity severity;
  const char* seen;     // what the line does, for the list of rules
  const char* title;    // msgid
  const char* command;  // a command to paste, or text to write instead; empty if there is none
  const char* says;     // msgid of an explanation; "" if the command needs none
  /// Kinds of files in which the mark can occur, as letters of "pnsdry": python, notebook, shell,
  /// docker, requirements, yaml.
  const char* kinds;
};

[[nodiscard]] std::span<const Row> rows();

/// The kind of a file according to its name. If the name does not show the kind, the first bytes
/// do.
[[nodiscard]] Kind kind_of(std::string_view path, std::string_view bytes);

/// Reads a file; "-" is standard input. `python`, a path or a name in PATH, only parses Python
/// code. Fails with kInvalidArgument: E0807 if the file is missing, not a regular file, unreadable,
/// too large, or of unknown kind; E0860 if it is an article without code.
[[nodiscard]] Result<Source> read(const std::string& path, const std::string& python = "python3");
/// Reads the content of a file that is already in memory.
[[nodiscard]] Source read_bytes(std::string path, Kind kind, std::string_view bytes,
                                const std::string& python = "python3");

/// Findings, sorted by file and line. `only` has the ids of the rules to run; if it is empty, all
/// rules run.
[[nodiscard]] model::Diagnosis diagnose(const std::vector<Source>& sources,
                                        const std::vector<std::string>& only = {});

}  // namespace berth::doctor::source
