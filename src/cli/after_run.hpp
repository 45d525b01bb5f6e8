// What `berth run` does when its command has ended: --on-end and --notify.
#pragma once

#include <chrono>
#include <string>

#include "model/run.hpp"

namespace berth::cli {

struct AfterRun {
  std::string on_end;   // a shell command; "" none
  bool notify = false;  // on the user's terminals and desktop
  std::string name;     // of the job, or its command

  /// Waits for the shell command, at most a minute. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed
  /// on to it. Its output goes to our standard error.
  void act(const model::Outcome& outcome, std::chrono::milliseconds wall) const;
};

}  // namespace berth::cli
