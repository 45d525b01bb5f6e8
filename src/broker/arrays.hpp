// Arrays: which jobs of an array may stand in line, where only so many of them may at a time, and
// when an array is over. Pure bookkeeping; the broker tells it what becomes of each job.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "model/job.hpp"

namespace berth::broker {

class Arrays {
 public:
  /// A job of an array, new or from the journal, in whatever state.
  void add(const model::Job& job);
  /// It would stand in line. False: it waits aside until leave() names it.
  [[nodiscard]] bool enter(const model::Job& job);
  /// It is out of line, or runs no longer; who may stand in line in its place.
  [[nodiscard]] std::optional<model::JobId> leave(const model::Job& job);
  /// Its state is its last. True for the last of its array.
  [[nodiscard]] bool ended(const model::Job& job);
  /// True for the last of its array.
  [[nodiscard]] bool forget(const model::Job& job);

  [[nodiscard]] bool is_aside(const model::Job& job) const;
  [[nodiscard]] bool contains(model::JobId array) const { return arrays_.contains(array); }
  [[nodiscard]] bool is_over(model::JobId array) const;
  /// None that ended did badly.
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
