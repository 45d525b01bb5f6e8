// The supervisor: the workload of a job that has ranks or may be retried. It starts the command
// once per rank, forwards signals and output, ends the other ranks when one fails, and starts the
// next try. It is a child of the keeper, like every workload, so if it is killed, the keeper ends
// all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "model/tries.hpp"
#include "run/hang_action.hpp"
#include "run/launch.hpp"
#include "run/node_place.hpp"
#include "run/rank_log.hpp"

namespace berth::run {

/// The settings of one rank.
struct RankSpec {
  std::map<std::string, std::string> variables;  // variables in addition to those of the job
  // processors to stay on; empty: the processors of the job
  std::vector<int> cpus;
  std::vector<int> devices;  // values of Device::index
  int threads = 1;
};

struct Supervision {
  bool has_ranks = false;       // false: one process with the job's streams and variables
  std::vector<RankSpec> ranks;  // the ranks, at least one
  /// Returns the ranks that remain without the devices `lost` (Device::index). It returns an empty
  /// list if too few ranks remain. nullptr: the number of ranks is fixed.
  std::function<std::vector<RankSpec>(const std::vector<int>& lost)> fewer;
  // for a job on several nodes: this node; rank R here has number node.rank * ranks + R
  NodePlace node;
  std::vector<int> shown;  // ranks whose output is shown; empty: all ranks
  int input_rank = 0;      // the rank that has standard input
  std::string log_folder;  // folder for one log file per rank; "": none
  std::uint64_t log_limit = kLogLimit;
  bool nccl_debug = false;             // whether NCCL's log of each rank is read
  std::vector<std::string> preflight;  // a command for each rank, before the program; empty: none
  int most_tries = 1;
  /// If a failure is one for which may_need_changes() is true, the front decides about the next
  /// try.
  bool leaves_changes_to_front = false;
  model::Tries earlier;  // tries before this start of the job
  // How the first try of this start differs from the last try before this start.
  model::TryChange change = model::TryChange::kNothing;
  double batch_scale = 1;
  std::chrono::milliseconds waited{0};  // the pause before the first try of this start
  std::chrono::milliseconds backoff_least = kDefaultBackoffLeast;
  std::chrono::milliseconds backoff_most = kDefaultBackoffMost;
  // A hang that lasts this long is ended, unless hang_action is kReport.
  std::chrono::milliseconds hang_timeout = kDefaultHangTimeout;
  HangAction hang_action = HangAction::kReport;
  bool quiet = false;  // prints no messages of its own on standard error
  // an unnamed file, which passes model::Tries to the front (run/tries_record.hpp)
  Descriptor record;
};

/// Runs in the workload's process, with every signal blocked, until it exits. If the command cannot
/// be executed, writes the error to `trouble`, like become_workload().
[[noreturn]] void supervise(const Launch& launch, const Inherited& inherited, int trouble);

}  // namespace berth::run
