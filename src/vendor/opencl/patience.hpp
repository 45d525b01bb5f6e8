// How long Berth waits for the process that lists OpenCL devices. A process that sleeps gets no
// more than the time limit. A process that computes, reads from the disk, or waits for a core of a
// busy machine gets more time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

namespace berth::opencl {

class Patience {
 public:
  /// `parent`: Berth waits for a child of this process.
  Patience(pid_t parent, std::chrono::steady_clock::time_point start,
           std::chrono::milliseconds deadline);
  /// The time at which to call renew().
  [[nodiscard]] std::chrono::steady_clock::time_point until() const { return until_; }
  /// Extends the wait; returns false to give up: after ten times the time limit, or when the
  /// process has used as much CPU time as the limit, whichever is first.
  [[nodiscard]] bool renew(std::chrono::steady_clock::time_point now);

 private:
  struct Seen {
    std::chrono::nanoseconds cpu{0};
    std::uint64_t major_faults = 0;  // pages that were read from the disk
    bool runs = false;               // the process runs or waits for a core
  };
  [[nodiscard]] Seen look() const;

  pid_t parent_;
  std::chrono::steady_clock::time_point start_, until_;
  std::chrono::milliseconds deadline_;
  Seen last_;
};

}  // namespace berth::opencl
