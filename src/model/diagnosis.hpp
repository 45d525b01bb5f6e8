// Diagnosis: what `berth doctor` found, root cause first. Plain values; all texts are translated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// From the ground up: a cause on one layer explains what is wrong on those above.
enum class Layer : unsigned char {
  kHardware,
  kDriver,  // the kernel's side: modules, device nodes, what the driver says of a GPU
  kContainer,
  kEnvironment,  // variables
  kLibraries,
  kFramework,
  kRuntime,
  kSource,
};
enum class Severity : unsigned char { kInfo, kWarning, kError, kFatal };
/// kLow: no public case has shown yet that the rule is right.
enum class Confidence : unsigned char { kLow, kMedium, kHigh };

[[nodiscard]] std::string_view name(
    Layer layer);  // "hardware", "driver", …: stable, for JSON; so are the others
[[nodiscard]] std::string_view name(Severity severity);      // "info", "warning", "error", "fatal"
[[nodiscard]] std::string_view name(Confidence confidence);  // "low", "medium", "high"

/// One way to mend it; findings offer them best first.
struct Fix {
  std::string command;  // to paste, one or more lines; "" where only hands help
  std::string says;     // what it does or costs; "" where the command says it
};

struct Finding {
  std::string id;  // "FW02"
  Layer layer = Layer::kHardware;
  Severity severity = Severity::kInfo;
  Confidence confidence = Confidence::kLow;
  std::string title;                  // one sentence, with the measured values
  std::vector<std::string> evidence;  // how we know, with the measured values
  std::vector<Fix> fix;
  std::vector<std::string> explains;  // ids of other findings of this diagnosis
  std::string explained_by;           // the id of the one that does so; "" a cause of its own
  std::string file;                   // source rules: where
  int line = 0;
};

/// A rule that needed something which could not be read.
struct NotChecked {
  std::string id;   // the rule's
  std::string why;  // "/dev/kmsg: Operation not permitted"
};

struct Diagnosis {
  std::string verdict;            // one sentence
  std::vector<Finding> findings;  // by cause: what explains stands before what it explains
  std::vector<NotChecked> not_checked;
  std::vector<std::string> checked;  // ids of the rules that could look and found nothing
};

/// No rule could look: that is no clean bill.
[[nodiscard]] inline bool is_empty_look(const Diagnosis& diagnosis) {
  return diagnosis.findings.empty() && diagnosis.checked.empty();
}

}  // namespace berth::model
