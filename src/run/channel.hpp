// What front and keeper tell each other: fixed records over a SOCK_SEQPACKET pair between two
// processes of one program, so no version and no byte order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/descriptor.hpp"

namespace berth::run {

/// From the keeper.
struct Event {
  enum class Kind : std::uint32_t {
    kStarted,     // pid: the workload runs its command
    kNotStarted,  // value: errno of the exec (or of the fork: pid is 0)
    kUnpinned,    // value: errno of sched_setaffinity; the workload runs all the same
    kStopped,     // value: the signal that stopped the workload
    kContinued,
    kExited,    // value: its wait status; the processes it left are being ended
    kLeft,      // pid, words: a process that it left behind, before that is ended
    kFinished,  // value: how many could not be ended; the sums are over everything that was waited
                // for
  };
  Kind kind = Kind::kStarted;
  std::int32_t pid = 0;
  std::int32_t value = 0;
  std::int64_t cpu_microseconds = 0;
  std::int64_t peak_rss_kib = 0;  // of the largest single process
  std::array<char, 64> words{};   // the beginning of its command line, ends with 0
};

/// From the front: hand this signal to the workload.
struct Order {
  std::int32_t signal = 0;  // 0: none; a kStopped was dealt with, the front runs (again)
  std::int32_t seen_by_group =
      0;  // the front's process group got it: a workload in that group has it already
  std::int32_t queued = 0;  // by sigqueue(), with `value`
  std::int32_t reserved = 0;
  std::int64_t value = 0;
};

/// The first record from the front.
struct Greeting {
  std::int32_t signal_probe = -1;  // its pid; the front is ready to take signals
};

struct Channel {
  Descriptor front, keeper;
};
[[nodiscard]] std::optional<Channel> make_channel();

/// False when nobody is there any more. Never blocks, never raises SIGPIPE.
bool send_record(int fd, const void* bytes, std::size_t size);
/// 1: a record came, 0: none waits, -1: the other side is gone.
[[nodiscard]] int receive_record(int fd, void* bytes, std::size_t size);

template <typename Record>
bool send(int fd, const Record& record) {
  static_assert(std::is_trivially_copyable_v<Record>);
  return send_record(fd, &record, sizeof record);
}
template <typename Record>
[[nodiscard]] int receive(int fd, Record& record) {
  static_assert(std::is_trivially_copyable_v<Record>);
  return receive_record(fd, &record, sizeof record);
}

/// pidfd_open; -1 on kernels before 5.3 (the channel's end tells as well).
[[nodiscard]] Descriptor open_process(int pid);

}  // namespace berth::run
