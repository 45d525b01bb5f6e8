// What place() is asked about, the candidates it chooses from, and how it says no: what is in the
// way, who holds it, and the call that would work now.
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

/// What the question is about, gathered once.
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
/// As much of its time is left as was asked for.
[[nodiscard]] bool has_share(const Candidate& c, const Search& search);

/// "GPU 1: job 12 (zhao)"
[[nodiscard]] std::string held(const Candidate& c, const Search& search);
/// Why `count` are not to be had, before asking whether they are free.
[[nodiscard]] std::optional<Error> too_few_at_all(const Search& search, const Candidates& visible,
                                                  int count);
[[nodiscard]] Error none_free(const Search& search, const Candidates& visible, int count);
[[nodiscard]] Error no_memory(const Search& search, const Candidates& visible, int count,
                              std::uint64_t need);
/// Enough memory, and not enough of the devices' time.
[[nodiscard]] Error no_share(const Search& search, const Candidates& enough, int count);

}  // namespace berth::policy
