// What each GPU framework of the target answered when it was asked to run a kernel (--deep). Facts
// of the moment: they say that something works or fails, and not why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"

namespace berth::doctor {

struct ProbedDevice {
  int index = 0;     // as the framework counts
  std::string name;  // "" not told
  bool ran = false;
  std::string message;  // of the failure
};

enum class ProbeState : unsigned char {
  kRan,          // a kernel, on every device that it sees
  kFailed,       // on some device, or before the first
  kNoDevice,     // built for GPUs, and sees none
  kCpuBuild,     // built without GPUs: nothing to probe
  kNotImported,  // `import` failed
  kCrashed,      // by a signal, or it ended without a word
  kNoAnswer,     // was killed at the deadline
  kNotReached,   // its turn did not come
};
/// "ran", "failed", …: stable, for JSON and bundles.
[[nodiscard]] std::string_view name(ProbeState state);

struct ProbeAnswer {
  std::string framework;  // as it is imported: "torch"
  std::string version;    // "" not told
  ProbeState state = ProbeState::kNotReached;
  std::string message;  // why, where it did not run
  std::vector<ProbedDevice> devices;
};

/// One answer a framework. Absent: nobody asked for a probe; unreadable: it could not be made.
using ProbeFacts = Fact<std::vector<ProbeAnswer>>;

}  // namespace berth::doctor
