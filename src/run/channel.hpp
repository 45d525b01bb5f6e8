// The messages between the front (the `berth run` that the user started) and the keeper (its child
// process, which runs the job). They are records of fixed size over a SOCK_SEQPACKET pair. Both
// processes run the same program, so records need no version and no byte order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/descriptor.hpp"
#include "model/run.hpp"

namespace berth::run {

/// A message from the keeper. The comment of each kind names the fields that it sets, such as
/// `value`.
struct Event {
  enum class Kind : std::uint32_t {
    kStarted,     // the workload with this `pid` runs its command
    kNotStarted,  // `value`: errno of the exec; if `pid` is 0, errno of the fork
    kUnpinned,    // `value`: errno of sched_setaffinity; the workload runs anyway
    kStopped,     // `value`: the signal that stopped the workload
    kContinued,
    kExited,  // `value`: the workload's wait status; its remaining processes are being ended
    kStuck,   // the process `pid` could not be ended, because it waits in the kernel
    kLeft,    // the remaining process `pid` with the command line `words` will be ended
    // `value`: number of processes that could not be ended. Also sets the CPU time and peak memory
    // of all reaped processes.
    kFinished,
  };
  Kind kind = Kind::kStarted;
  std::int32_t pid = 0;
  std::int32_t value = 0;
  std::int64_t cpu_microseconds = 0;
  std::int64_t peak_rss_kib = 0;  // peak memory of the largest single process
  model::CheckpointSignal checkpoint = {};
  std::array<char, 64> words{};  // the beginning of the process's command line, NUL-terminated
};

/// From the front: send this signal to the workload.
struct Order {
  std::int32_t signal = 0;  // 0: send no signal; the front has handled kStopped and runs (again)
  std::int32_t seen_by_group =
      0;  // the front's process group received it, so a workload in that group has it already
  std::int32_t queued = 0;  // 1: the signal was sent by sigqueue() with `value`
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

/// Sends a record. Returns false if the other side has closed the channel. Never blocks, never
/// raises SIGPIPE.
bool send_record(int fd, const void* bytes, std::size_t size);
/// Returns 1 if it received a record, 0 if none is available, and -1 if the other side has closed
/// the channel.
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

/// Opens a pidfd. Kernels before 5.3 have none, so the result is -1. There, only the end of the
/// channel shows that a process has ended.
[[nodiscard]] Descriptor open_process(int pid);

}  // namespace berth::run
