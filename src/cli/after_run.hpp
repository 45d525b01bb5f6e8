// What `berth run` does when its command has ended: --on-end and --notify.
#pragma once

#include <chrono>
#include <string>

#include "model/run.hpp"

namespace berth::cli {

struct AfterRun {
  std::string on_end;   // a shell command; an empty string if there is none
  bool notify = false;  // show a message on the user's terminals and desktop
  std::string name;     // the job's name, or its command if it has no name

  /// Runs the shell command and waits at most a minute for its end. Passes SIGINT, SIGTERM, SIGHUP
  /// and SIGQUIT on to the command. The command's output goes to this process's standard error.
  void act(const model::Outcome& outcome, std::chrono::milliseconds wall) const;
};

}  // namespace berth::cli
