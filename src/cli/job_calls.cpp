#include "cli/job_calls.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/exit_code.hpp"
#include "client/lease.hpp"
#include "model/array_range.hpp"
#include "output/error.hpp"
#include "output/jobs_text.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

using client::IfNone;
using model::Job;
using model::JobId;
using std::chrono::milliseconds;

/// Whether this user had a broker before: its journal or job files exist.
bool has_journal() {
  const std::string folder = system::state_folder();
  return ::access((folder + "/journal.db").c_str(), F_OK) == 0 ||
         ::access((folder + "/jobs").c_str(), F_OK) == 0;
}

bool is_number(std::string_view word) {
  return !word.empty() && word.size() < 19 &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_range(std::string_view word) {
  const auto dash = word.find('-');
  return dash != std::string_view::npos && is_number(word.substr(0, dash)) &&
         is_number(word.substr(dash + 1));
}

Error needs_a_job(const char* verb) {
  return {ErrorCode::kInvalidArgument, "E0930",
          text("{} needs the number or the name of a job", fmt::format("berth {}", verb)),
          "berth jobs"};
}

/// The jobs and arrays with this name that have not ended. If all have ended, only the last one to
/// end.
std::vector<JobId> meant(const std::vector<Job>& jobs, std::string_view name) {
  std::set<JobId> active;
  const Job* last = nullptr;
  const auto id_of = [](const Job& job) { return job.task ? job.task->array : job.id; };
  for (const Job& job : jobs) {
    if (job.name != name || job.uid != ::geteuid()) continue;
    if (!model::has_ended(job.state))
      active.insert(id_of(job));
    else if (last == nullptr || job.ended_unix_milliseconds >= last->ended_unix_milliseconds)
      last = &job;
  }
  if (active.empty() && last != nullptr) active.insert(id_of(*last));
  return {active.begin(), active.end()};
}

/// The first numbers of a list as text, with the count of the omitted ones.
std::string some_of(const std::vector<JobId>& ids) {
  constexpr std::size_t kMost = 8;
  std::string out;
  for (std::size_t i = 0; i < ids.size() && i < kMost; ++i)
    out += (i == 0 ? "" : " ") + std::to_string(ids[i]);
  return ids.size() > kMost ? out + " " + text("and {} more", ids.size() - kMost) : out;
}

}  // namespace

std::string query_word(std::string_view word) {
  std::string out;
  for (const char c : word)
    out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return out;
}

std::string job_path(JobId id, std::string_view rest) {
  return "/v1/jobs/" + std::to_string(id) + std::string(rest);
}

Result<std::optional<JobCalls>> JobCalls::reach() {
  auto client = client::broker_here(IfNone::kFail);
  if (client) return std::optional(JobCalls(*std::move(client)));
  if (client.error().id != "E0920") return std::move(client).error();
  if (!has_journal()) return std::optional<JobCalls>();
  client = client::broker_here(IfNone::kStart);
  if (!client) return std::move(client).error();
  return std::optional(JobCalls(*std::move(client)));
}

Result<JobCalls> JobCalls::reach_or_start() {
  auto client = client::broker_here(IfNone::kStart);
  if (!client) return std::move(client).error();
  return JobCalls(*std::move(client));
}

Result<JobCalls> JobCalls::reach_for(std::string_view word) {
  auto calls = reach();
  if (!calls) return std::move(calls).error();
  if (*calls) return **std::move(calls);
  return Error{ErrorCode::kNotFound, "E0901",
               text("there is no job {}: no broker has been started yet", printable(word)),
               "berth jobs"};
}

/// After the broker has disconnected, connects to the next one.
Status JobCalls::again(const Error& error) {
  if (!client::went_away(error) || !following_.goes_on()) return error;
  auto next = client::reach_again(client_.socket());
  if (!next) return std::move(next).error();
  client_ = *std::move(next);
  return Done{};
}

