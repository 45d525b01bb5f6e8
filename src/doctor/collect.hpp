// collect(): everything that touches the outside world, in one pass.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "doctor/asked.hpp"
#include "doctor/facts.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// Where facts come from: this machine, or a bundle.
struct Sources {
  Tree tree{"/"};
  Fact<std::string> kernel_log;  // the newest part of it, at most 4 MiB
  DriverAnswers driver;
  ProcessFacts process;
  std::string python;  // the target interpreter's path in `tree`; "" none
  AskedFacts asked;
  bool recorded = false;  // a bundle: it has packages, and hardly ever a program
};

enum class Depth { kStatic, kLive };

/// This machine's files, without mounts that do not answer.
[[nodiscard]] Tree answering_tree();
/// This machine, as the calling process sees it.
[[nodiscard]] Sources this_machine(Depth depth);
/// A running process. Fails with E0805.
[[nodiscard]] Result<Sources> of_process(std::int64_t pid, Depth depth);
/// A recorded one. Fails with E0801, E0802.
[[nodiscard]] Result<Sources> from_bundle(const std::string& folder);

[[nodiscard]] Facts collect(const Sources& sources);

}  // namespace berth::doctor
