// collect(): reads everything from the outside world in one pass.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "doctor/facts/facts.hpp"
#include "doctor/facts/request_facts.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// The source of facts: this machine or a bundle.
struct Sources {
  Tree tree{"/"};
  Fact<std::string> kernel_log;  // the newest part, at most 4 MiB
  DriverAnswers driver;
  ProcessFacts process;
  std::string python;  // the target interpreter's path in `tree`; "" none
  RequestFacts request;
  bool recorded = false;  // a bundle: it has packages, but rarely programs
};

enum class Depth { kStatic, kLive };

/// This machine's files, without mounts that do not answer.
[[nodiscard]] Tree answering_tree();
/// This machine, as seen by the calling process.
[[nodiscard]] Sources this_machine(Depth depth);
/// A running process. Fails with E0805.
[[nodiscard]] Result<Sources> of_process(std::int64_t pid, Depth depth);
/// A recorded machine: a NAME.machine file or a bundle's folder. Fails with E0801, E0802.
[[nodiscard]] Result<Sources> from_bundle(const std::string& path);

[[nodiscard]] Facts collect(const Sources& sources);

}  // namespace berth::doctor
