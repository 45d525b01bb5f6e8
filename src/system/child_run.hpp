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
  std::string input = {};  // text that the program gets as stdin
  // time limit; after it, the program and the processes that it started are killed
  std::chrono::seconds longest{0};
  // how many bytes of stdout, and of stderr, are kept; the rest is discarded
  std::size_t most_bytes = 0;
  // "NAME=value": added to the variables of this process, which the program inherits
  std::vector<std::string> variables = {};
  std::string file = {};  // content of /dev/fd/3 in the program; if empty, there is no such file
};

struct ChildResult {
  int problem = 0;      // errno if the program could not be started
  bool is_over = true;  // false if the program was killed
  int status = 0;       // status from waitpid()
  std::string output = {}, errors = {};
};

/// Kills the program when `is_stopped` becomes true.
[[nodiscard]] ChildResult run_child(const ChildRun& run, const std::atomic<bool>& is_stopped);

}  // namespace berth::system