Result<client::Response> JobCalls::call(std::string_view method, const std::string& path,
                                        milliseconds at_most, const std::string& body) {
  for (;;) {
    following_.begin();
    auto answer = client_.call(method, path, method == "POST" ? body : "", at_most);
    if (answer) return answer;
    if (auto next = again(answer.error()); !next) return std::move(next).error();
  }
}

Result<std::vector<Job>> JobCalls::jobs(JobId id) {
  const auto answer = call("GET", job_path(id), kAnswerSoon);
  if (!answer) return answer.error();
  auto found = client::jobs_in(*answer);
  if (found || found.error().id != "E0901") return found;
  std::string left = left_with_own();
  if (left.empty()) return found;
  Error error = found.error();
  error.hint = std::move(left);
  return error;
}

Result<Job> JobCalls::job(JobId id) {
  auto found = jobs(id);
  if (!found) return std::move(found).error();
  if (found->size() == 1 && found->front().id == id) return std::move(found->front());
  return Error{ErrorCode::kInvalidArgument, "E0935",
               text("{} is an array of {} jobs", id, found->size()),
               text("name one of them: {}", output::job_number(found->front()))};
}

/// The job that a word such as "7_3" means (array and index); nullopt if the word has another form.
Result<std::optional<JobId>> JobCalls::task(const std::string& word) {
  const auto line = word.find('_');
  if (line == std::string::npos || !is_number(word.substr(0, line)) ||
      !is_number(word.substr(line + 1)))
    return std::optional<JobId>();
  const auto found = jobs(static_cast<JobId>(*to_number(word.substr(0, line))));
  if (!found) return found.error();
  const auto array = static_cast<JobId>(*to_number(word.substr(0, line)));
  const auto index = *to_number(word.substr(line + 1));
  for (const Job& job : *found)
    if (job.task && job.task->array == array && job.task->index == index)
      return std::optional(job.id);
  return Error{ErrorCode::kNotFound, "E0901", text("there is no job {}", word), "berth jobs"};
}

Result<std::optional<Job>> JobCalls::ended(JobId id, milliseconds within) {
  if (asked_ != id) {
    client_.ask("GET", job_path(id, "?wait=ended"));
    asked_ = id;
    following_.begin();
  }
  const auto answer = client_.answer(within);
  if (answer && !*answer) return std::optional<Job>();
  asked_.reset();
  if (!answer) {
    if (auto next = again(answer.error()); !next) return std::move(next).error();
    return std::optional<Job>();
  }
  auto job = client::job_in(**answer);
  if (!job) return std::move(job).error();
  return std::optional(*std::move(job));
}

Result<JobId> JobCalls::id_of(const std::string& word) {
  if (is_number(word)) return static_cast<JobId>(*to_number(word));
  if (auto of_array = task(word); !of_array || *of_array)
    return of_array ? Result<JobId>(**of_array) : Result<JobId>(of_array.error());
  const auto answer = call("GET", "/v1/jobs?all&name=" + query_word(word), kAnswerSoon);
  if (!answer) return answer.error();
  const auto jobs = client::jobs_in(*answer);
  if (!jobs) return jobs.error();
  const auto ids = word.empty() ? std::vector<JobId>() : meant(*jobs, word);
  if (ids.size() == 1) return ids.front();
  if (ids.empty())
    return Error{ErrorCode::kNotFound, "E0931", text("you have no job named {}", printable(word)),
                 "berth jobs --mine"};
  return Error{ErrorCode::kInvalidArgument, "E0932",
               text("several jobs are named {}: {}", printable(word), some_of(ids)),
               text("give the number instead of the name") + "\nberth jobs --mine"};
}

