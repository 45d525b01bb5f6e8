// The messages between front and keeper: records of fixed size over a SOCK_SEQPACKET pair. Both
// processes run the same program, so records need no version and no byte order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/descriptor.hpp"
#include "model/run.hpp"

namespace berth::run {

/// From the keeper. The comment of each kind tells which of `pid`, `value` and `words` it sets.
struct Event {
  enum class Kind : std::uint32_t {
    kStarted,     // pid: the workload runs its command
    kNotStarted,  // value: errno of the exec (or of the fork: pid is 0)
    kUnpinned,    // value: errno of sched_setaffinity; the workload runs anyway
    kStopped,     // value: the signal that stopped the workload
    kContinued,
    kExited,  // value: its wait status; its remaining processes are being ended
    kStuck,   // pid: a process that could not be ended, because it waits in the kernel
    kLeft,    // pid, words: a remaining process that will be ended
    // value: number of processes that could not be ended; also sets the CPU time and peak memory of
    // all reaped processes
    kFinished,
  };
  Kind kind = Kind::kStarted;
  std::int32_t pid = 0;
  std::int32_t value = 0;
  std::int64_t cpu_microseconds = 0;
  std::int64_t peak_rss_kib = 0;  // peak of the largest single process
  model::CheckpointSignal checkpoint = {};
  std::array<char, 64> words{};  // the beginning of its command line, NUL-terminated
};

/// From the front: send this signal to the workload.
struct Order {
  std::int32_t signal = 0;  // 0: no signal to send; the front handled a kStopped and runs (again)
  std::int32_t seen_by_group =
      0;  // the front's process group received it, so a workload in that group has it already
  std::int32_t queued = 0;  // sent by sigqueue(), with `value`
  std::int32_t reserved = 0;
  std::int64_t value = 0;
};

/// The first record from the front.
struct Greeting {
  // pid of the signal probe; the record also tells that the front can receive signals now
  std::int32_t signal_probe = -1;
};

struct Channel {
  Descriptor front, keeper;
};
[[nodiscard]] std::optional<Channel> make_channel();

/// False if the other side has closed. Never blocks, never raises SIGPIPE.
bool send_record(int fd, const void* bytes, std::size_t size);
/// 1: received a record, 0: none available, -1: the other side has closed.
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

/// pidfd_open; -1 on kernels before 5.3, where only the end of the channel shows that a process
/// ended.
[[nodiscard]] Descriptor open_process(int pid);

}  // namespace berth::run
