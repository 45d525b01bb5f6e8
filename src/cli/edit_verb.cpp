// `berth edit` changes a waiting job; `berth rerun` queues a job again.

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/job_calls.hpp"
#include "cli/queue.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostPriority = 1000, kMostGpus = 1024;

Status take_numbers(const Arguments& arguments, Json& changes) {
  if (const auto given = arguments.value("--priority")) {
    const auto priority = parse_integer(*given, -kMostPriority, kMostPriority);
    if (!priority) return Error(priority.error()).during("--priority");
    changes["priority"] = *priority;
  }
  if (const auto given = arguments.value("--gpus")) {
    const auto gpus =
        *given == "none" ? Result<std::int64_t>(0) : parse_integer(*given, 0, kMostGpus);
    if (!gpus) return Error(gpus.error()).during("--gpus");
    changes["gpus"] = *gpus;
  }
  if (const auto given = arguments.value("--time-limit")) {
    if (*given == "none") {
      changes["time_limit_milliseconds"] = nullptr;
      return Done{};
    }
    const auto limit = parse_duration(*given);
    if (!limit) return Error(limit.error()).during("--time-limit");
    changes["time_limit_milliseconds"] = limit->count();
  }
  return Done{};
}

Status take_order(const Arguments& arguments, JobCalls& calls, Json& changes) {
  if (arguments.has("--first")) changes["first"] = true;
  if (const auto given = arguments.value("--swap")) {
    const auto other = calls.id_of(*given);
    if (!other) return Error(other.error()).during("--swap");
    changes["swap"] = *other;
  }
  const auto lists = arguments.values("--after");
  if (lists.empty()) return Done{};
  const bool is_none = lists.size() == 1 && lists.front() == "none";
  const auto after = is_none ? Result<After>(After()) : jobs_before(lists);
  if (!after) return Error(after.error()).during("--after");
  changes["after"] = after->ok;
  changes["after_any"] = after->any;
  changes["after_not_ok"] = after->not_ok;
  return Done{};
}

}  // namespace

Result<int> run_edit(const Context& context) {
  const auto word = one_job(context, "edit");
  if (!word) return word.error();
  Json changes = Json::object();
  if (auto taken = take_numbers(context.arguments, changes); !taken)
    return std::move(taken).error();
  if (context.arguments.has("--first") && context.arguments.has("--swap"))
    return contradiction("--first", "--swap");
  auto calls = JobCalls::reach_for(*word);
  if (!calls) return std::move(calls).error();
  if (auto taken = take_order(context.arguments, *calls, changes); !taken)
    return std::move(taken).error();
  if (changes.empty())
    return Error{ErrorCode::kInvalidArgument, "E0948", text("no option says what to change"),
                 "berth help edit"};
  const auto id = calls->id_of(*word);
  if (!id) return id.error();
  const auto answer = calls->call("POST", job_path(*id, "/edit"), kAnswerSoon, changes.dump());
  if (!answer) return answer.error();
  const auto jobs = client::jobs_in(*answer);
  if (!jobs) return jobs.error();
  context.out(context.json ? answer->body : text("job {} changed", printable(*word)) + "\n");
  return 0;
}

Result<int> run_rerun(const Context& context) {
  auto found = find_job(context, "rerun");
  if (!found) return std::move(found).error();
  const auto job = found->calls.job(found->id);
  if (!job) return job.error();
  const auto answer = found->calls.call("POST", job_path(job->id, "/rerun"), kAnswerSoon);
  if (!answer) return answer.error();
  const auto queued = client::jobs_in(*answer);
  if (!queued) return queued.error();
  say_queued(context, *answer, *queued);
  return 0;
}

}  // namespace berth::cli
