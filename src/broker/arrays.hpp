// Arrays: bookkeeping of job arrays. For an array with a limit, it decides which of its jobs may be
// in the queue. It also detects when an array is over. It does no I/O; the broker reports every
// change of a job.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "model/job.hpp"

namespace berth::broker {

class Arrays {
 public:
  /// Adds a job of an array in any state; it may be new or come from the journal.
  void add(const model::Job& job);
  /// Call it when the job is ready for the queue. If it returns false, the array's limit is
  /// reached, and the job must wait until leave() returns its id.
  [[nodiscard]] bool enter(const model::Job& job);
  /// Call it when the job has left the queue or ended. Returns a job of the same array that may now
  /// enter the queue, if one waits.
  [[nodiscard]] std::optional<model::JobId> leave(const model::Job& job);
  /// Call it when the job has reached a final state. True if it was the last unfinished job of its
  /// array.
  [[nodiscard]] bool ended(const model::Job& job);
  /// Removes the job. True if it was the last job of its array.
  [[nodiscard]] bool forget(const model::Job& job);

  [[nodiscard]] bool is_aside(const model::Job& job) const;
  [[nodiscard]] bool contains(model::JobId array) const { return arrays_.contains(array); }
  [[nodiscard]] bool is_over(model::JobId array) const;
  /// True if no job of the array has failed so far.
  [[nodiscard]] bool is_good(model::JobId array) const;
  [[nodiscard]] std::set<model::JobId> jobs(model::JobId array) const;

 private:
  struct Array {
    /// jobs: all jobs of the array; going: jobs that have not ended; in_line: jobs in the queue or
    /// running; aside: jobs that wait because of the array's limit
    std::set<model::JobId> jobs, going, in_line, aside;
    bool is_good = true;
  };
  std::map<model::JobId, Array> arrays_;
};

}  // namespace berth::broker
