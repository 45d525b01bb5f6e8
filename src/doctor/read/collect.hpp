// collect(): reads everything about a machine in one pass, and returns it as facts.
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
  Fact<std::string> kernel_log;  // the newest part of the log, at most 4 MiB
  DriverAnswers driver;
  ProcessFacts process;
  std::string python;  // path of the target's interpreter in `tree`; empty if there is none
  RequestFacts request;
  bool recorded = false;  // from a bundle, which has packages but rarely programs
};

enum class Depth { kStatic, kLive };

/// A tree of this machine's files, without the mounts that do not respond.
[[nodiscard]] Tree answering_tree();
/// Sources for this machine, as the calling process sees it.
[[nodiscard]] Sources this_machine(Depth depth);
/// Sources for a running process. Fails with E0805.
[[nodiscard]] Result<Sources> of_process(std::int64_t pid, Depth depth);
/// Sources for a recorded machine: a NAME.machine file or a bundle's folder. Fails with E0801,
/// E0802.
[[nodiscard]] Result<Sources> from_bundle(const std::string& path);

[[nodiscard]] Facts collect(const Sources& sources);

}  // namespace berth::doctor
