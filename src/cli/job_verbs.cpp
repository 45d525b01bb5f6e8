// `berth wait`, `cancel`, `hold` and `release`: apply to each named job, in the given order.
#include <algorithm>
#include <csignal>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/exit_code.hpp"
#include "cli/job_calls.hpp"
#include "cli/verbs.hpp"
#include "output/jobs_text.hpp"

namespace berth::cli {
namespace {

using model::Job;
using model::JobId;
using model::JobState;
using Json = nlohmann::ordered_json;

/// The document {"schema":1,"jobs":[…]} with the jobs of each answer, as the API returned them.
std::string document_of(const std::vector<client::Response>& answers) {
  Json document{{"schema", 1}, {"jobs", Json::array()}};
  for (const client::Response& one : answers) {
    const Json said = Json::parse(one.body, nullptr, false);
    if (said.contains("job")) document["jobs"].push_back(said["job"]);
    for (const Json& job : said.value("jobs", Json::array())) document["jobs"].push_back(job);
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The exit code of `berth wait` for an error. Failures of Berth have exit code 125, because
/// smaller numbers are exit codes of jobs.
int code_for_wait(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kOurFailure;
}

/// The exit code of `berth wait` for a job. If a cancelled job exited with 0, it has not finished
/// its work. So its code is 143, as if SIGTERM had killed it.
int exit_code_of_job(const Job& job) {
  constexpr int kToldToEnd = 128 + SIGTERM;
  if (job.outcome && job.outcome->exit_code == 0 && job.state != JobState::kDone) return kToldToEnd;
  if (job.outcome) return job.outcome->exit_code;
  return job.state == JobState::kDone ? kDone : kOurFailure;
}

std::string done_words(std::string_view what, const Job& job) {
  const std::string number = output::job_number(job);
  if (what == "hold") return text("job {} held", number);
  if (what == "release") return text("job {} released", number);
  return job.state == JobState::kRunning ? text("job {} was sent a signal to end", number)
                                         : text("job {} cancelled", number);
}

/// A line that names the jobs of an array that have reached the wanted state.
std::string done_words(std::string_view what, const std::vector<Job>& jobs) {
  if (jobs.size() == 1) return done_words(what, jobs.front());
  const auto count = [&](JobState state) {
    return std::count_if(jobs.begin(), jobs.end(),
                         [&](const Job& job) { return job.state == state; });
  };
  const model::JobId array = jobs.front().task ? jobs.front().task->array : 0;
  if (what == "hold")
    return text("array {}: {} held, {} running", array, count(JobState::kHeld),
                count(JobState::kRunning));
  if (what == "release")
    return text("array {}: {} waiting, {} running", array, count(JobState::kWaiting),
                count(JobState::kRunning));
  return text("array {}: {} cancelled, {} sent a signal to end", array, count(JobState::kCancelled),
              count(JobState::kRunning));
}

Result<client::Response> change(JobCalls& calls, JobId id, std::string_view what) {
  auto answer = calls.call("POST", job_path(id, fmt::format("/{}", what)), kAnswerSoon);
  if (!answer) return answer;
  if (const auto jobs = client::jobs_in(*answer); !jobs) return jobs.error();
  return answer;
}

/// The ids of all named jobs, without duplicates. Reports each unknown name, and sets `code` to the
/// exit code.
std::vector<JobId> ids_of_all(const Context& context, JobCalls& calls,
                              const std::vector<std::string>& words, int& code) {
  std::vector<JobId> all;
  for (const std::string& word : words) {
    const auto ids = calls.ids_of(word);
    if (!ids) {
      say_error(context, ids.error(), exit_code_of(ids.error()));
      if (code == kDone) code = exit_code_of(ids.error());
      continue;
    }
    for (const JobId id : *ids)
      if (std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
  }
  return all;
}

/// Calls the broker for each named job. Continues after a failed call.
Result<int> for_each_job(const Context& context, const char* what) {
  const bool mine = context.arguments.has("--mine");
  if (mine && !context.arguments.positional.empty()) return contradiction("--mine", "JOB");
  const auto words = mine ? Result<std::vector<std::string>>(std::vector<std::string>())
                          : some_jobs(context, what);
  if (!words) return words.error();
  auto calls = JobCalls::reach_for(mine ? "" : words->front());
  if (!calls) return std::move(calls).error();
  int code = kDone;
  auto ids =
      mine ? calls->mine() : Result<std::vector<JobId>>(ids_of_all(context, *calls, *words, code));
  if (!ids) return std::move(ids).error();
  if (mine && ids->empty() && !context.json) context.out(text("no jobs of yours") + "\n");
  std::vector<client::Response> answers;
  for (const JobId id : *ids) {
    auto answer = change(*calls, id, what);
    if (!answer) {
      const int its_code = exit_code_of(answer.error());
      say_error(context, answer.error(), its_code);
      if (code == kDone) code = its_code;
      continue;
    }
    if (!context.json) context.out(done_words(what, *client::jobs_in(*answer)) + "\n");
    answers.push_back(*std::move(answer));
  }
  if (context.json) context.out(document_of(answers));
  return code;
}

/// Adds the id of the job or, for an array, the ids of all its jobs.
Status add_jobs(JobCalls& calls, JobId id, std::vector<JobId>& ids) {
  const auto jobs = calls.jobs(id);
  if (!jobs) return jobs.error();
  for (const Job& job : *jobs) ids.push_back(job.id);
  return Done{};
}

/// The ids of all named jobs. All are looked up before the verb waits for the first one.
Result<std::vector<JobId>> ids_of(JobCalls& calls, const std::vector<std::string>& words) {
  std::vector<JobId> ids;
  for (const std::string& word : words) {
    const auto named = calls.ids_of(word);
    if (!named) return named.error();
    for (const JobId id : *named)
      if (auto added = add_jobs(calls, id, ids); !added) return std::move(added).error();
  }
  return ids;
}

struct Awaited {
  JobCalls calls;
  std::vector<JobId> ids;
};

/// The jobs to wait for: those that the user named, or the caller's last job or array if none was
/// named.
Result<Awaited> awaited(const Context& context) {
  const std::vector<std::string>& words = context.arguments.positional;
  if (words.empty()) {
    auto last = find_job(context, "wait");
    if (!last) return std::move(last).error();
    Awaited all{std::move(last->calls), {}};
    if (auto added = add_jobs(all.calls, last->id, all.ids); !added)
      return std::move(added).error();
    return all;
  }
  auto calls = JobCalls::reach_for(words.front());
  if (!calls) return std::move(calls).error();
  auto ids = ids_of(*calls, words);
  if (!ids) return std::move(ids).error();
  return Awaited{*std::move(calls), *std::move(ids)};
}

Result<int> wait_for_all(const Context& context) {
  auto waits = awaited(context);
  if (!waits) return std::move(waits).error();
  JobCalls* const calls = &waits->calls;
  int code = kDone;
  std::vector<client::Response> answers;
  for (const JobId id : waits->ids) {
    auto answer = calls->call("GET", job_path(id, "?wait=ended"), std::chrono::milliseconds(0));
    if (!answer) return std::move(answer).error();
    const auto job = client::job_in(*answer);
    if (!job) return job.error();
    if (code == kDone) code = exit_code_of_job(*job);
    answers.push_back(*std::move(answer));
  }
  if (context.json) context.out(document_of(answers));
  return code;
}

}  // namespace

Result<int> run_wait(const Context& context) {
  auto code = wait_for_all(context);
  if (code) return code;
  say_error(context, code.error(), code_for_wait(code.error()));
  return code_for_wait(code.error());
}

Result<int> run_cancel(const Context& context) {
  return for_each_job(context, "cancel");
}

Result<int> run_hold(const Context& context) {
  return for_each_job(context, "hold");
}

Result<int> run_release(const Context& context) {
  return for_each_job(context, "release");
}

}  // namespace berth::cli
