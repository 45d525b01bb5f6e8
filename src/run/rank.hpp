// One rank: its process, its output and its files, and how it ended. The supervisor starts, watches
// and ends ranks.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/tries.hpp"
#include "run/error_file.hpp"
#include "run/rank_log.hpp"
#include "run/rank_stream.hpp"
#include "run/supervisor.hpp"

namespace berth::run {

struct Rank {
  using Time = std::chrono::steady_clock::time_point;

  explicit Rank(int number_);
  int number;
  pid_t pid = -1;
  Time started{};
  std::optional<Time> ended;
  int status = 0;
  rusage used{};
  RankStream out, err;
  RankLog log;
  std::uint64_t written = 0;  // bytes of output
  std::string error_path;     // its TORCHELASTIC_ERROR_FILE
  std::string error_text;     // what the rank wrote to that file
  std::string nccl_stem;      // start of the paths of NCCL's log files; "": no logs were requested
  std::optional<ErrorFile> error;
  bool was_ended_by_us = false, is_unkillable = false;

  [[nodiscard]] bool is_running() const { return pid > 0 && !ended && !is_unkillable; }
  [[nodiscard]] bool has_failed() const { return ended && status != 0; }
  /// What the rank has written to its error file so far.
  [[nodiscard]] std::string text_of_error_file() const;
  /// Reads the rank's error file when the rank has ended. `keeps_file`: the file stays.
  void read_error_file(bool keeps_file);
};

/// Whether a rank failed only because it lost its connection to another rank.
[[nodiscard]] bool only_lost_a_peer(const Rank& rank);
/// The rank that failed first, as far as that is known; nullptr if none has failed by itself.
[[nodiscard]] Rank* failed_first(std::vector<Rank>& ranks);

/// How the rank ended, for the report. `is_first`: this rank failed first. `is_stopped`: the job
/// was ended on purpose.
[[nodiscard]] model::RankEnd end_of(const Rank& rank, const RankSpec& spec, bool is_first,
                                    bool is_stopped);
/// Whether the rank did not end by itself: a signal or Berth ended it.
[[nodiscard]] bool was_killed(const Rank& rank);

}  // namespace berth::run
