// Runs one command on several machines through the user's ssh, and passes on its output line by
// line. If a machine does not answer, the command is started there again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"

namespace berth::cli {

/// The local command, with its arguments, that runs `command` on a machine.
[[nodiscard]] std::vector<std::string> ssh_words(const std::string& host,
                                                 const std::string& command);
/// Why a machine gave no answer: derived from the wait status of ssh and its stderr.
[[nodiscard]] std::string why_no_answer(int status, std::string_view errors);

class HostStreams {
 public:
  struct Options {
    std::chrono::milliseconds silence{
        30'000};  // a machine that sends no line for this long has failed
    // pause before the command is started again on that machine
    std::chrono::milliseconds retry{10'000};
    std::size_t most_line = 16 << 20;
  };
  /// Callbacks of update(). Each gets the index of the machine.
  struct Events {
    std::function<void(std::size_t, std::string_view line)> on_line;
    std::function<void(std::size_t, const std::string& why)> on_failure;
  };

  HostStreams(const std::vector<std::string>& hosts, std::string command, Options options,
              Events events);
  /// Kills the ssh programs that are still running.
  ~HostStreams();
  HostStreams(const HostStreams&) = delete;
  HostStreams& operator=(const HostStreams&) = delete;

  /// An epoll descriptor that is readable when update() has something to do, at least once a
  /// second.
  [[nodiscard]] int descriptor() const { return events_descriptor_.get(); }
  /// Reads the lines that have arrived, without waiting.
  void update();

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream;
  void start(Stream& stream);
  void read(Stream& stream, std::size_t position);
  void fail(Stream& stream, std::size_t position, const std::string& why);

  std::string command_;
  Options options_;
  Events events_;
  Descriptor events_descriptor_, timer_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace berth::cli
