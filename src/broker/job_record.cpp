#include "broker/job_record.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "broker/broker.hpp"
#include "model/cpu_list.hpp"
#include "model/tries.hpp"

namespace berth::broker {
namespace {

using Json = nlohmann::json;
using model::Job;

constexpr int kMostDevices =
    1024;  // far above any machine, but small enough that no calculation overflows
constexpr int kMostCpus = 8192;
constexpr std::array<std::string_view, 10> kChanges{
    "priority",      "gpus",      "time_limit_milliseconds",
    "after",         "after_any", "after_not_ok",
    "first",         "swap",      "memory_bytes",
    "share_permille"};
// client::Lease sends the whole record of its job with the calls `owners` and `end`. So both lists
// end with the five keys that every record has.
constexpr std::array<std::string_view, 6> kOwners{"owners",  "id",    "uid",
                                                  "request", "state", "submitted"};
constexpr std::array<std::string_view, 9> kEnd{
    "outcome", "cpu_milliseconds", "peak_memory_bytes", "stuck", "id", "uid", "request",
    "state",   "submitted"};
constexpr std::array<std::string_view, 2> kDrain{"unit", "lent_to"};
constexpr std::array<std::string_view, 4> kNextTry{"number", "after", "without",
                                                   "pause_milliseconds"};

/// Calls visit for each optional member of the request, with its name; used for reading and for
/// writing.
template <typename Request, typename Visit>
void for_each_optional(Request& request, Visit visit) {
  visit("gpus", request.gpus);
  visit("gpus_most", request.gpus_most);
  visit("memory_bytes", request.memory_bytes);
  visit("share_permille", request.share_permille);
  visit("cap_permille", request.turns.cap_permille);
  visit("latency", request.turns.latency);
  visit("best_effort", request.turns.best_effort);
  visit("slice_milliseconds", request.turns.slice_milliseconds);
  visit("keeps_turn", request.turns.keeps_turn);
  visit("driver_limits", request.driver_limits);
  visit("mig_only", request.mig_only);
  visit("cpus", request.cpus);
  visit("cpu_list", request.cpu_list);
  visit("all_gpus", request.all_gpus);
  for (const model::InheritedVariable& one : model::kInherited) visit(one.key, request.*one.value);
}

Json request_json(const model::Request& request) {
  Json out = Json::object();
  for_each_optional(request, [&](const char* key, const auto& value) {
    if (value) out[key] = *value;
  });
  if (!request.devices.empty()) out["devices"] = request.devices;
  if (!request.without.empty()) out["without"] = request.without;
  return out;
}

Json outcome_json(const model::Outcome& outcome) {
  Json out{{"class", static_cast<int>(outcome.kind)}, {"exit_code", outcome.exit_code}};
  if (outcome.signal) out["signal"] = *outcome.signal;
  return out;
}

/// The exception for a key whose value has the wrong type.
struct WrongKind {
  std::string key;
};

/// Reads a value and checks its type. Throws an exception if the type is wrong; job_of() catches
/// it.
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

/// The array at this key, or an empty array if there is no such key.
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
  take(json, "without", request.without);
  return request;
}

model::Outcome outcome_of(const Json& json) {
  model::Outcome outcome;
  int kind = static_cast<int>(model::OutcomeClass::kLost);
  take(json, "class", kind);
  if (kind >= 0 && kind <= static_cast<int>(model::OutcomeClass::kPreempted))
    outcome.kind = static_cast<model::OutcomeClass>(kind);
  take(json, "exit_code", outcome.exit_code);
  take(json, "signal", outcome.signal);
  return outcome;
}

model::ToldToEnd told_to_end_of(const Json& json) {
  model::ToldToEnd how;
  std::string state;
  take(json, "state", state);
  if (const auto known = model::job_state(state);
      known && (model::has_ended(*known) || *known == model::JobState::kWaiting))
    how.state = *known;
  take(json, "why", how.why);
  take(json, "by", how.by);
  return how;
}

void take_milliseconds(const Json& json, const char* key,
                       std::optional<std::chrono::milliseconds>& into) {
  std::optional<std::int64_t> number;
  take(json, key, number);
  if (number) into = std::chrono::milliseconds(*number);
}

void take_ending(const Json& json, Job& job) {
  take_milliseconds(json, "grace_milliseconds", job.grace);
  std::string signal;
  take(json, "signal", signal);
  if (!signal.empty()) {
    std::int64_t before = 0;
    take(json, "signal_before_milliseconds", before);
    // An unknown signal name becomes 0, which is not a signal. Then check_numbers() rejects it.
    job.warning = {model::warning_signal(signal).value_or(0), std::chrono::milliseconds(before)};
    take(json, "signal_at_any_end", job.warning->at_any_end);
  }
  take(json, "warned", job.warned);
  take(json, "on_end", job.on_end);
  take(json, "notify", job.notify);
  take(json, "terminal", job.terminal);
}

void take_usage(const Json& json, model::JobUsage& usage) {
  take_milliseconds(json, "cpu_milliseconds", usage.cpu);
  take(json, "peak_memory_bytes", usage.peak_memory_bytes);
}

void take_processes(const Json& json, const char* key, std::vector<model::ProcessId>& into) {
  for (const Json& one : list_of(json, key)) {
    model::ProcessId& owner = into.emplace_back();
    take(one, "pid", owner.pid);
    take(one, "start_ticks", owner.start_ticks);
  }
}

model::QueuedTry queued_try_of(const Json& json) {
  model::QueuedTry next;
  take(json, "number", next.number);
  take(json, "after", next.after);
  take(json, "without", next.without);
  std::int64_t pause = 0;
  take(json, "pause_milliseconds", pause);
  next.pause = std::chrono::milliseconds(pause);
  return next;
}

void take_tries(const Json& json, Job& job) {
  if (const auto found = json.find("next_try"); found != json.end())
    job.next_try = queued_try_of(*found);
  take(json, "retries", job.retries);
  take(json, "avoids", job.avoids);
  std::int64_t pause = 0;
  std::int64_t ran = 0;
  take(json, "pause_milliseconds", pause);
  take(json, "ran_before_milliseconds", ran);
  job.pause = std::chrono::milliseconds(pause);
  job.ran_before = std::chrono::milliseconds(ran);
}

model::ArrayTask task_of(const Json& json) {
  model::ArrayTask task;
  take(json, "array", task.array);
  take(json, "index", task.index);
  take(json, "at_most", task.at_most);
  return task;
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
  take_milliseconds(json, "time_limit_milliseconds", job.time_limit);
  take_milliseconds(json, "or_cpu_after_milliseconds", job.or_cpu_after);
  take_ending(json, job);
  take(json, "after", job.after);
  take(json, "key", job.key);
  take(json, "after_any", job.after_any);
  take(json, "after_not_ok", job.after_not_ok);
  take(json, "place", job.place);
  take(json, "requeue", job.requeue);
  take(json, "restarts", job.restarts);
  take(json, "preemptible", job.preemptible);
  take(json, "preemptions", job.preemptions);
  take_tries(json, job);
  if (json.contains("task")) job.task = task_of(json.at("task"));
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
    take(one, "made", grant.made);
  }
  take(json, "cpus", job.cpus);
  take(json, "affinity", job.affinity);
  take_processes(json, "owners", job.owners);
  take_processes(json, "stuck", job.stuck);
  if (const auto found = json.find("told_to_end"); found != json.end())
    job.told_to_end = told_to_end_of(*found);
  if (const auto found = json.find("outcome"); found != json.end())
    job.outcome = outcome_of(*found);
  if (const auto found = json.find("last_outcome"); found != json.end())
    job.last_outcome = outcome_of(*found);
  take(json, "why", job.why);
  take(json, "ended_by", job.ended_by);
  take_usage(json, job.usage);
  take(json, "group", job.group);
  bool by_kernel = false;
  take(json, "access_by_kernel", by_kernel);
  job.access = by_kernel ? model::Access::kKernel : model::Access::kVariable;
  take(json, "refusals", job.refusals);
  return job;
}

