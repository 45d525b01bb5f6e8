// Tries: how the ranks of a job ended, and how often the job was started (--ranks, --retries).
// Plain values; run/supervisor fills them, output shows them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// Why a try ended, from its evidence.
enum class TryClass {
  kOk,
  kUserError,
  kOutOfMemory,
  kDeviceFault,
  kKilled,  // by a signal that Berth did not send
  kHang,
  kStopped  // somebody ended the job: Ctrl-C, SIGTERM, `berth cancel`, its time limit
};
[[nodiscard]] std::string_view name(TryClass one);  // "ok", "user error", "out of memory", …

/// What one rank had to do with the end of its try.
enum class RankPart {
  kOk,           // ended with exit code 0
  kFailedFirst,  // the first that failed; its exit code is the job's
  kVictim,       // Berth ended it, or it failed, because another rank had failed
  kStopped,      // somebody ended the job
  kUnkillable    // still there after SIGKILL: it waits in the kernel
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
  std::string cpus;          // kernel list format; "": as the job
  int threads = 0;
  std::vector<std::string> last_lines;  // of its output; of failed ranks only
  std::string traceback;                // Python's, of standard error; "" none
  std::string log;                      // the file of its output; "" none
};

/// What was seen when no rank made progress, or when busy ranks let the others wait for long.
struct HangSeen {
  std::chrono::milliseconds after{0};   // since the try began
  std::chrono::milliseconds silent{0};  // how long nothing had moved by then
  std::vector<int> odd_ranks;           // those that do something else than most
  bool is_slow = false;  // no hang: the odd ranks are busy, and the others wait for them
  struct Rank {
    int rank = 0;
    std::string waits_in;    // kernel function or system call of its main thread; "" unknown
    std::string stack;       // Python's, the most recent call first; "" none
    std::string where;       // "train.py:12 in step": its innermost line of user code
    bool has_ended = false;  // with exit code 0
  };
  std::vector<Rank> ranks;
};

struct Try {
  int number = 1;
  TryClass kind = TryClass::kOk;
  std::string evidence;  // what the class was decided by: a line of output, a count; not translated
  std::optional<int> exit_code, signal;
  std::chrono::milliseconds wall{0};
  std::chrono::milliseconds waited{0};  // before it, after the try before
  std::vector<RankEnd> ranks;           // of a job without --ranks: one
  std::vector<HangSeen> hangs;
  std::vector<int> left_early;  // ended with 0, and then another rank failed because it was gone
};

struct Tries {
  bool has_ranks = false;
  int world_size = 1;
  int most_tries = 1;
  std::string master;  // "127.0.0.1:40123" of the last try
  std::vector<Try> all;
};

/// What was seen, in a sentence: which rank is odd, and where.
[[nodiscard]] std::string hang_sentence(const HangSeen& hang);
/// The rank whose exit code is the job's; nullptr: none failed.
[[nodiscard]] const RankEnd* first_failed(const Try& one);

}  // namespace berth::model
