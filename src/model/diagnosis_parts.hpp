// The other parts of a diagnosis: the inspected command, the software in use, the probes
// that ran, and known messages in
// a pasted error. Plain values; all text is translated.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/software.hpp"

namespace berth::model {

/// A known message in the pasted text (--error). A message can have several causes; the rules
/// decide which one applies.
struct KnownMessage {
  std::string name;   // "driver-mismatch": stable
  int line = 0;       // line number in the pasted text
  std::string text;   // text of that line
  std::string means;  // its usual meaning
  // An observation that shows that the message applies here, although no rule found its cause.
  std::string seen;
  std::vector<std::string> rules;        // rules for its possible causes
  std::vector<std::string> shown_by;     // findings of `rules` in this diagnosis
  std::vector<std::string> not_checked;  // rules of `rules` that could not run
  /// All rules in `rules` ran. Rules that need a GPU or packages had them.
  bool compared = false;
};

/// The result of running a kernel with a framework of the inspected system (--deep).
struct Probed {
  struct Device {
    int index = 0;
    std::string name;  // "" unknown
    bool ran = false;
    std::string message;
  };
  std::string framework, version;  // version "": unknown
  std::string state;               // "ran", "failed", …: stable
  std::string says;                // the state as a sentence
  std::string message;             // the framework's own message
  std::vector<Device> devices;
};

/// What a command would start (`berth doctor -- COMMAND`).
struct CommandSeen {
  std::string program;  // the file that is finally executed
  std::string python;   // path of the interpreter; "" none
  /// Variables that the command sets; nullopt: it unsets the variable.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  std::vector<std::string> files;  // scripts among its arguments
  std::vector<std::string>
      notes;  // sentences about parts of the command that could not be followed
};

/// The Python whose packages were inspected.
struct PythonSeen {
  std::string
      path;  // path of the interpreter; "" if there is none, or if it is unknown which one is used
  std::string version;  // "3.11.2", or "3.11" if no file has more; "" unknown
  std::string why;      // if there is no path: the reason, as a sentence
};

/// nullopt: not requested.
struct DiagnosisParts {
  std::optional<PythonSeen> python;
  std::optional<CommandSeen> command;
  std::optional<std::vector<Probed>> probe;
  std::optional<Software> software;
  std::optional<std::vector<KnownMessage>> error;
};

}  // namespace berth::model