/// Describes a JSON error in Berth's own words instead of the words of the JSON library.
std::string words_of(const Json::exception& problem) {
  constexpr int kNoSuchKey = 403;
  const std::string_view said(problem.what());
  const auto begin = said.find("key '");
  if (problem.id == kNoSuchKey && begin != std::string_view::npos)
    return text("{} is missing",
                printable(said.substr(begin + 5, said.find('\'', begin + 5) - begin - 5)));
  if (const auto* broken = dynamic_cast<const Json::parse_error*>(&problem))
    return text("invalid JSON at byte {}", broken->byte);
  return text("a value has the wrong type");
}

Error no_record(const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E0904", text("this is not a job record: {}", why),
          text("see docs/api.md for the keys of a job")};
}

Error no_record(const WrongKind& wrong) {
  return no_record(text("{} has the wrong type", wrong.key));
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

/// Reads {"nofile": [1024, null]}; ignores limits that only newer systems have.
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
  if (!sound) return cannot_start(text("the job has no command, or no folder to start in"));
  return Done{};
} catch (const Json::exception& problem) {
  return cannot_start(words_of(problem));
}

Error not_within(std::string_view what, std::string_view range) {
  return {ErrorCode::kInvalidArgument, "E0104", text("{} is not {}", what, range), ""};
}

