// Diagnosis: what `berth doctor` found. Root causes come first. Plain values; all text is
// translated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// From the lowest layer to the highest. A cause in one layer can explain problems in the layers
/// above it.
enum class Layer : unsigned char {
  kHardware,
  kDriver,  // kernel modules, device nodes, and what the driver reports about a GPU
  kContainer,
  kEnvironment,  // environment variables
  kLibraries,
  kFramework,
  kRuntime,
  kSource,
};
enum class Severity : unsigned char { kInfo, kWarning, kError, kFatal };
/// kLow: no public case has confirmed the rule yet.
enum class Confidence : unsigned char { kLow, kMedium, kHigh };

[[nodiscard]] std::string_view name(
    Layer layer);  // "hardware", "driver", …: stable names for JSON, like the names below
[[nodiscard]] std::string_view name(Severity severity);      // "info", "warning", "error", "fatal"
[[nodiscard]] std::string_view name(Confidence confidence);  // "low", "medium", "high"

/// One way to fix a problem. A finding lists the best fix first.
struct Fix {
  std::string command;  // one or more lines to paste; "" if no command helps
  std::string says;     // what the command does or costs; "" if the command itself is clear enough
};

struct Finding {
  std::string id;  // "FW02"
  Layer layer = Layer::kHardware;
  Severity severity = Severity::kInfo;
  Confidence confidence = Confidence::kLow;
  std::string title;                  // one sentence, with the measured values
  std::vector<std::string> evidence;  // the observations that prove it, with measured values
  std::vector<Fix> fix;
  std::vector<std::string> explains;  // ids of the findings that this one causes
  std::string explained_by;  // id of the finding that explains this one; "" for a root cause
  std::string file;          // where the finding is; only for rules about source files
  int line = 0;
};

/// A rule that could not be checked, because something could not be read.
struct NotChecked {
  std::string id;   // the rule's id
  std::string why;  // what could not be read, and why: "/dev/kmsg: Operation not permitted"
};

struct Diagnosis {
  std::string verdict;            // the whole result in one sentence
  std::vector<Finding> findings;  // sorted: root causes come before the findings that they explain
  std::vector<NotChecked> not_checked;
  std::vector<std::string> checked;  // ids of rules that ran and found nothing
};

/// Whether no rule could be checked. Then it is unknown whether the machine is healthy.
[[nodiscard]] inline bool is_empty_look(const Diagnosis& diagnosis) {
  return diagnosis.findings.empty() && diagnosis.checked.empty();
}

}  // namespace berth::model
