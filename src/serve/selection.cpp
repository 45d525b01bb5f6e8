#include "serve/selection.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "model/cpu_list.hpp"

namespace berth::serve {
namespace {

using model::Job;
using model::JobId;
using model::JobState;
using Query = std::map<std::string, std::string>;

Error not_understood(std::string_view key, const std::string& given) {
  return {ErrorCode::kInvalidArgument, "E0919",
          text("'{}={}' in the call is not understood", key, printable(given)), ""};
}

/// A list of jobs and arrays such as "7,9-12", stored as pairs of first and last number.
class Numbers {
 public:
  [[nodiscard]] static std::optional<Numbers> parse(std::string_view given) {
    Numbers out;
    for (const std::string_view word : split(given, ',')) {
      const auto dash = word.find('-');
      const auto first = to_number(word.substr(0, dash));
      const auto last = dash == std::string_view::npos ? first : to_number(word.substr(dash + 1));
      if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
      out.ranges_.emplace_back(static_cast<JobId>(*first), static_cast<JobId>(*last));
    }
    return out;
  }
  [[nodiscard]] bool has(const Job& job) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& one) {
      const auto is_within = [&](JobId id) { return one.first <= id && id <= one.second; };
      return is_within(job.id) || (job.task && is_within(job.task->array));
    });
  }

 private:
  std::vector<std::pair<JobId, JobId>> ranges_;
};

struct Wanted {
  std::optional<Numbers> numbers, also;
  std::optional<std::string> user, name;
  std::set<JobState> states;
  std::optional<std::int64_t> ended_since;
  std::optional<std::size_t> limit;
  bool running = false, all = false, mine = false;
  std::uint32_t caller = 0;

  [[nodiscard]] bool takes(const Job& job) const {
    if (also && also->has(job)) return true;
    if (running) return job.state == JobState::kRunning;
    if (mine && job.uid != caller) return false;
    if (user && *user != job.user && *user != std::to_string(job.uid)) return false;
    // A name only selects the caller's own jobs.
    if (name && (*name != job.name || job.uid != caller)) return false;
    if (!states.empty() && !states.contains(job.state)) return false;
    if (numbers) return numbers->has(job);
    return all || !model::has_ended(job.state) ||
           job.ended_unix_milliseconds.value_or(0) > ended_since.value_or(0);
  }
};

Result<Wanted> wanted_by(const Query& query, std::uint32_t caller, std::int64_t now) {
  constexpr std::int64_t kDay = 24LL * 3600 * 1000;
  Wanted out;
  out.caller = caller;
  out.running = query.contains("running");
  out.all = query.contains("all");
  out.mine = query.contains("mine");
  out.ended_since = now - kDay;
  for (const auto& [key, given] : query) {
    if (key == "user") out.user = given;
    if (key == "name") out.name = given;
    if (key == "number" || key == "also") {
      auto numbers = Numbers::parse(given);
      if (!numbers && !given.empty()) return not_understood(key, given);
      (key == "also" ? out.also : out.numbers) = numbers.value_or(Numbers());
    }
    if (key == "state")
      for (const std::string_view word : split(given, ',')) {
        const auto state = model::job_state(word);
        if (!state) return not_understood(key, given);
        out.states.insert(*state);
      }
    if (key == "since" || key == "limit") {
      const auto number = to_number(given);
      if (!number || *number < 0) return not_understood(key, given);
      if (key == "since")
        out.ended_since = *number;
      else
        out.limit = static_cast<std::size_t>(*number);
    }
  }
  return out;
}

/// Keeps the first job of each group of similar jobs in an array.
class Groups {
 public:
  /// True if this job is the first of its group. It then represents the similar jobs after it.
  bool is_first(const Job& job) {
    if (!job.task || job.state == JobState::kRunning) return true;
    if (last_ == nullptr || !is_alike(*last_, job)) {
      auto& of_array = groups_[job.task->array];
      const auto found = std::find_if(of_array.begin(), of_array.end(),
                                      [&](const Group& one) { return is_alike(*one.first, job); });
      group_ = found == of_array.end() ? &of_array.emplace_back(Group{&job, {}}) : &*found;
      last_ = group_->first;
    }
    group_->indices.push_back(job.task->index);
    return group_->first == &job;
  }

  [[nodiscard]] std::map<JobId, std::string> alike() const {
    std::map<JobId, std::string> out;
    for (const auto& [array, groups] : groups_)
      for (const Group& one : groups) {
        std::vector<int> indices = one.indices;
        std::sort(indices.begin(), indices.end());
        if (indices.size() > 1) out[one.first->id] = model::show_cpu_list(indices);
      }
    return out;
  }

 private:
  struct Group {
    const Job* first = nullptr;
    std::vector<int> indices;
  };
  static bool is_alike(const Job& a, const Job& b) {
    const auto code = [](const Job& job) { return job.outcome ? job.outcome->exit_code : -1; };
    return a.task->array == b.task->array && a.state == b.state && code(a) == code(b) &&
           a.grants == b.grants;
  }

  std::map<JobId, std::deque<Group>> groups_;
  const Job* last_ = nullptr;
  Group* group_ = nullptr;
};

/// Running jobs (0) are shown first, then waiting jobs (1), then ended jobs (2).
std::size_t rank_of(const Job& job) {
  return job.state == JobState::kRunning ? 0 : model::has_ended(job.state) ? 2 : 1;
}

/// The caller's latest queued job. If the caller has no queued job, the latest job from a terminal.
const Job* last_of(const std::vector<const Job*>& jobs, std::uint32_t caller) {
  const Job* last = nullptr;
  for (auto at = jobs.rbegin(); at != jobs.rend(); ++at) {
    const Job& job = **at;
    if (job.uid != caller) continue;
    if (job.queued) return &job;
    if (last == nullptr) last = &job;
  }
  return last;
}

}  // namespace

Result<Selection> select_jobs(const std::vector<const Job*>& jobs, const Query& query,
                              std::uint32_t caller, std::int64_t now) {
  const auto wanted = wanted_by(query, caller, now);
  if (!wanted) return wanted.error();
  Selection out;
  if (query.contains("last")) {
    if (const Job* last = last_of(jobs, caller)) out.jobs.push_back(last);
    return out;
  }
  const bool is_compact = query.contains("compact");
  const std::size_t limit = wanted->limit.value_or(jobs.size());
  Groups groups;
  std::array<std::vector<const Job*>, 3> by_rank;
  std::size_t count = 0;
  for (const Job* job : jobs) {
    if (!wanted->takes(*job) || (is_compact && !groups.is_first(*job))) continue;
    if (++count <= limit) out.jobs.push_back(job);
    // Unfinished jobs are shown in the order of their ids, so only the first `limit` of them are
    // needed.
    auto& of_rank = by_rank.at(rank_of(*job));
    if (of_rank.size() < limit || model::has_ended(job->state)) of_rank.push_back(job);
  }
  out.alike = groups.alike();
  if (count <= limit) return out;
  out.not_shown = count - limit;
  out.jobs.clear();
  for (auto& of_rank : by_rank) {
    const std::size_t room = std::min(limit - out.jobs.size(), of_rank.size());
    const auto end = of_rank.begin() + static_cast<std::ptrdiff_t>(room);
    if (&of_rank == &by_rank.back())
      std::partial_sort(of_rank.begin(), end, of_rank.end(), [](const Job* a, const Job* b) {
        return a->ended_unix_milliseconds > b->ended_unix_milliseconds;
      });
    out.jobs.insert(out.jobs.end(), of_rank.begin(), end);
  }
  return out;
}

}  // namespace berth::serve