/// The key is kept in memory and in the journal, so it must be short.
Status check_key(const Job& job) {
  constexpr std::size_t kLongest = 64;
  const bool is_sound =
      job.key.size() <= kLongest && std::all_of(job.key.begin(), job.key.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '-' || c == '_';
      });
  if (is_sound) return Done{};
  return not_within("key", text("at most {} letters, digits, - and _", kLongest));
}

/// Rejects a name that commands would read as a number, a range or a list of jobs.
Status check_name(const std::string& name) {
  const bool has_letter = std::any_of(name.begin(), name.end(), [](char c) {
    return std::string_view("0123456789-_[]%:").find(c) == std::string_view::npos;
  });
  const bool is_list = name.find(',') != std::string::npos || name.starts_with("any:") ||
                       name.starts_with("not-ok:");
  if (name.empty() || (has_letter && !is_list)) return Done{};
  return Error{ErrorCode::kInvalidArgument, "E0947",
               text("a job cannot be called '{}': it looks like a number or a list of jobs",
                    printable(name)),
               "berth run --queue --name sweep-7 -- python train.py"};
}

/// Rejects a warning signal that could never be sent.
Status check_warning(const Job& job) {
  if (!job.warning) return Done{};
  if (job.warning->signal == 0)
    return Error{ErrorCode::kInvalidArgument, "E0946",
                 text("only USR1, USR2, HUP, INT, QUIT or TERM can be sent before a time limit"),
                 "berth run --queue --time-limit 2h --signal USR1@60s -- python train.py"};
  if (job.warning->before.count() <= 0 || job.warning->before > std::chrono::hours(24))
    return not_within(text("the time between the signal and the end"),
                      text("above zero and at most a day"));
  if (!model::fits(*job.warning, job.time_limit))
    return Error{ErrorCode::kInvalidArgument, "E0946",
                 text("the signal's lead time must be shorter than the time limit"),
                 "berth run --queue --time-limit 2h --signal USR1@60s -- python train.py"};
  return Done{};
}

