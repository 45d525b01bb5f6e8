// Tries: how often a job was started (--retries), and how its ranks ended (--ranks). Plain values;
// run/supervisor fills them, output shows them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/nccl.hpp"

namespace berth::model {

/// Why a try of the job ended, if there is evidence.
enum class TryClass {
  kOk,
  kUserError,
  kOutOfMemory,
  kDeviceFault,
  kKilled,  // ended by a signal that Berth did not send
  kHang,
  kStopped,      // ended by a user or a limit: Ctrl-C, SIGTERM, `berth cancel`, its time limit
  kPreempted,    // ended because another job needed its devices; the job waits again
  kNodeShutdown  // the machine was shutting down
};
[[nodiscard]] std::string_view name(TryClass one);  // "ok", "user error", "out of memory", …
[[nodiscard]] std::optional<TryClass> try_class(std::string_view name);

/// What Berth changed for a try, because of how the try before it ended.
enum class TryChange {
  kNothing,
  kOtherDevice,      // the try runs on other devices
  kWaitedForMemory,  // the try began after other programs had released memory of its device
  kSmallerBatch      // BERTH_BATCH_SCALE is smaller
};
[[nodiscard]] std::string_view name(TryChange one);  // "", "other device", "smaller batch", …

/// What a rank had to do with the end of its try.
enum class RankPart {
  kOk,           // the rank ended with exit code 0
  kFailedFirst,  // the rank failed before all others; its exit code is that of the job
  kVictim,       // the rank failed or was ended by Berth, because another rank had failed
  kStopped,      // the rank ended because a user or Berth ended the whole job
  kUnkillable,   // the rank still exists after SIGKILL, because it is blocked in the kernel
  kLeftEarly     // the rank ended with exit code 0 while others still needed it
};
[[nodiscard]] std::string_view name(RankPart part);  // "ok", "failed first", "victim", …

struct RankEnd {
  int rank = 0;
  std::int64_t pid = 0;
  RankPart part = RankPart::kOk;
  std::optional<int> exit_code;  // nullopt if a signal ended the rank, or if it did not end
  std::optional<int> signal;
  std::chrono::milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;
  std::vector<int> devices;  // numbers of its devices (Device::index)
  std::string cpus;  // CPU affinity in the kernel's list format; "" if it is that of the job
  int threads = 0;
  std::vector<std::string> last_lines;  // the last lines of its output, if it failed
  std::string traceback;  // traceback of Python on standard error; "" if there is none
  std::string log;        // the file with its output; "" if there is none
  // bytes of its output that are missing in the file, because of --log-limit
  std::uint64_t log_left_out_bytes = 0;
};

/// A collective operation (such as all_reduce) in PyTorch's flight recorder.
struct Collective {
  std::string name;          // such as "all_reduce"
  std::string group;         // name of the process group, such as "default_pg"; "" if not known
  std::int64_t number = -1;  // number of the operation within the group; -1 if not known
  std::string state;         // "scheduled", "started", "completed"; "" if not known
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// What Berth saw when no rank made progress, or when ranks waited long for busy ranks.
struct HangSeen {
  std::chrono::milliseconds after{0};   // when this was seen: time since the try began
  std::chrono::milliseconds silent{0};  // how long nothing had changed when this was seen
  std::vector<int> odd_ranks;           // ranks whose state differs from that of most others
  // true if this is no hang: the odd ranks are busy, and the others wait for them
  bool is_slow = false;
  bool is_connecting = false;  // the other ranks still wait for all ranks to connect
  struct Rank {
    int rank = 0;
    // the kernel function or system call in which its main thread waits; "" if unknown
    std::string waits_in;
    std::string stack;        // the Python stack, most recent call first; "" if there is none
    std::string where;        // the most recent line of the user's code: "train.py:12 in step"
    bool has_ended = false;   // whether the rank has ended with exit code 0
    std::string native = {};  // native functions, one per line, innermost first; "" if unknown
    // the collective operation that the rank started last
    std::optional<Collective> collective = {};
  };
  std::vector<Rank> ranks;
  bool is_over = false;  // whether the ranks have since made progress or ended
};

struct Try {
  int number = 1;
  TryClass kind = TryClass::kOk;
  // the observation that decides the class, such as a line of output; not translated
  std::string evidence;
  std::optional<int> exit_code, signal;
  std::chrono::milliseconds wall{0};
  std::chrono::milliseconds waited{0};  // how long the job waited before this try
  TryChange change = TryChange::kNothing;
  // the value of BERTH_BATCH_SCALE; the program multiplies its batch size by it
  double batch_scale = 1;
  int world_size = 1;
  // numbers of devices that are not used any more, because of a device fault (Device::index)
  std::vector<int> lost_devices;
  std::vector<RankEnd> ranks;  // one entry per rank; a job without --ranks has one entry
  std::vector<HangSeen> hangs;
  std::optional<NcclSeen> nccl;  // only with --nccl-debug and if NCCL was used
  // Ranks that ended with exit code 0 while other ranks still needed them. So the others failed, or
  // waited until they were killed.
  std::vector<int> left_early;
};

/// What --preflight found before the first try.
struct Preflight {
  enum class State { kOk, kSkipped, kFailed } state = State::kFailed;
  std::string backend;  // "gloo" or "nccl"; "" if not known
  std::string step;  // the failed step: "meet", "versions", "all-reduce"; "" if none or not known
  std::string why;   // why the check failed or was skipped; the text comes from the job's Python
  std::chrono::milliseconds took{0};
};

struct Tries {
  std::optional<Preflight> preflight;
  bool has_ranks = false;
  int world_size = 1;
  int most_tries = 1;
  std::string master;  // address at which the ranks of the last try met: "127.0.0.1:40123"
  std::vector<Try> all;
};

/// A sentence about a hang: which rank differs from the others, and where it is in its code.
[[nodiscard]] std::string hang_sentence(const HangSeen& hang);
/// The last collectives of the ranks: "ranks 0,2: all_reduce 42, started"; "" if none is known.
[[nodiscard]] std::string collectives_sentence(const HangSeen& hang);
/// The hang that is still going on; nullptr if there is none.
[[nodiscard]] const HangSeen* hang_now(const Tries& tries);
/// At the last hang: the ranks that had ended with exit code 0 while all others waited for them.
/// Empty if the others waited for a rank that still existed.
[[nodiscard]] std::vector<int> gone_while_others_waited(const Try& one);
/// Whether --hang-action ended this try.
[[nodiscard]] bool was_ended_for_hang(const Try& one);
/// The rank that failed first, which determines the job's exit code. nullptr if no rank failed, or
/// if ranks failed only because another rank had already ended successfully.
[[nodiscard]] const RankEnd* first_failed(const Try& one);

}  // namespace berth::model
