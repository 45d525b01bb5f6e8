// Runs a program to its end, with a deadline, for a thread that may wait.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace berth::system {

struct ChildRun {
  std::string program;  // a path, or a name that is looked up in PATH
  std::vector<std::string> words;
  std::string input = {};  // its stdin
  // time limit; then the program and the processes that it started are killed
  std::chrono::seconds longest{0};
  std::size_t most_bytes = 0;  // how much of stdout, and of stderr, is kept; the rest is discarded
  std::vector<std::string> variables = {};  // "NAME=value": added to this program's variables
  std::string file = {};  // what the program finds in /dev/fd/3; "": there is none
};

struct ChildResult {
  int problem = 0;      // an errno if it could not be started
  bool is_over = true;  // false: it was killed
  int status = 0;       // of waitpid()
  std::string output = {}, errors = {};
};

/// Kills the program when `is_stopped` becomes true.
[[nodiscard]] ChildResult run_child(const ChildRun& run, const std::atomic<bool>& is_stopped);

}  // namespace berth::system
