// A recorded machine in one text file, NAME.machine, with everything that a diagnosis needs: files,
// device nodes, variables and answers of the driver (format: docs/recorded-machine.md).
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
  std::map<std::string, Special> specials;   // device nodes and unreadable paths
  std::map<std::string, std::string> parts;  // other parts: "environment", "driver.json", …
};

/// Parses the text of a file. `origin` is the path of the file. "like = NAME" makes NAME.machine in
/// the same folder the base of this machine. Fails with E0802, which names the file and the line.
[[nodiscard]] Result<RecordedMachine> parse_machine(std::string_view text,
                                                    const std::string& origin);
[[nodiscard]] Result<RecordedMachine> read_machine(const std::string& path);

/// The machine as text. Equal machines have equal text.
[[nodiscard]] std::string machine_to_text(const RecordedMachine& machine);

}  // namespace berth::doctor
