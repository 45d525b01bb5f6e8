// The data that place() works on, the candidates that it chooses from, and its errors. Each error
// says what prevents the request, who holds the devices, and which command would work now.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "policy/candidates.hpp"
#include "policy/visible.hpp"

namespace berth::policy {

using Candidates = std::vector<Candidate>;

/// A request, the state of the machine, and values that are computed from them only once.
struct Search {
  const model::Request& request;
  const model::Snapshot& snapshot;
  const model::Ledger& ledger;
  Candidates all;
  Visible visible;
};

[[nodiscard]] Candidates visible_of(const Search& search);

template <typename Predicate>
Candidates only(const Candidates& from, Predicate&& predicate) {
  Candidates out;
  std::copy_if(from.begin(), from.end(), std::back_inserter(out), predicate);
  return out;
}

[[nodiscard]] Candidates usable_of(const Candidates& from);
[[nodiscard]] Candidates idle_of(const Candidates& from);
[[nodiscard]] const Candidate& freest(const Candidates& from);
/// Whether the part of the candidate's time that is not promised to jobs is large enough.
[[nodiscard]] bool has_share(const Candidate& c, const Search& search);

/// Names the jobs that hold the candidate: "GPU 1: job 12 (zhao)".
[[nodiscard]] std::string held(const Candidate& c, const Search& search);
/// The error if one job could not get `count` devices of this machine, even when all are free.
[[nodiscard]] std::optional<Error> too_few_at_all(const Search& search, const Candidates& visible,
                                                  int count);
[[nodiscard]] Error none_free(const Search& search, const Candidates& visible, int count);
[[nodiscard]] Error no_memory(const Search& search, const Candidates& visible, int count,
                              std::uint64_t need);
/// The error if enough devices have the memory, but too few have the requested share of time.
[[nodiscard]] Error no_share(const Search& search, const Candidates& enough, int count);

}  // namespace berth::policy
