#include "cli/queue.hpp"
#include "base/error_words.hpp"
#include "base/json.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "broker/job_record.hpp"
#include "cli/job_calls.hpp"
#include "client/jobs.hpp"
#include "model/array_range.hpp"
#include "system/process_limits.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

/// The umask can only be read by setting it. This is safe, because no other thread exists yet.
mode_t mask_of_ours() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

Json limits_json(const model::Limits& limits) {
  const auto bound = [](std::uint64_t one) { return one == model::kNoLimit ? Json() : Json(one); };
  Json out = Json::object();
  for (const model::Limit& one : limits.resources)
    out[std::string(model::limit_name(one.resource))] = {bound(one.soft), bound(one.hard)};
  return out;
}

Result<std::string> body_of(const model::Job& job, const std::vector<std::string>& command,
                            const std::map<std::string, std::string>& variables,
                            const std::optional<std::string>& array) {
  std::error_code problem;
  const std::string folder = std::filesystem::current_path(problem);
  if (problem)
    return Error{ErrorCode::kUnavailable, "E0517",
                 text("cannot read the path of the current folder: {}", problem.message()), "cd ~"};
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables)
    if (name != "BERTH_JOB" && name != "BERTH_RESTARTS" && !name.starts_with("BERTH_ARRAY"))
      environment.push_back(name + "=" + value);
  try {
    Json body = Json::parse(broker::record_of(job));
    Json& spec = body["spec"];
    spec["folder"] = json_of_words<Json>({folder}).at(0);
    spec["umask"] = mask_of_ours();
    const model::Limits limits = system::limits_of(0);
    spec["limits"] = limits_json(limits);
    if (limits.nice) spec["nice"] = *limits.nice;
    spec["environment"] = json_of_words<Json>(environment);
    // The `command` of the job is only for display. The spec has the exact words and variables to
    // run.
    spec["command"] = json_of_words<Json>(command);
    if (array) body["array"] = *array;
    return body.dump();
  } catch (const Json::exception& wrong) {
    return Error{ErrorCode::kInvalidArgument, "E0913",
                 text("the job cannot be queued: {}", printable(wrong.what())),
                 "berth run --queue -- python train.py"};
  }
}

/// The error for a job that was queued, but whose number could not be printed. Its text says that
/// the job is queued, because a retry would queue a second one.
Error queued_unsaid(const model::Job& job, int problem) {
  const auto number = job.task ? job.task->array : job.id;
  return {
      ErrorCode::kUnsupported, "E0008",
      text("job {} is queued, but the output cannot be written: {}", number, error_words(problem)),
      fmt::format("berth jobs --mine\nberth cancel {}", number)};
}

/// Adds a hint to an error. The broker's answer is missing or unreadable, but the broker may have
/// queued the job.
Error may_be_queued(Error error) {
  if (error.id == "E0922" || error.id == "E1140") error.hint += "\nberth jobs --mine";
  return error;
}

struct Kind {
  std::string_view prefix;
  std::vector<model::JobId> After::*list;
};
constexpr std::array<Kind, 3> kKinds{
    {{"any:", &After::any}, {"not-ok:", &After::not_ok}, {"ok:", &After::ok}}};

/// Parses the value of --signal ("USR1@60s") or of --checkpoint-signal ("USR1@60s" or "USR1").
/// `at_any_end` is true for the latter.
Result<model::Warning> parse_warning(const std::string& given, bool at_any_end) {
  const auto at = given.find('@');
  const auto signal = model::warning_signal(std::string_view(given).substr(0, at));
  if (!signal && at_any_end)
    return Error{ErrorCode::kInvalidArgument, "E1061",
                 text("'{}' is not a signal such as USR1, or USR1@60s; signals: USR1, USR2, HUP, "
                      "INT, QUIT and TERM",
                      printable(given)),
                 "berth run --checkpoint-signal USR1@60s -- python train.py"};
  if (!at_any_end && (at == std::string::npos || !signal))
    return Error{ErrorCode::kInvalidArgument, "E0946",
                 text("'{}' is not a signal and a time such as USR1@60s; signals: USR1, USR2, HUP, "
                      "INT, QUIT and TERM",
                      printable(given)),
                 "berth run --time-limit 2h --signal USR1@60s -- python train.py"};
  if (at == std::string::npos)
    return model::Warning{*signal, model::kDefaultCheckpointTime, at_any_end};
  const auto before = parse_duration(std::string_view(given).substr(at + 1));
  if (!before) return before.error();
  if (*before <= std::chrono::milliseconds(0) || *before > std::chrono::hours(24))
    return Error{ErrorCode::kInvalidArgument, "E0104",
                 text("'{}' is not a time for a signal: it must be above zero and at most a day",
                      printable(std::string_view(given).substr(at + 1))),
                 "USR1@60s"};
  return model::Warning{*signal, *before, at_any_end};
}

/// Reads --time-limit, --grace, --signal and --checkpoint-signal.
Status take_ending(const Arguments& arguments, model::Job& job) {
  if (const auto given = arguments.value("--time-limit")) {
    auto limit = parse_duration(*given);
    if (!limit) return std::move(limit).error().during("--time-limit");
    job.time_limit = *limit;
  }
  if (const auto given = arguments.value("--grace")) {
    auto grace = parse_duration(*given);
    if (!grace) return std::move(grace).error().during("--grace");
    job.grace = *grace;
  }
  if (const auto given = arguments.value("--signal")) {
    if (!job.time_limit)
      return Error{ErrorCode::kInvalidArgument, "E0013",
                   text("{} needs {}", "--signal", "--time-limit"),
                   fmt::format("berth run --time-limit 2h --signal {} -- python train.py",
                               printable(*given))};
    auto warning = parse_warning(*given, false);
    if (!warning) return std::move(warning).error().during("--signal");
    job.warning = *warning;
  }
  if (const auto given = arguments.value("--checkpoint-signal")) {
    if (job.warning) return contradiction("--checkpoint-signal", "--signal");
    auto warning = parse_warning(*given, true);
    if (!warning) return std::move(warning).error().during("--checkpoint-signal");
    job.warning = *warning;
  }
  return Done{};
}

}  // namespace

