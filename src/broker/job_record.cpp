#include "broker/job_record.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"

namespace berth::broker {
namespace {

using Json = nlohmann::json;
using model::Job;

constexpr int kMostDevices = 1024;  // far above any machine, far below what would overflow anything
constexpr int kMostCpus = 8192;

/// The request's members by name, in one place for both ways.
template <typename Request, typename Visit>
void for_each_optional(Request& request, Visit visit) {
  visit("gpus", request.gpus);
  visit("memory_bytes", request.memory_bytes);
  visit("share_permille", request.share_permille);
  visit("cpus", request.cpus);
  for (const model::InheritedVariable& one : model::kInherited) visit(one.key, request.*one.value);
}

Json request_json(const model::Request& request) {
  Json out = Json::object();
  for_each_optional(request, [&](const char* key, const auto& value) {
    if (value) out[key] = *value;
  });
  if (!request.devices.empty()) out["devices"] = request.devices;
  return out;
}

Json outcome_json(const model::Outcome& outcome) {
  Json out{{"class", static_cast<int>(outcome.kind)}, {"exit_code", outcome.exit_code}};
  if (outcome.signal) out["signal"] = *outcome.signal;
  return out;
}

/// A key whose value is of another kind than it should be.
struct WrongKind {
  std::string key;
};

/// Reads with the type's checks; what does not fit throws, which job_of() catches.
template <typename T>
void take(const Json& from, const char* key, T& into) {
  static_cast<void>(from.get_ref<const Json::object_t&>());
  const auto found = from.find(key);
  if (found == from.end()) return;
  try {
    read_json(*found, into);
  } catch (const Json::exception&) {
    throw WrongKind{key};
  }
}

template <typename T>
void take(const Json& from, const char* key, std::optional<T>& into) {
  const auto found = from.find(key);
  if (found == from.end() || found->is_null()) return;
  T value{};
  take(from, key, value);
  into = std::move(value);
}

/// The array behind the key; none where it is not there.
const Json& list_of(const Json& from, const char* key) {
  static const Json none = Json::array();
  const auto found = from.find(key);
  if (found == from.end()) return none;
  static_cast<void>(found->get_ref<const Json::array_t&>());
  return *found;
}

model::Request request_of(const Json& json) {
  model::Request request;
  for_each_optional(request, [&](const char* key, auto& value) { take(json, key, value); });
  take(json, "devices", request.devices);
  return request;
}

model::Outcome outcome_of(const Json& json) {
  model::Outcome outcome;
  int kind = static_cast<int>(model::OutcomeClass::kLost);
  take(json, "class", kind);
  if (kind >= 0 && kind <= static_cast<int>(model::OutcomeClass::kLost))
    outcome.kind = static_cast<model::OutcomeClass>(kind);
  take(json, "exit_code", outcome.exit_code);
  take(json, "signal", outcome.signal);
  return outcome;
}

model::ToldToEnd told_to_end_of(const Json& json) {
  model::ToldToEnd how;
  std::string state;
  take(json, "state", state);
  if (const auto known = model::job_state(state); known && model::has_ended(*known))
    how.state = *known;
  take(json, "why", how.why);
  return how;
}

Job parse(const Json& json) {
  Job job;
  take(json, "id", job.id);
  take(json, "uid", job.uid);
  take(json, "user", job.user);
  take(json, "name", job.name);
  if (const auto found = json.find("request"); found != json.end())
    job.request = request_of(*found);
  take(json, "command", job.command);
  take(json, "queued", job.queued);
  take(json, "priority", job.priority);
  take(json, "tier", job.tier);
  std::optional<std::int64_t> limit;
  take(json, "time_limit_milliseconds", limit);
  if (limit) job.time_limit = std::chrono::milliseconds(*limit);
  limit.reset();
  take(json, "or_cpu_after_milliseconds", limit);
  if (limit) job.or_cpu_after = std::chrono::milliseconds(*limit);
  take(json, "after", job.after);
  take(json, "requeue", job.requeue);
  take(json, "restarts", job.restarts);
  if (json.contains("task")) {
    const Json& task = json.at("task");
    job.task.emplace();
    take(task, "array", job.task->array);
    take(task, "index", job.task->index);
    take(task, "at_most", job.task->at_most);
  }
  std::string state;
  take(json, "state", state);
  job.state = model::job_state(state).value_or(model::JobState::kWaiting);
  take(json, "submitted", job.submitted_unix_milliseconds);
  take(json, "requeued", job.requeued_unix_milliseconds);
  take(json, "started", job.started_unix_milliseconds);
  take(json, "ended", job.ended_unix_milliseconds);
  for (const Json& one : list_of(json, "grants")) {
    model::Grant& grant = job.grants.emplace_back();
    take(one, "unit", grant.unit);
    take(one, "memory_bytes", grant.memory_bytes);
    take(one, "share_permille", grant.share_permille);
  }
  take(json, "cpus", job.cpus);
  take(json, "affinity", job.affinity);
  for (const Json& one : list_of(json, "owners")) {
    model::ProcessId& owner = job.owners.emplace_back();
    take(one, "pid", owner.pid);
    take(one, "start_ticks", owner.start_ticks);
  }
  if (const auto found = json.find("told_to_end"); found != json.end())
    job.told_to_end = told_to_end_of(*found);
  if (const auto found = json.find("outcome"); found != json.end())
    job.outcome = outcome_of(*found);
  take(json, "why", job.why);
  take(json, "group", job.group);
  bool by_kernel = false;
  take(json, "access_by_kernel", by_kernel);
  job.access = by_kernel ? model::Access::kKernel : model::Access::kVariable;
  take(json, "refusals", job.refusals);
  return job;
}

/// What is wrong, without the library's words for it.
std::string words_of(const Json::exception& problem) {
  constexpr int kNoSuchKey = 403;
  const std::string_view said(problem.what());
  const auto begin = said.find("key '");
  if (problem.id == kNoSuchKey && begin != std::string_view::npos)
    return text("{} is missing",
                printable(said.substr(begin + 5, said.find('\'', begin + 5) - begin - 5)));
  if (const auto* broken = dynamic_cast<const Json::parse_error*>(&problem))
    return text("it is no JSON from byte {} on", broken->byte);
  return text("a value in it is of another kind than it should be");
}

Error no_record(const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E0904", text("this is no job's record: {}", why),
          text("docs/api.md says what a job is asked for with")};
}

Error no_record(const WrongKind& wrong) {
  return no_record(text("{} is of another kind than it should be", wrong.key));
}

Error cannot_start(const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E0913", text("the job cannot be queued: {}", why),
          "berth run --queue -- python train.py"};
}

