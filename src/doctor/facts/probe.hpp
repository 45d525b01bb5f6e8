// The result of running a kernel in each GPU framework of the target (--deep). It shows whether the
// framework works, but not why it fails.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

struct ProbedDevice {
  int index = 0;     // the device's index in the framework
  std::string name;  // empty if unknown
  bool ran = false;
  std::string message;  // the error message of the failure
};

enum class ProbeState : unsigned char {
  kRan,          // ran a kernel on every visible device
  kFailed,       // failed on a device, or before it used any device
  kNoDevice,     // built for GPUs, but finds none
  kCpuBuild,     // built without GPU support, so there is nothing to probe
  kNotImported,  // `import` failed
  kCrashed,      // killed by a signal, or exited without an answer
  kNoAnswer,     // killed at the deadline
  kNotReached,   // not started before the deadline
};
/// "ran", "failed", …: part of JSON and bundles, so these words stay the same.
[[nodiscard]] std::string_view name(ProbeState state);

struct ProbeAnswer {
  std::string framework;  // name of the Python module: "torch"
  std::string version;    // empty if unknown
  ProbeState state = ProbeState::kNotReached;
  std::string message;  // why no kernel ran
  std::vector<ProbedDevice> devices;
};

/// One answer per framework. Absent: no probe was requested; unreadable: the probe failed.
using ProbeFacts = Fact<std::vector<ProbeAnswer>>;

}  // namespace berth::doctor
