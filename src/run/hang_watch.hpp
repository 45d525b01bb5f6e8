// Watches the ranks of a job for hangs: when to inspect their stacks, and what they show.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/tries.hpp"
#include "run/hang.hpp"

namespace berth::run {

struct WatchedRank {
  int number = 0;
  pid_t pid = -1;             // -1: the rank is not running
  std::uint64_t written = 0;  // bytes of output since it started
};

class HangWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  /// Call it when a new try of the job begins. `stack_folder`: where the ranks write their Python
  /// stacks. `flight_stem`: start of the paths of the flight recorder's files; "": the recorder is
  /// not on.
  void begin(std::string stack_folder, std::string flight_stem, Time now);
  /// The ports at which the ranks meet. Traffic on these ports is not counted as progress.
  void set_meeting_ports(std::set<std::uint16_t> ports) { meeting_ports_ = std::move(ports); }
  /// When look() is due.
  [[nodiscard]] Time next_look() const;
  /// Checks what the ranks did since the last look. Returns a hang or a slow rank that has not been
  /// reported yet. Inspecting the stacks costs the ranks some time, so it is done only once until a
  /// rank is active again. `is_ending`: the ranks have been told to end.
  [[nodiscard]] std::optional<model::HangSeen> look(const std::vector<WatchedRank>& ranks,
                                                    bool is_ending, Time now);
  /// Whether the ranks hang, according to the last look().
  [[nodiscard]] bool is_hanging() const { return is_hang_ == true || is_stuck_; }
  /// Whether the ranks hang and have been inactive for this long.
  [[nodiscard]] bool has_hung_for(std::chrono::milliseconds time, Time now) const;

 private:
  struct Activity {
    Movement movement;
    std::uint64_t written = 0;
    Time last{};
  };
  [[nodiscard]] bool has_moved_since_last_look(const std::vector<WatchedRank>& ranks, Time now);
  [[nodiscard]] std::optional<model::HangSeen> slow_rank(const std::vector<WatchedRank>& ranks,
                                                         Time now);
  [[nodiscard]] std::vector<RankState> states(const std::vector<WatchedRank>& ranks) const;

  void add_collectives(model::HangSeen& seen) const;
  void forget_stuck_collective();

  // Ranks that wait for their GPU, as in a collective of NCCL, use a whole core. Only the flight
  // recorder shows that they make no progress. It is asked while the job writes no output.
  [[nodiscard]] std::optional<model::HangSeen> stuck_collective(
      const std::vector<WatchedRank>& ranks, Time now);
  [[nodiscard]] std::vector<RankCollective> collectives_of(const std::vector<WatchedRank>& ranks,
                                                           Time now) const;

  std::string stack_folder_, flight_stem_;
  std::set<std::uint16_t> meeting_ports_;
  Time begun_{}, moved_{}, looked_{};  // moved_: when a rank was last active
  std::map<int, Activity> activity_;   // activity of each rank
  std::optional<bool>
      is_hang_;  // whether the stacks show a hang since moved_; nullopt: not inspected
  std::vector<int> slow_seen_;     // idle ranks whose stacks were inspected while others were busy
  Time written_{};                 // when a rank last wrote output
  Time asked_{}, asked_before_{};  // the last two times when the recorders were asked
  bool is_asked_ = false;          // the recorders' answers have not been read yet
  std::vector<RankCollective> collectives_;  // the last answers of the flight recorders
  std::optional<Time> stuck_since_;          // since when the recorders have given the same answers
  // whether the stuck collective was reported as a hang, and as slow
  bool is_stuck_ = false, is_stuck_slow_ = false;
};

}  // namespace berth::run