bool has_zero(const std::string& word) {
  return word.find('\0') != std::string::npos;
}

std::uint64_t bound_of(const Json& json) {
  return json.is_null() ? model::kNoLimit : json_value<std::uint64_t>(json);
}

/// {"nofile": [1024, null]}; what a newer system may have besides is passed over.
model::Limits limits_in(const Json& spec) {
  model::Limits limits;
  take(spec, "nice", limits.nice);
  const auto told = spec.find("limits");
  if (told == spec.end()) return limits;
  for (const auto& [name, pair] : told->get_ref<const Json::object_t&>())
    if (const auto resource = model::limit_of(name))
      limits.resources.push_back({*resource, bound_of(pair.at(0)), bound_of(pair.at(1))});
  return limits;
}

Status take_spec(const Json& json, Submission& into) try {
  const Json& spec = json.at("spec");
  into.command = spec.contains("command") ? words_in_json(spec["command"]) : into.job.command;
  into.environment = words_in_json(spec.at("environment"));
  into.folder = words_in_json(Json::array({spec.at("folder")})).at(0);
  into.mask = json_value<unsigned>(spec.at("umask")) & 0777U;
  into.limits = limits_in(spec);
  const auto& command = into.command;
  const bool sound = !command.empty() && into.folder.starts_with('/') && !has_zero(into.folder) &&
                     std::none_of(command.begin(), command.end(), has_zero) &&
                     std::none_of(into.environment.begin(), into.environment.end(), has_zero);
  if (!sound) return cannot_start(text("it has no command, or no folder to start in"));
  return Done{};
} catch (const Json::exception& problem) {
  return cannot_start(words_of(problem));
}

