// Diagnosis: what `berth doctor` found, root cause first. Plain values; all text is translated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// Lowest layer first: a cause in one layer can explain problems in the layers above.
enum class Layer : unsigned char {
  kHardware,
  kDriver,  // the kernel's side: modules, device nodes, and what the driver reports about a GPU
  kContainer,
  kEnvironment,  // environment variables
  kLibraries,
  kFramework,
  kRuntime,
  kSource,
};
enum class Severity : unsigned char { kInfo, kWarning, kError, kFatal };
/// kLow means that no public case has confirmed the rule yet.
enum class Confidence : unsigned char { kLow, kMedium, kHigh };

[[nodiscard]] std::string_view name(
    Layer layer);  // "hardware", "driver", …: stable names for JSON, like the names below
[[nodiscard]] std::string_view name(Severity severity);      // "info", "warning", "error", "fatal"
[[nodiscard]] std::string_view name(Confidence confidence);  // "low", "medium", "high"

/// One way to fix a problem. A finding lists the best fix first.
struct Fix {
  std::string command;  // one or more lines to paste; "" if no command helps
  std::string says;     // the command's effect or cost; "" if the command is clear
};

struct Finding {
  std::string id;  // "FW02"
  Layer layer = Layer::kHardware;
  Severity severity = Severity::kInfo;
  Confidence confidence = Confidence::kLow;
  std::string title;                  // one sentence, with the measured values
  std::vector<std::string> evidence;  // the observations behind it, with measured values
  std::vector<Fix> fix;
  std::vector<std::string> explains;  // ids of other findings of this diagnosis
  std::string explained_by;  // id of the finding that explains this one; "" for a root cause
  std::string file;          // for rules about source files: the location of the finding
  int line = 0;
};

/// A rule that could not read something it needed.
struct NotChecked {
  std::string id;   // the rule's id
  std::string why;  // what was unreadable: "/dev/kmsg: Operation not permitted"
};

struct Diagnosis {
  std::string verdict;            // one sentence
  std::vector<Finding> findings;  // sorted: root causes come before the findings that they explain
  std::vector<NotChecked> not_checked;
  std::vector<std::string> checked;  // ids of rules that ran and found nothing
};

/// Whether no rule could run, so that it is unknown whether the machine is healthy.
[[nodiscard]] inline bool is_empty_look(const Diagnosis& diagnosis) {
  return diagnosis.findings.empty() && diagnosis.checked.empty();
}

}  // namespace berth::model