/// Rejects numbers out of range. With very large numbers, later calculations would overflow.
Status check_turns(const model::Request& request) {
  const model::TurnRules& turns = request.turns;
  constexpr int kLongestTurn = 24 * 60 * 60 * 1000;
  if (turns.cap_permille &&
      (*turns.cap_permille < std::max(1, request.share_permille.value_or(1)) ||
       *turns.cap_permille > model::kWholePermille))
    return not_within("cap_permille", text("a number from the share to {}", model::kWholePermille));
  if (turns.slice_milliseconds &&
      (*turns.slice_milliseconds < 1 || *turns.slice_milliseconds > kLongestTurn))
    return not_within("slice_milliseconds", text("a number from 1 to {}", kLongestTurn));
  if (turns.latency.value_or(false) && turns.best_effort.value_or(false))
    return not_within("best_effort", text("false, although {} is true", "latency"));
  return Done{};
}

Status check_numbers(const Job& job) {
  constexpr std::size_t kLongestName = 256, kLongestCommand = 4096;
  if (auto sound = check_name(job.name); !sound) return sound;
  if (job.name.size() > kLongestName)
    return not_within(text("the name"), text("a text of at most {} bytes", kLongestName));
  if (job.on_end.size() > kLongestCommand)
    return not_within(text("the command to run after the job"),
                      text("a text of at most {} bytes", kLongestCommand));
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 366 * 100);
  const model::Request& request = job.request;
  if (request.gpus && (*request.gpus < 0 || *request.gpus > kMostDevices))
    return not_within("gpus", text("a number from 0 to {}", kMostDevices));
  if (request.gpus_most && (*request.gpus_most < 0 || *request.gpus_most > kMostDevices))
    return not_within("gpus_most", text("a number from 0 to {}", kMostDevices));
  if (request.cpus && (*request.cpus < 1 || *request.cpus > kMostCpus))
    return not_within("cpus", text("a number from 1 to {}", kMostCpus));
  if (request.cpu_list) {
    const auto list = model::parse_cpu_list(*request.cpu_list);
    if (!list || list->empty() || static_cast<int>(list->size()) != request.cpus)
      return not_within("cpu_list", text("a list of cores whose length equals {}", "cpus"));
  }
  if (request.memory_bytes && *request.memory_bytes == 0)
    return not_within("memory_bytes", text("above zero"));
  if (auto sound = check_turns(request); !sound) return sound;
  if (job.time_limit && (job.time_limit->count() <= 0 || *job.time_limit > kLongest))
    return not_within(text("the time limit"), text("above zero and below a hundred years"));
  if (job.or_cpu_after && (job.or_cpu_after->count() < 0 || *job.or_cpu_after > kLongest))
    return not_within(text("the time to wait before the CPU is used"),
                      text("below a hundred years"));
  if (job.grace && (job.grace->count() < 0 || *job.grace > std::chrono::hours(24)))
    return not_within(text("the time between SIGTERM and SIGKILL"), text("between 0 and a day"));
  return check_warning(job);
}

/// Rejects unknown keys: a misspelt or newer key would otherwise be ignored silently.
template <typename Keys>
Status check_keys_of(const Json& json, const Keys& known) {
  for (const auto& [key, value] : json.get_ref<const Json::object_t&>())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return no_record(text("there is no key {}", printable(key)));
  return Done{};
}

Status check_keys(const Json& json) {
  static const std::set<std::string, std::less<>> of_job{
      // Keys that clients may set.
      "request", "name", "command", "queued", "priority", "tier", "time_limit_milliseconds",
      "or_cpu_after_milliseconds", "after", "after_any", "after_not_ok", "grace_milliseconds",
      "signal", "signal_before_milliseconds", "signal_at_any_end", "on_end", "notify", "requeue",
      "preemptible", "array", "owners", "spec", "state", "key",
      // record_of() writes these keys for every job, but the broker sets their values itself.
      "id", "uid", "user", "submitted"};
  static const std::set<std::string, std::less<>> of_spec{"folder", "umask",   "environment",
                                                          "limits", "command", "nice"};
  if (auto fits = check_keys_of(json, of_job); !fits) return fits;
  if (const auto request = json.find("request"); request != json.end()) {
    std::set<std::string, std::less<>> known{"devices", "without"};
    model::Request any;
    for_each_optional(any, [&](const char* key, const auto&) { known.insert(key); });
    if (auto fits = check_keys_of(*request, known); !fits) return fits;
  }
  if (const auto spec = json.find("spec"); spec != json.end())
    if (auto fits = check_keys_of(*spec, of_spec); !fits) return fits;
  return Done{};
}

