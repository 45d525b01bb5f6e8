// What a diagnosis says beside its findings: the command that was looked at, what was tried, and
// what is known in a pasted error. Plain values; all texts are translated.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::model {

/// A known message in the text that was pasted (--error). It is no finding: the same words have
/// several causes, and the rules say which of them is here.
struct KnownMessage {
  std::string name;                      // "driver-mismatch": stable
  int line = 0;                          // of the pasted text
  std::string text;                      // that line
  std::string means;                     // what it usually says
  std::string seen;                      // what of the target shows it, where no rule minds
  std::vector<std::string> rules;        // that can be behind it
  std::vector<std::string> shown_by;     // findings of this diagnosis among them
  std::vector<std::string> not_checked;  // rules among them that could not look
};

/// What a framework of the target did when it was asked to run a kernel (--deep).
struct Probed {
  struct Device {
    int index = 0;
    std::string name;  // "" not told
    bool ran = false;
    std::string message;
  };
  std::string framework, version;  // version "": not told
  std::string state;               // "ran", "failed", …: stable
  std::string says;                // the same in a sentence
  std::string message;             // the framework's own words
  std::vector<Device> devices;
};

/// What a command would start (`berth doctor -- COMMAND`).
struct CommandSeen {
  std::string program;  // the file that is executed in the end
  std::string python;   // the interpreter; "" none
  /// What the command itself sets; nullopt: it takes the variable away.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  std::vector<std::string> files;  // scripts among its words
  std::vector<std::string> notes;  // what could not be followed
};

/// The Python whose packages were looked at.
struct PythonSeen {
  std::string path;     // "" there is none, or it is not known which
  std::string version;  // "3.11.2", or "3.11" where no file tells more; "" not known
  std::string why;      // a sentence where there is no path
};

/// nullopt: nobody asked.
struct DiagnosisParts {
  std::optional<PythonSeen> python;
  std::optional<CommandSeen> command;
  std::optional<std::vector<Probed>> probe;
  std::optional<std::vector<KnownMessage>> error;
};

}  // namespace berth::model
