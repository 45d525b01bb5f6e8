#include "cli/queue.hpp"
#include "base/error_words.hpp"
#include "client/lease.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

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

/// umask() tells only by setting; this thread is the only one yet.
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

Result<std::string> body_of(const model::Job& job,
                            const std::map<std::string, std::string>& variables,
                            const std::optional<std::string>& array) {
  std::error_code problem;
  const std::string folder = std::filesystem::current_path(problem);
  if (problem)
    return Error{ErrorCode::kUnavailable, "E0517",
                 text("this folder cannot be named: {}", problem.message()), "cd ~"};
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
    // What people are told of it is text; this is what is run.
    spec["command"] = json_of_words<Json>(job.command);
    if (array) body["array"] = *array;
    return body.dump();
  } catch (const Json::exception& wrong) {
    return Error{ErrorCode::kInvalidArgument, "E0913",
                 text("the job cannot be queued: {}", printable(wrong.what())),
                 "berth run --queue -- python train.py"};
  }
}

/// Who tries again would have it twice.
Error queued_unsaid(const model::Job& job, int problem) {
  const auto number = job.task ? job.task->array : job.id;
  return {
      ErrorCode::kUnsupported, "E0008",
      text("job {} is queued, but the output cannot be written: {}", number, error_words(problem)),
      fmt::format("berth jobs --mine\nberth cancel {}", number)};
}

/// --after, by number or name, as every verb takes a job.
Result<std::vector<model::JobId>> jobs_before(const Arguments& arguments) {
  std::vector<model::JobId> ids;
  std::optional<JobCalls> calls;
  for (const std::string& list : arguments.values("--after"))
    for (const std::string_view part : split(list, ',')) {
      const std::string word(trim(part));
      if (!calls) {
        auto reached = JobCalls::reach_for(word);
        if (!reached) return std::move(reached).error();
        calls = *std::move(reached);
      }
      const auto id = calls->id_of(word);
      if (!id) return id.error();
      ids.push_back(*id);
    }
  return ids;
}

}  // namespace

Result<model::Job> job_of(const Arguments& arguments, const model::Request& request) {
  model::Job job;
  job.request = request;
  job.name = arguments.value("--name").value_or("");
  job.command = arguments.command;
  job.queued = arguments.has("--queue");
  job.requeue = arguments.has("--requeue");
  if (arguments.has("--hold")) job.state = model::JobState::kHeld;
  if (const auto given = arguments.value("--time-limit")) {
    auto limit = parse_duration(*given);
    if (!limit) return std::move(limit).error().during("--time-limit");
    job.time_limit = *limit;
  }
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

Result<int> queue_job(const Context& context, const model::Request& request,
                      const std::map<std::string, std::string>& variables) {
  for (const char* option : {"--dry-run", "--no-wait", "--report"})
    if (context.arguments.has(option)) return contradiction("--queue", option);
  auto job = job_of(context.arguments, request);
  if (!job) return std::move(job).error();
  auto after = jobs_before(context.arguments);
  if (!after) return std::move(after).error().during("--after");
  job->after = *std::move(after);
  const auto array = context.arguments.value("--array");
  if (array)
    if (const auto range = model::parse_array_range(*array); !range)
      return Error(range.error()).during("--array");
  auto body = body_of(*job, variables, array);
  if (!body) return std::move(body).error();
  auto client = client::broker_here(client::IfNone::kStart);
  if (!client) return std::move(client).error();
  const auto answer = client->call("POST", "/v1/jobs", *std::move(body));
  if (!answer) return answer.error();
  const auto queued = client::jobs_in(*answer);
  if (!queued) return queued.error();
  const model::Job& first = queued->front();
  context.out(context.json ? answer->body
              : first.task ? text_n("array {}: {} job", "array {}: {} jobs",
                                    static_cast<long long>(queued->size()), first.task->array,
                                    queued->size()) +
                                 "\n"
                           : text("job {}", first.id) + "\n");
  if (const int problem = std::exchange(context.write_error, 0); problem != 0)
    return queued_unsaid(first, problem);
  return 0;
}

}  // namespace berth::cli
