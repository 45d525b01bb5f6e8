// Arrays: bookkeeping of job arrays. It decides which jobs of an array may be in the queue when the
// array limits how many, and knows when an array is over. It does no I/O; the broker reports every
// change of a job.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "model/job.hpp"

namespace berth::broker {

class Arrays {
 public:
  /// Adds a job of an array, new or from the journal, in any state.
  void add(const model::Job& job);
  /// The job is ready for the queue. False: it must wait until leave() names it.
  [[nodiscard]] bool enter(const model::Job& job);
  /// The job left the queue or ended. Returns the job that may enter the queue instead.
  [[nodiscard]] std::optional<model::JobId> leave(const model::Job& job);
  /// The job has reached a final state. True if it was the last of its array.
  [[nodiscard]] bool ended(const model::Job& job);
  /// True if it was the last of its array.
  [[nodiscard]] bool forget(const model::Job& job);

  [[nodiscard]] bool is_aside(const model::Job& job) const;
  [[nodiscard]] bool contains(model::JobId array) const { return arrays_.contains(array); }
  [[nodiscard]] bool is_over(model::JobId array) const;
  /// No job of it has failed so far.
  [[nodiscard]] bool is_good(model::JobId array) const;
  [[nodiscard]] std::set<model::JobId> jobs(model::JobId array) const;

 private:
  struct Array {
    std::set<model::JobId> jobs, going, in_line, aside;  // going: not ended
    bool is_good = true;
  };
  std::map<model::JobId, Array> arrays_;
};

}  // namespace berth::broker
