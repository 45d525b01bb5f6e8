// Tries: how the ranks of a job ended, and how often the job was started (--ranks, --retries).
// Plain values; run/supervisor fills them, output shows them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/nccl.hpp"

namespace berth::model {

/// Why a try ended, as far as there is evidence.
enum class TryClass {
  kOk,
  kUserError,
  kOutOfMemory,
  kDeviceFault,
  kKilled,  // a signal that Berth did not send ended it
  kHang,
  kStopped,    // a person or a limit ended the job: Ctrl-C, SIGTERM, `berth cancel`, its time limit
  kPreempted,  // ended because another job needed its devices; waits again
  kNodeShutdown  // the machine was shutting down
};
[[nodiscard]] std::string_view name(TryClass one);  // "ok", "user error", "out of memory", …
[[nodiscard]] std::optional<TryClass> try_class(std::string_view name);

/// What is different in a try, because of how the try before it ended.
enum class TryChange {
  kNothing,
  kOtherDevice,      // it runs on other devices
  kWaitedForMemory,  // it waited until other programs had released memory of its device
  kSmallerBatch      // BERTH_BATCH_SCALE is smaller
};
[[nodiscard]] std::string_view name(TryChange one);  // "", "other device", "smaller batch", …

/// What a rank contributed to the end of its try.
enum class RankPart {
  kOk,           // the rank ended with exit code 0
  kFailedFirst,  // the rank failed first; its exit code is the job's
  kVictim,       // this rank failed, or Berth ended it, because another rank had failed
  kStopped,      // the rank ended because the job was ended on purpose
  kUnkillable,   // the rank still exists after SIGKILL, because it is blocked in the kernel
  kLeftEarly     // the rank ended with exit code 0 while others still needed it
};
[[nodiscard]] std::string_view name(RankPart part);  // "ok", "failed first", "victim", …

struct RankEnd {
  int rank = 0;
  std::int64_t pid = 0;
  RankPart part = RankPart::kOk;
  std::optional<int> exit_code;  // nullopt: a signal ended it, or it did not end
  std::optional<int> signal;
  std::chrono::milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;
  std::vector<int> devices;  // Device::index
  std::string cpus;          // affinity in the kernel's list format; "": the job's affinity
  int threads = 0;
  std::vector<std::string> last_lines;   // the last lines of its output; only for ranks that failed
  std::string traceback;                 // Python's traceback from standard error; "" none
  std::string log;                       // the file that contains its output; "" none
  std::uint64_t log_left_out_bytes = 0;  // bytes of its output that --log-limit left out
};

/// A collective operation, as PyTorch's flight recorder records it.
struct Collective {
  std::string name;          // "all_reduce"
  std::string group;         // "default_pg"; "" not known
  std::int64_t number = -1;  // number of the operation within the group; -1: not known
  std::string state;         // "scheduled", "started", "completed"; "" not known
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// What was observed when no rank made progress, or when ranks waited for a long time for busy
/// ranks.
struct HangSeen {
  std::chrono::milliseconds after{0};   // time since the try began
  std::chrono::milliseconds silent{0};  // for how long nothing had changed
  std::vector<int> odd_ranks;           // ranks whose state differs from that of most other ranks
  bool is_slow = false;        // not a hang: the odd ranks are busy, and the others wait for them
  bool is_connecting = false;  // the others wait in the call that connects all ranks
  struct Rank {
    int rank = 0;
    std::string
        waits_in;  // the kernel function or system call in which its main thread waits; "" unknown
    std::string stack;        // the Python stack, with the most recent call first; "" none
    std::string where;        // the innermost line of user code: "train.py:12 in step"
    bool has_ended = false;   // the rank has ended with exit code 0
    std::string native = {};  // native functions, the innermost first, a line each; "" unknown
    std::optional<Collective> collective = {};  // the last collective that the rank started
  };
  std::vector<Rank> ranks;
  bool is_over = false;  // the ranks have made progress since, or have ended
};

struct Try {
  int number = 1;
  TryClass kind = TryClass::kOk;
  std::string evidence;  // what the class is based on: a line of output, a count; not translated
  std::optional<int> exit_code, signal;
  std::chrono::milliseconds wall{0};
  std::chrono::milliseconds waited{0};  // waiting time between the previous try and this one
  TryChange change = TryChange::kNothing;
  double batch_scale = 1;  // BERTH_BATCH_SCALE, by which the program multiplies its batch size
  int world_size = 1;
  std::vector<int> lost_devices;  // Device::index of devices that are left out after a device fault
  std::vector<RankEnd> ranks;     // one entry per rank; a job without --ranks has one entry
  std::vector<HangSeen> hangs;
  std::optional<NcclSeen> nccl;  // with --nccl-debug, if NCCL was used
  // Ranks that ended with 0 while other ranks still needed them. The other ranks failed for that
  // reason, or waited until they were killed.
  std::vector<int> left_early;
};

/// What --preflight found before the first try.
struct Preflight {
  enum class State { kOk, kSkipped, kFailed } state = State::kFailed;
  std::string backend;  // "gloo", "nccl"; "" not known
  std::string step;  // the step that failed: "meet", "versions", "all-reduce"; "" none or not known
  std::string why;   // why it failed or was skipped; a text from the program's Python
  std::chrono::milliseconds took{0};
};

struct Tries {
  std::optional<Preflight> preflight;
  bool has_ranks = false;
  int world_size = 1;
  int most_tries = 1;
  std::string master;  // address of the last try: "127.0.0.1:40123"
  std::vector<Try> all;
};

/// A sentence about what was seen: which rank is odd, and where it is.
[[nodiscard]] std::string hang_sentence(const HangSeen& hang);
/// The last collectives of the ranks: "ranks 0,2: all_reduce 42, started"; "" if none is known.
[[nodiscard]] std::string collectives_sentence(const HangSeen& hang);
/// The hang in which the ranks are now; nullptr: none.
[[nodiscard]] const HangSeen* hang_now(const Tries& tries);
/// The ranks that ended with exit code 0 while all others waited for them, according to the last
/// hang that was seen. Empty if the others waited for a rank that was still there.
[[nodiscard]] std::vector<int> gone_while_others_waited(const Try& one);
/// Whether --hang-action ended this try.
[[nodiscard]] bool was_ended_for_hang(const Try& one);
/// The rank that failed first. It determines the exit code of the job. nullptr if no rank failed,
/// or if ranks failed only because they waited for a rank that had already ended.
[[nodiscard]] const RankEnd* first_failed(const Try& one);

}  // namespace berth::model
