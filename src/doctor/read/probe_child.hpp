// Runs a program, collects its answers and its output, and makes sure that none of its processes
// survives.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace berth::doctor {

class ProbeChild {
 public:
  /// Starts `words` with only these variables. The program writes answers to descriptor 3. A
  /// supervisor process between this process and the program kills the program's descendants at the
  /// end, even if this process is killed.
  ProbeChild(const std::vector<std::string>& words, const std::vector<std::string>& environment);
  ~ProbeChild();
  ProbeChild(ProbeChild&& other) noexcept;
  ProbeChild& operator=(ProbeChild&&) = delete;
  ProbeChild(const ProbeChild&) = delete;
  ProbeChild& operator=(const ProbeChild&) = delete;

  [[nodiscard]] bool started() const { return keeper_ > 0; }
  /// Descriptors to poll: for answers, for output, for the program's end.
  [[nodiscard]] int answers() const { return answers_.get(); }
  [[nodiscard]] int noise() const { return noise_.get(); }
  [[nodiscard]] int life() const { return life_.get(); }
  /// Reads available data without blocking.
  void read();
  /// Lets the program continue, by sending a newline to its stdin.
  void say_go();
  /// Kills the program with all its descendants, and waits a short time for their end.
  void end();

  /// The complete lines received so far, at most 64 KiB.
  [[nodiscard]] const std::string& lines() const { return lines_; }
  /// The last 4 KiB that the program wrote to stdout and stderr.
  [[nodiscard]] const std::string& last_words() const { return last_words_; }
  /// The status from wait(). nullopt while the program runs, or if end() has killed it.
  [[nodiscard]] std::optional<int> status() const { return status_; }

 private:
  pid_t keeper_ = -1;
  Descriptor answers_, noise_, life_, go_;
  std::string lines_, last_words_;
  std::optional<int> status_;
};

}  // namespace berth::doctor
