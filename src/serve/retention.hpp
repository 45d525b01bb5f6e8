// Decides which ended jobs are deleted, so that their number and their output stay within limits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "broker/broker.hpp"
#include "model/job.hpp"

namespace berth::serve {

class Retention {
 public:
  struct Files {
    std::string log, report;  // paths
  };
  /// `most_bytes`: the limit for the output and reports of all ended jobs together.
  Retention(std::function<Files(model::JobId)> files_of, std::uint64_t most_bytes)
      : files_of_(std::move(files_of)), most_bytes_(most_bytes) {}

  using Jobs = std::map<model::JobId, model::Job>;
  /// The time before which ended jobs must be deleted, so that the output of the others is within
  /// the limit. The output of the newest job is always kept.
  [[nodiscard]] std::int64_t too_much_output_before(const Jobs& jobs);
  /// For each user with too many ended jobs: the time before which these jobs are deleted. Leases
  /// and queued jobs have separate limits, because leases have no results.
  [[nodiscard]] static std::map<broker::UserJobs, std::int64_t> too_many_before(const Jobs& jobs);
  /// Removes the middle of a running job's output if the output is larger than the limit, or larger
  /// than the free space on the disk. Returns a sentence for people the first time, and again
  /// whenever the number of removed bytes has doubled. In all other cases, returns "".
  [[nodiscard]] std::string limit_running(model::JobId running);
  /// Call it when a job was deleted or its files have changed.
  void forget(model::JobId id);

 private:
  std::function<Files(model::JobId)> files_of_;
  std::uint64_t most_bytes_;
  std::map<model::JobId, std::uint64_t> ended_bytes_;  // size of the files of each ended job
  struct Removed {
    std::uint64_t bytes = 0, reported = 0;
    bool is_refused = false;  // the file system cannot remove parts of a file; this was reported
  };
  std::map<model::JobId, Removed> removed_;  // bytes removed from running jobs' output
};

}  // namespace berth::serve
