// One program under watch: its answers, its noise, and the certainty that nothing of it stays.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace berth::doctor {

class ProbeChild {
 public:
  /// Starts `words` with just these variables. Descriptor 3 of it is for answers. A keeper stands
  /// between us and it, so that what it starts and leaves behind is ended as well, even when we are
  /// killed.
  ProbeChild(const std::vector<std::string>& words, const std::vector<std::string>& environment);
  ~ProbeChild();
  ProbeChild(ProbeChild&& other) noexcept;
  ProbeChild& operator=(ProbeChild&&) = delete;
  ProbeChild(const ProbeChild&) = delete;
  ProbeChild& operator=(const ProbeChild&) = delete;

  [[nodiscard]] bool started() const { return keeper_ > 0; }
  /// Descriptors to wait on: answers, noise, end.
  [[nodiscard]] int answers() const { return answers_.get(); }
  [[nodiscard]] int noise() const { return noise_.get(); }
  [[nodiscard]] int life() const { return life_.get(); }
  /// Takes what is there without waiting.
  void read();
  /// Lets it go on: a byte on its stdin.
  void say_go();
  /// Ends it with all that it started, and waits a little for that.
  void end();

  /// Whole lines so far, at most 64 KiB.
  [[nodiscard]] const std::string& lines() const { return lines_; }
  /// The last 4 KiB of stdout and stderr.
  [[nodiscard]] const std::string& last_words() const { return last_words_; }
  /// As wait() gives it; nullopt while it runs, and where it was ended.
  [[nodiscard]] std::optional<int> status() const { return status_; }

 private:
  pid_t keeper_ = -1;
  Descriptor answers_, noise_, life_, go_;
  std::string lines_, last_words_;
  std::optional<int> status_;
};

}  // namespace berth::doctor