Result<std::vector<JobId>> JobCalls::ids_of(const std::string& word) {
  std::vector<JobId> ids;
  const auto bracket = word.find("_[");
  if (bracket != std::string::npos && word.back() == ']' && is_number(word.substr(0, bracket))) {
    const auto range =
        model::parse_array_range(word.substr(bracket + 2, word.size() - bracket - 3));
    if (!range) return range.error();
    const auto found = jobs(static_cast<JobId>(*to_number(word.substr(0, bracket))));
    if (!found) return found.error();
    for (const Job& job : *found)
      if (job.task &&
          std::binary_search(range->indices.begin(), range->indices.end(), job.task->index))
        ids.push_back(job.id);
  } else if (is_range(word)) {
    const auto answer =
        call("GET", fmt::format("/v1/jobs?number={}{}", word, ::geteuid() == 0 ? "" : "&mine"),
             kAnswerSoon);
    if (!answer) return answer.error();
    const auto found = client::jobs_in(*answer);
    if (!found) return found.error();
    for (const Job& job : *found)
      if (!model::has_ended(job.state)) ids.push_back(job.id);
  } else {
    const auto id = id_of(word);
    if (!id) return id.error();
    ids.push_back(*id);
  }
  if (!ids.empty()) return ids;
  return Error{ErrorCode::kNotFound, "E0901",
               text("{} contains no unfinished job", printable(word)), "berth jobs"};
}

Result<std::vector<JobId>> JobCalls::mine() {
  const auto answer = call("GET", "/v1/jobs?all&mine&state=running,waiting,held", kAnswerSoon);
  if (!answer) return answer.error();
  const auto found = client::jobs_in(*answer);
  if (!found) return found.error();
  std::set<JobId> ids;
  for (const Job& job : *found) ids.insert(job.task ? job.task->array : job.id);
  return std::vector<JobId>(ids.begin(), ids.end());
}

Result<JobId> JobCalls::last(const char* verb) {
  const auto answer = call("GET", "/v1/jobs?last", kAnswerSoon);
  if (!answer) return answer.error();
  const auto found = client::jobs_in(*answer);
  if (!found) return found.error();
  if (found->empty()) return needs_a_job(verb);
  const Job& job = found->front();
  // The verbs `wait` and `why` accept an array as one job.
  const bool takes_array = verb == std::string_view("wait") || verb == std::string_view("why");
  return job.task && takes_array ? job.task->array : job.id;
}

Result<OneJob> find_job(const Context& context, const char* verb) {
  if (context.arguments.positional.empty()) {
    auto calls = JobCalls::reach();
    if (!calls) return std::move(calls).error();
    if (!*calls) return needs_a_job(verb);
    const auto id = (*calls)->last(verb);
    if (!id) return id.error();
    return OneJob{**std::move(calls), *id};
  }
  const auto word = one_job(context, verb);
  if (!word) return word.error();
  auto calls = JobCalls::reach_for(*word);
  if (!calls) return std::move(calls).error();
  const auto id = calls->id_of(*word);
  if (!id) return id.error();
  return OneJob{*std::move(calls), *id};
}

Result<std::vector<std::string>> some_jobs(const Context& context, const char* verb) {
  if (!context.arguments.positional.empty()) return context.arguments.positional;
  return needs_a_job(verb);
}

Result<std::string> one_job(const Context& context, const char* verb) {
  auto words = some_jobs(context, verb);
  if (!words) return std::move(words).error();
  if (words->size() == 1) return words->front();
  return Error{
      ErrorCode::kInvalidArgument, "E0930",
      text("{} takes one job, but {} were named", fmt::format("berth {}", verb), words->size()),
      fmt::format("berth {} {}", verb, printable(words->front()))};
}

void add_output_bytes(const model::Job& job, output::JobsView& view) {
  struct stat status = {};
  if (job.state == model::JobState::kRunning && !job.log.empty() &&
      ::stat(job.log.c_str(), &status) == 0)
    view.output_bytes[job.id] = static_cast<std::uint64_t>(status.st_size);
}

void say_notices(const Context& context, const client::Response& answer) {
  if (context.json) return;
  for (const Error& one : client::notices_in(answer)) {
    context.err(text("note: {}", fmt::format("{} ({})", one.message, one.id)) + "\n");
    if (!one.hint.empty()) context.err(text("hint: {}", one.hint) + "\n");
  }
}

void say_error(const Context& context, const Error& error, int exit_code) {
  context.err(context.json ? output::error_json(error, exit_code)
                           : output::show_error(error, context.err_terminal));
}

}  // namespace berth::cli
