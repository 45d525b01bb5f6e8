// A recorded machine in one text file, NAME.machine: the files, device nodes, variables and answers
// for a diagnosis (format: docs/recorded-machine.md).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "doctor/facts/node.hpp"
#include "doctor/tree/file_tree.hpp"

namespace berth::doctor {

struct RecordedMachine {
  FileTree files;
  std::map<std::string, Special> specials;  // device nodes and unreadable paths
  std::map<std::string, std::string> parts;  // other parts by name: "environment", "driver.json", …
};

/// Parses one file. `origin` is its path; a base ("like = NAME") is NAME.machine in the same
/// folder. Fails with E0802, which names the file and the line.
[[nodiscard]] Result<RecordedMachine> parse_machine(std::string_view text,
                                                    const std::string& origin);
[[nodiscard]] Result<RecordedMachine> read_machine(const std::string& path);

/// The canonical text: equal machines give equal text.
[[nodiscard]] std::string machine_to_text(const RecordedMachine& machine);

}  // namespace berth::doctor
