// `berth wait`, `cancel`, `hold` and `release`: for each of the jobs that are named, one after the
// other.
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

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

/// {"schema":1,"jobs":[…]} of answers that have a job or an array's jobs, as the API told it.
std::string document_of(const std::vector<client::Response>& answers) {
  Json document{{"schema", 1}, {"jobs", Json::array()}};
  for (const client::Response& one : answers) {
    const Json said = Json::parse(one.body, nullptr, false);
    if (said.contains("job")) document["jobs"].push_back(said["job"]);
    for (const Json& job : said.value("jobs", Json::array())) document["jobs"].push_back(job);
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// What Berth itself cannot do is 125: the small numbers are the jobs' own.
int code_for_wait(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kOurFailure;
}

/// Who was told to end and then says that all is well has not done what it was to do: 143, as if
/// the SIGTERM that told it had ended it.
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
  return job.state == JobState::kRunning ? text("job {} is told to end", number)
                                         : text("job {} cancelled", number);
}

/// Of an array all the jobs that are as it was wanted, in one line.
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
    return text("array {}: {} wait, {} running", array, count(JobState::kWaiting),
                count(JobState::kRunning));
  return text("array {}: {} cancelled, {} told to end", array, count(JobState::kCancelled),
              count(JobState::kRunning));
}

Result<client::Response> change(JobCalls& calls, JobId id, std::string_view what) {
  auto answer = calls.call("POST", job_path(id, fmt::format("/{}", what)), kAnswerSoon);
  if (!answer) return answer;
  if (const auto jobs = client::jobs_in(*answer); !jobs) return jobs.error();
  return answer;
}

/// Each of the jobs is tried, whatever became of the one before.
Result<int> for_each_job(const Context& context, const char* what) {
  const auto words = some_jobs(context, what);
  if (!words) return words.error();
  auto calls = JobCalls::reach_for(words->front());
  if (!calls) return std::move(calls).error();
  int code = kDone;
  std::vector<client::Response> answers;
  std::vector<JobId> seen;
  for (const std::string& word : *words) {
    auto answer = [&]() -> Result<client::Response> {
      const auto id = calls->id_of(word);
      if (!id) return id.error();
      if (std::find(seen.begin(), seen.end(), *id) != seen.end()) return client::Response{};
      seen.push_back(*id);
      return change(*calls, *id, what);
    }();
    if (!answer) {
      const int its_code = exit_code_of(answer.error());
      say_error(context, answer.error(), its_code);
      if (code == kDone) code = its_code;
      continue;
    }
    if (answer->status == 0) continue;  // named twice
    if (!context.json) context.out(done_words(what, *client::jobs_in(*answer)) + "\n");
    answers.push_back(*std::move(answer));
  }
  if (context.json) context.out(document_of(answers));
  return code;
}

/// All of them are known before one is waited for.
Result<std::vector<JobId>> ids_of(JobCalls& calls, const std::vector<std::string>& words) {
  std::vector<JobId> ids;
  for (const std::string& word : words) {
    const auto id = calls.id_of(word);
    if (!id) return id.error();
    const auto jobs = calls.jobs(*id);
    if (!jobs) return jobs.error();
    for (const Job& job : *jobs) ids.push_back(job.id);
  }
  return ids;
}

Result<int> wait_for_all(const Context& context, const std::vector<std::string>& words) {
  auto calls = JobCalls::reach_for(words.front());
  if (!calls) return std::move(calls).error();
  const auto ids = ids_of(*calls, words);
  if (!ids) return ids.error();
  int code = kDone;
  std::vector<client::Response> answers;
  for (const JobId id : *ids) {
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
  const auto words = some_jobs(context, "wait");
  if (!words) return words.error();
  auto code = wait_for_all(context, *words);
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
