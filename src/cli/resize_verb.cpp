// `berth resize`: changes memory and share of a running job. An increase is first reserved with the
// broker, then set in the guard. A decrease is first set in the guard, and given back to the broker
// when the job uses no more than the new limits. So no memory is given away twice, even if this
// process is killed in between.
#include <chrono>
#include <cmath>
#include <thread>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/job_calls.hpp"
#include "cli/verbs.hpp"
#include "guard/resize.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

Result<guard::NewLimits> wanted(const Arguments& arguments) {
  guard::NewLimits out;
  if (const auto given = arguments.value("--memory")) {
    const auto size = parse_size(*given);
    if (!size) return Error(size.error()).during("--memory");
    if (*size == 0)
      return Error{ErrorCode::kInvalidArgument, "E0011", text("--memory: 0 bytes were requested"),
                   "berth cancel JOB"};
    out.memory_bytes = *size;
  }
  if (const auto given = arguments.value("--share")) {
    const auto share = parse_share(*given);
    if (!share) return Error(share.error()).during("--share");
    out.share_permille = std::max(1, static_cast<int>(std::lround(*share * 1000)));
  }
  if (!out.memory_bytes && !out.share_permille)
    return Error{ErrorCode::kInvalidArgument, "E0948", text("no option says what to change"),
                 "berth help resize"};
  return out;
}

/// Waits until the job uses no more memory than the new limit. Fails with kNotFound (E0522) if the
/// job ends first.
Status wait_until_it_holds(const Context& context, const guard::LiveLimits& job,
                           std::uint64_t memory_bytes, const std::string& number) {
  for (bool said = false;; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    const auto used = guard::used_memory(job);
    if (!used)
      return Error{ErrorCode::kNotFound, "E0522", text("job {} has ended", number), "berth jobs"};
    if (*used <= memory_bytes) return Done{};
    if (said) continue;
    said = true;
    context.err(text("note: job {} gets no new memory; waiting until it frees {}", number,
                     show_bytes(*used - memory_bytes)) +
                "\n");
  }
}

/// The error for a job that the guard does not limit: the job has ended or does not run yet, or
/// `unguarded`.
Error why_not(JobCalls& calls, model::JobId id, const Error& unguarded) {
  const auto job = calls.job(id);
  if (!job) return job.error();
  const std::string number = model::job_number(*job);
  if (model::has_ended(job->state))
    return {ErrorCode::kInvalidArgument, "E0903", text("job {} has ended", number), "berth jobs"};
  if (job->state != model::JobState::kRunning)
    return {ErrorCode::kInvalidArgument, "E0903", text("job {} does not run yet", number),
            fmt::format("berth cancel {0}    then queue it again with another size", number)};
  return unguarded;
}

}  // namespace

Result<int> run_resize(const Context& context) {
  const auto word = one_job(context, "resize");
  if (!word) return word.error();
  const auto limits = wanted(context.arguments);
  if (!limits) return limits.error();
  auto calls = JobCalls::reach_for(*word);
  if (!calls) return std::move(calls).error();
  const auto id = calls->id_of(*word);
  if (!id) return id.error();
  const auto job = guard::limits_of(*id);
  if (!job) return why_not(*calls, *id, job.error());
  const std::string number = std::to_string(*id);
  const bool is_less = limits->memory_bytes && *limits->memory_bytes < job->memory_bytes;
  if (is_less) {
    if (auto done = guard::set_limits(*job, {limits->memory_bytes, std::nullopt}); !done)
      return std::move(done).error();
    if (auto done = wait_until_it_holds(context, *job, *limits->memory_bytes, number); !done)
      return std::move(done).error();
  }
  Json changes = Json::object();
  if (limits->memory_bytes) changes["memory_bytes"] = *limits->memory_bytes;
  if (limits->share_permille) changes["share_permille"] = *limits->share_permille;
  const auto answer = calls->call("POST", job_path(*id, "/edit"), kAnswerSoon, changes.dump());
  const auto jobs = answer ? client::jobs_in(*answer) : answer.error();
  if (!jobs) {
    if (is_less) static_cast<void>(guard::set_limits(*job, {job->memory_bytes, std::nullopt}));
    return jobs.error();
  }
  if (auto done = guard::set_limits(*job, *limits); !done) return std::move(done).error();
  std::string has;
  if (limits->memory_bytes) has = show_bytes(*limits->memory_bytes);
  if (limits->share_permille)
    has += (has.empty() ? "" : ", ") + text("{} % of the time", *limits->share_permille / 10.0);
  context.out(context.json ? answer->body : text("job {} now has {}", number, has) + "\n");
  return 0;
}

}  // namespace berth::cli
