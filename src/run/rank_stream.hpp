// Passes a rank's output from its pipe to the terminal, in whole lines.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "run/rank_lines.hpp"

namespace berth::run {

/// Buffers bytes for standard output or error, because the process that reads them may be slow or
/// gone.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  void add(std::string_view bytes) {
    if (!gone_) waiting_ += bytes;
  }
  [[nodiscard]] bool is_full() const { return waiting_.size() >= kMostWaiting; }
  [[nodiscard]] bool is_gone() const { return gone_; }
  [[nodiscard]] bool has_bytes() const { return !waiting_.empty(); }
  [[nodiscard]] pollfd wish() const { return {has_bytes() ? fd_ : -1, POLLOUT, 0}; }
  /// Call it when poll() reports that the descriptor is writable. It writes few bytes, so it never
  /// blocks.
  void write();

 private:
  static constexpr std::size_t kMostWaiting =
      1 << 20;  // when so many bytes are buffered, no more is read from the rank's pipe

  int fd_;
  std::string waiting_;
  bool gone_ = false;
};

/// Standard output or standard error of a rank.
class RankStream {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RankStream(std::string prefix, std::size_t kept) : lines_(std::move(prefix)), tail_(kept) {}

  /// Makes the pipe. `its_end`: the end to which the rank writes.
  [[nodiscard]] bool open(Descriptor& its_end);
  /// Shows the output in lines with a prefix, or unchanged after set_raw(true).
  void show(Sink& to) { to_ = &to; }
  void set_raw(bool raw) { raw_ = raw; }

  /// The descriptor to read from; -1: the stream has ended, or its reader is too slow now.
  [[nodiscard]] int wish() const { return from_ && !(to_ && to_->is_full()) ? from_.get() : -1; }
  [[nodiscard]] bool is_open() const { return static_cast<bool>(from_); }
  [[nodiscard]] int descriptor() const { return from_.get(); }
  void close() { from_.reset(); }

  /// Handles bytes that were read from the pipe. Closes the pipe if the output has no reader any
  /// more, so that the program gets SIGPIPE or EPIPE, as it would without Berth.
  void take(std::string_view bytes);
  /// When to call show_rest(). It shows a line that has not ended for a while, such as a prompt.
  [[nodiscard]] std::optional<Time> rest_due() const;
  void show_rest(Time now);
  /// Shows the rest of the last line, and closes the pipe.
  void finish();

  [[nodiscard]] std::string_view tail() const { return tail_.bytes(); }

 private:
  Descriptor from_;
  Sink* to_ = nullptr;  // where the output is shown; nullptr: it is not shown
  bool raw_ = false;
  RankLines lines_;
  Tail tail_;
  std::optional<Time> rest_since_;
};

}  // namespace berth::run
