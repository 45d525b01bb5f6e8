// The other parts of a diagnosis: the examined command, the software, the frameworks that ran a
// kernel, and known messages in a pasted error. Plain values; all text is translated.
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
  std::string name;   // a stable name such as "driver-mismatch"
  int line = 0;       // line number in the pasted text
  std::string text;   // text of the line that contains the message
  std::string means;  // the usual meaning of the message
  // An observation that confirms the message on this machine, although no rule found its cause.
  std::string seen;
  std::vector<std::string> rules;        // ids of the rules that look for its causes
  std::vector<std::string> shown_by;     // those of `rules` that found something
  std::vector<std::string> not_checked;  // those of `rules` that could not be checked
  /// Whether all of `rules` were checked, with the GPU or packages that they need.
  bool compared = false;
};

/// The result of running a kernel with a framework of the examined system (--deep).
struct Probed {
  struct Device {
    int index = 0;
    std::string name;  // "" if the name is unknown
    bool ran = false;
    std::string message;
  };
  std::string framework, version;  // the version is "" if it is unknown
  std::string state;               // a stable name: "ran", "failed", …
  std::string says;                // the state as a sentence
  std::string message;             // the framework's own message
  std::vector<Device> devices;
};

/// What a command would execute (`berth doctor -- COMMAND`).
struct CommandSeen {
  std::string program;  // path of the file that is executed in the end
  std::string python;   // path of the interpreter; "" if none is used
  /// The variables that the command sets. nullopt means that the command unsets the variable.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  std::vector<std::string> files;  // scripts among the command's arguments
  std::vector<std::string>
      notes;  // sentences about parts of the command that could not be followed
};

/// The Python whose packages were inspected.
struct PythonSeen {
  std::string
      path;  // path of the interpreter; "" if there is none, or if it is unknown which one is used
  std::string version;  // "3.11.2", or "3.11" if no file tells more; "" if unknown
  std::string why;      // a sentence that tells why there is no path; "" if there is one
};

/// The optional parts of a diagnosis. nullopt: the part was not requested.
struct DiagnosisParts {
  std::optional<PythonSeen> python;
  std::optional<CommandSeen> command;
  std::optional<std::vector<Probed>> probe;
  std::optional<Software> software;
  std::optional<std::vector<KnownMessage>> error;
};

}  // namespace berth::model