Result<After> jobs_before(const std::vector<std::string>& lists) {
  After out;
  std::optional<JobCalls> calls;
  for (const std::string& list : lists) {
    // A prefix applies to all jobs up to the next prefix. In "any:7,8", it applies to 7 and 8.
    auto kind = &After::ok;
    for (std::string_view word : split(list, ',')) {
      word = trim(word);
      for (const Kind& one : kKinds)
        if (word.starts_with(one.prefix)) {
          kind = one.list;
          word.remove_prefix(one.prefix.size());
        }
      if (!calls) {
        auto reached = JobCalls::reach_for(word);
        if (!reached) return std::move(reached).error();
        calls = *std::move(reached);
      }
      const auto id = calls->id_of(std::string(word));
      if (!id) return id.error();
      (out.*kind).push_back(*id);
    }
  }
  return out;
}

void say_queued(const Context& context, const client::Response& answer,
                const std::vector<model::Job>& queued) {
  const model::Job& first = queued.front();
  const model::JobId number = first.task ? first.task->array : first.id;
  if (context.json) context.out(answer.body);
  // print the number alone, for scripts such as J=$(berth run --queue …)
  else if (!context.out_terminal.tty)
    context.out(fmt::format("{}\n", number));
  else
    context.out((first.task ? text_n("array {}: {} job", "array {}: {} jobs",
                                     static_cast<long long>(queued.size()), number, queued.size())
                            : text("job {}", number)) +
                "\n");
}

Result<model::Job> job_of(const Arguments& arguments, const model::Request& request) {
  model::Job job;
  job.request = request;
  job.name = arguments.value("--name").value_or("");
  job.command = arguments.command;
  job.queued = arguments.has("--queue");
  job.requeue = arguments.has("--requeue");
  job.preemptible = arguments.has("--preemptible");
  job.on_end = arguments.value("--on-end").value_or("");
  job.notify = arguments.has("--notify");
  if (arguments.has("--hold")) job.state = model::JobState::kHeld;
  if (auto taken = take_ending(arguments, job); !taken) return std::move(taken).error();
  if (const auto given = arguments.value("--or-cpu-after")) {
    auto patience = parse_duration(*given);
    if (!patience) return std::move(patience).error().during("--or-cpu-after");
    if (request.gpus == 0) return contradiction("--or-cpu-after", "--gpus none");
    job.or_cpu_after = *patience;
  }
  if (const auto given = arguments.value("--priority")) {
    auto priority = parse_integer(*given, -1000, 1000);
    if (!priority) return std::move(priority).error().during("--priority");
    job.priority = static_cast<int>(*priority);
  }
  return job;
}

Status check_not_queued(const Arguments& arguments) {
  struct Queued {
    const char *option, *example;
  };
  for (const Queued& one :
       {Queued{"--requeue", "berth run --queue --requeue -- python train.py"},
        Queued{"--preemptible", "berth run --queue --preemptible -- python train.py"},
        {"--array", "berth run --queue --array 1-100 -- python train.py"},
        {"--hold", "berth run --queue --hold -- python train.py"}})
    if (arguments.has(one.option))
      return Error{ErrorCode::kInvalidArgument, "E0013", text("{} needs {}", one.option, "--queue"),
                   one.example};
  if (const auto after = arguments.value("--after"))
    return Error{ErrorCode::kInvalidArgument, "E0013", text("{} needs {}", "--after", "--queue"),
                 fmt::format("berth run --queue --after {} -- python train.py", printable(*after))};
  return Done{};
}

Result<int> queue_job(const Context& context, const model::Request& request,
                      const std::map<std::string, std::string>& variables,
                      const std::vector<std::string>& command) {
  for (const char* option : {"--dry-run", "--no-wait", "--report"})
    if (context.arguments.has(option)) return contradiction("--queue", option);
  auto job = job_of(context.arguments, request);
  if (!job) return std::move(job).error();
  auto after = jobs_before(context.arguments.values("--after"));
  if (!after) return std::move(after).error().during("--after");
  job->after = std::move(after->ok);
  job->after_any = std::move(after->any);
  job->after_not_ok = std::move(after->not_ok);
  const auto array = context.arguments.value("--array");
  if (array)
    if (const auto range = model::parse_array_range(*array); !range)
      return Error(range.error()).during("--array");
  // The key identifies this submission. If it is repeated with the same key, the broker returns the
  // same job instead of queuing another one.
  job->key = client::new_key();
  const auto body = body_of(*job, command, variables, array);
  if (!body) return body.error();
  auto calls = JobCalls::reach_or_start();
  if (!calls) return std::move(calls).error();
  const auto answer = calls->call("POST", "/v1/jobs", kAnswerSoon, *body);
  if (!answer) return may_be_queued(answer.error());
  const auto queued = client::jobs_in(*answer);
  if (!queued) return may_be_queued(queued.error());
  say_queued(context, *answer, *queued);
  if (const int problem = std::exchange(context.write_error, 0); problem != 0)
    return queued_unsaid(queued->front(), problem);
  return 0;
}

}  // namespace berth::cli