Error not_within(std::string_view what, std::string_view range) {
  return {ErrorCode::kInvalidArgument, "E0104", text("{} is not {}", what, range), ""};
}

/// Numbers that nobody means, and that would overflow what is reckoned with them.
Status check_numbers(const Job& job) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 366 * 100);
  const model::Request& request = job.request;
  if (request.gpus && (*request.gpus < 0 || *request.gpus > kMostDevices))
    return not_within("gpus", text("a number from 0 to {}", kMostDevices));
  if (request.cpus && (*request.cpus < 1 || *request.cpus > kMostCpus))
    return not_within("cpus", text("a number from 1 to {}", kMostCpus));
  if (request.memory_bytes && *request.memory_bytes == 0)
    return not_within("memory_bytes", text("above zero"));
  if (job.time_limit && (job.time_limit->count() <= 0 || *job.time_limit > kLongest))
    return not_within(text("the time limit"), text("above zero and below a hundred years"));
  if (job.or_cpu_after && (job.or_cpu_after->count() < 0 || *job.or_cpu_after > kLongest))
    return not_within(text("the time before the CPU is taken"), text("below a hundred years"));
  return Done{};
}

}  // namespace

std::string record_of(const Job& job) {
  Json out{{"id", job.id},
           {"uid", job.uid},
           {"request", request_json(job.request)},
           {"state", model::name(job.state)},
           {"submitted", job.submitted_unix_milliseconds}};
  const auto add = [&](const char* key, const auto& list) {
    if (!list.empty()) out[key] = list;
  };
  add("user", job.user);
  add("name", job.name);
  add("command", job.command);
  if (job.queued) out["queued"] = true;
  add("after", job.after);
  if (job.requeue) out["requeue"] = true;
  if (job.restarts != 0) out["restarts"] = job.restarts;
  add("cpus", job.cpus);
  add("affinity", job.affinity);
  add("why", job.why);
  add("group", job.group);
  if (job.access == model::Access::kKernel) out["access_by_kernel"] = true;
  if (job.refusals != 0) out["refusals"] = job.refusals;
  if (job.priority != 0) out["priority"] = job.priority;
  if (job.tier != 0) out["tier"] = job.tier;
  if (job.time_limit) out["time_limit_milliseconds"] = job.time_limit->count();
  if (job.or_cpu_after) out["or_cpu_after_milliseconds"] = job.or_cpu_after->count();
  if (job.task)
    out["task"] = {
        {"array", job.task->array}, {"index", job.task->index}, {"at_most", job.task->at_most}};
  if (job.requeued_unix_milliseconds) out["requeued"] = *job.requeued_unix_milliseconds;
  if (job.started_unix_milliseconds) out["started"] = *job.started_unix_milliseconds;
  if (job.ended_unix_milliseconds) out["ended"] = *job.ended_unix_milliseconds;
  for (const model::Grant& grant : job.grants)
    out["grants"].push_back({{"unit", grant.unit},
                             {"memory_bytes", grant.memory_bytes},
                             {"share_permille", grant.share_permille}});
  for (const model::ProcessId& owner : job.owners)
    out["owners"].push_back({{"pid", owner.pid}, {"start_ticks", owner.start_ticks}});
  if (job.told_to_end)
    out["told_to_end"] = {{"state", model::name(job.told_to_end->state)},
                          {"why", job.told_to_end->why}};
  if (job.outcome) out["outcome"] = outcome_json(*job.outcome);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Job> job_of(std::string_view record) try {
  return parse(Json::parse(record));
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

Result<Submission> submission_of(std::string_view body) try {
  const Json json = Json::parse(body);
  Submission out;
  out.job = parse(json);
  take(json, "array", out.array);
  if (auto sound = check_numbers(out.job); !sound) return std::move(sound).error();
  if (out.job.queued)
    if (auto done = take_spec(json, out); !done) return std::move(done).error();
  return out;
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

}  // namespace berth::broker