void add_ending(const Job& job, Json& out) {
  if (!job.on_end.empty()) out["on_end"] = job.on_end;
  if (job.notify) out["notify"] = true;
  if (!job.terminal.empty()) out["terminal"] = job.terminal;
  if (job.grace) out["grace_milliseconds"] = job.grace->count();
  if (job.warning) {
    out["signal"] = model::warning_name(job.warning->signal);
    out["signal_before_milliseconds"] = job.warning->before.count();
    if (job.warning->at_any_end) out["signal_at_any_end"] = true;
  }
  if (job.warned) out["warned"] = true;
}

Json queued_try_json(const model::QueuedTry& next) {
  return {{"number", next.number},
          {"after", next.after},
          {"without", next.without},
          {"pause_milliseconds", next.pause.count()}};
}

void add_tries(const Job& job, Json& out) {
  if (job.next_try) out["next_try"] = queued_try_json(*job.next_try);
  if (job.retries != 0) out["retries"] = job.retries;
  if (!job.avoids.empty()) out["avoids"] = job.avoids;
  if (job.pause.count() != 0) out["pause_milliseconds"] = job.pause.count();
  if (job.ran_before.count() != 0) out["ran_before_milliseconds"] = job.ran_before.count();
}

}  // namespace

std::string record_of(const model::QueuedTry& next) {
  return queued_try_json(next).dump(-1, ' ', false, Json::error_handler_t::replace);
}

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
  add("key", job.key);
  add("after_any", job.after_any);
  add("after_not_ok", job.after_not_ok);
  add("ended_by", job.ended_by);
  if (job.place != 0) out["place"] = job.place;
  add_ending(job, out);
  if (job.usage.cpu) out["cpu_milliseconds"] = job.usage.cpu->count();
  if (job.usage.peak_memory_bytes) out["peak_memory_bytes"] = *job.usage.peak_memory_bytes;
  if (job.requeue) out["requeue"] = true;
  if (job.restarts != 0) out["restarts"] = job.restarts;
  if (job.preemptible) out["preemptible"] = true;
  if (job.preemptions != 0) out["preemptions"] = job.preemptions;
  add_tries(job, out);
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
                             {"share_permille", grant.share_permille},
                             {"made", grant.made}});
  for (const auto& [key, list] : {std::pair("owners", &job.owners), std::pair("stuck", &job.stuck)})
    for (const model::ProcessId& one : *list)
      out[key].push_back({{"pid", one.pid}, {"start_ticks", one.start_ticks}});
  if (job.told_to_end) {
    out["told_to_end"] = {{"state", model::name(job.told_to_end->state)},
                          {"why", job.told_to_end->why}};
    if (!job.told_to_end->by.empty()) out["told_to_end"]["by"] = job.told_to_end->by;
  }
  if (job.outcome) out["outcome"] = outcome_json(*job.outcome);
  if (job.last_outcome) out["last_outcome"] = outcome_json(*job.last_outcome);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Job> job_of(std::string_view record) try {
  return parse(Json::parse(record));
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

Result<Job> running_change_of(std::string_view body, std::string_view what) try {
  const Json json = Json::parse(body);
  if (auto known = what == "end" ? check_keys_of(json, kEnd) : check_keys_of(json, kOwners); !known)
    return std::move(known).error();
  return parse(json);
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

Result<model::QueuedTry> next_try_of(std::string_view body) try {
  constexpr int kMostTries = 1'000'000;
  const Json json = Json::parse(body);
  if (auto known = check_keys_of(json, kNextTry); !known) return std::move(known).error();
  model::QueuedTry next = queued_try_of(json);
  if (next.number < 2 || next.number > kMostTries)
    return not_within("number", text("a number from 2 to {}", kMostTries));
  if (next.pause.count() < 0 || next.pause > std::chrono::hours(24))
    return not_within("pause_milliseconds", text("between 0 and a day"));
  if (next.without.size() > static_cast<std::size_t>(kMostDevices))
    return not_within("without", text("a list of at most {} devices", kMostDevices));
  if (!model::try_class(next.after))
    return not_within("after", text("a kind of failure, such as {}", "device fault"));
  return next;
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

Result<UnitCall> unit_of(std::string_view body) try {
  const Json json = Json::parse(body);
  if (auto known = check_keys_of(json, kDrain); !known) return std::move(known).error();
  UnitCall out;
  take(json, "unit", out.unit);
  take(json, "lent_to", out.lent_to);
  if (!out.lent_to.empty() && model::scheduler_of(out.lent_to) == nullptr)
    return Error{ErrorCode::kInvalidArgument, "E0904",
                 text("a device cannot be lent to {}", printable(out.lent_to)), ""};
  return out;
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

std::string hang_record(const std::string& sentence) {
  const Json hang = sentence.empty() ? Json(nullptr) : Json(sentence);
  return Json{{"hang", hang}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> hang_of(std::string_view body) try {
  const Json json = Json::parse(body);
  constexpr std::array<std::string_view, 1> kHang{"hang"};
  if (auto known = check_keys_of(json, kHang); !known) return std::move(known).error();
  const Json& hang = json.at("hang");
  if (hang.is_null()) return std::string();
  constexpr std::size_t kLongest = 400;
  return printable(hang.get<std::string>().substr(0, kLongest));
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

Result<Changes> changes_of(std::string_view body) try {
  const Json json = Json::parse(body);
  if (auto known = check_keys_of(json, kChanges); !known) return std::move(known).error();
  Changes out;
  take(json, "priority", out.priority);
  take(json, "gpus", out.gpus);
  take(json, "memory_bytes", out.memory_bytes);
  take(json, "share_permille", out.share_permille);
  take_milliseconds(json, "time_limit_milliseconds", out.time_limit);
  if (json.contains("time_limit_milliseconds") && json["time_limit_milliseconds"].is_null())
    out.time_limit = std::chrono::milliseconds(0);
  take(json, "after", out.after);
  take(json, "after_any", out.after_any);
  take(json, "after_not_ok", out.after_not_ok);
  take(json, "first", out.first);
  take(json, "swap", out.swap);
  Job checked;
  checked.request.gpus = out.gpus;
  checked.request.memory_bytes = out.memory_bytes;
  checked.request.share_permille = out.share_permille;
  if (out.time_limit && out.time_limit->count() != 0) checked.time_limit = out.time_limit;
  if (auto sound = check_numbers(checked); !sound) return std::move(sound).error();
  return out;
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

Result<Submission> submission_of(std::string_view body) try {
  const Json json = Json::parse(body);
  if (auto known = check_keys(json); !known) return std::move(known).error();
  Submission out;
  out.job = parse(json);
  take(json, "array", out.array);
  if (auto sound = check_numbers(out.job); !sound) return std::move(sound).error();
  if (auto sound = check_key(out.job); !sound) return std::move(sound).error();
  if (out.job.queued)
    if (auto done = take_spec(json, out); !done) return std::move(done).error();
  return out;
} catch (const Json::exception& problem) {
  return no_record(words_of(problem));
} catch (const WrongKind& wrong) {
  return no_record(wrong);
}

}  // namespace berth::broker
