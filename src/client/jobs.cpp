#include "client/jobs.hpp"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/translated.hpp"

namespace berth::client {
namespace {

using Json = nlohmann::json;
using model::Job;
using std::chrono::milliseconds;

template <typename T>
T value(const Json& from, const char* key) {
  const auto found = from.find(key);
  T out{};
  if (found != from.end() && !found->is_null()) read_json(*found, out);
  return out;
}

template <typename T>
std::optional<T> optional(const Json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || found->is_null()) return std::nullopt;
  return json_value<T>(*found);
}

model::OutcomeClass outcome_class(std::string_view name) {
  using model::OutcomeClass;
  for (int kind = 0; kind <= static_cast<int>(OutcomeClass::kPreempted); ++kind)
    if (model::name(static_cast<OutcomeClass>(kind)) == name)
      return static_cast<OutcomeClass>(kind);
  return OutcomeClass::kLost;
}

/// Reads a time such as "2026-09-10T00:26:40.123Z". Returns Unix milliseconds.
std::optional<std::int64_t> time_of(const Json& from, const char* key) {
  namespace chrono = std::chrono;
  const std::string given = value<std::string>(from, key);
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd.dddZ";
  if (given.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == 'd' ? given[i] < '0' || given[i] > '9' : given[i] != kForm[i])
      return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t digits) {
    int parsed = 0;
    std::from_chars(given.data() + at, given.data() + at + digits, parsed);
    return parsed;
  };
  const chrono::year_month_day day(chrono::year(number(0, 4)),
                                   chrono::month(static_cast<unsigned>(number(5, 2))),
                                   chrono::day(static_cast<unsigned>(number(8, 2))));
  if (!day.ok()) return std::nullopt;
  const auto moment = chrono::sys_days(day) + chrono::hours(number(11, 2)) +
                      chrono::minutes(number(14, 2)) + chrono::seconds(number(17, 2)) +
                      chrono::milliseconds(number(20, 3));
  return chrono::duration_cast<chrono::milliseconds>(moment.time_since_epoch()).count();
}

/// A duration in seconds. If it is missing, negative or too large, returns nullopt, which means no
/// limit.
std::optional<std::chrono::milliseconds> duration_of(const Json& from, const char* key) {
  const auto seconds = optional<double>(from, key);
  if (!seconds || !(*seconds >= 0) || *seconds >= 1e12) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

void take_array(const Json& json, Job& job) {
  const auto array = json.find("array");
  if (array == json.end() || !array->is_object()) return;
  job.task = {value<model::JobId>(*array, "id"), value<int>(*array, "index"),
              value<int>(*array, "at_most")};
  job.alike = value<std::string>(*array, "alike");
}

std::optional<model::Outcome> outcome_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return std::nullopt;
  return model::Outcome{outcome_class(value<std::string>(*found, "class")),
                        value<int>(*found, "exit_code"), optional<int>(*found, "signal")};
}

void take_tries(const Json& json, Job& job) {
  job.retries = value<int>(json, "retries");
  job.avoids = value<std::vector<std::string>>(json, "avoids");
  job.pause = duration_of(json, "pause_seconds").value_or(milliseconds(0));
  job.ran_before = duration_of(json, "ran_before_seconds").value_or(milliseconds(0));
}

Job job_of(const Json& json) {
  Job job;
  job.id = value<model::JobId>(json, "id");
  take_array(json, job);
  job.uid = value<std::uint32_t>(json, "uid");
  job.user = value<std::string>(json, "user");
  job.name = value<std::string>(json, "name");
  job.command = value<std::vector<std::string>>(json, "command");
  job.queued = value<bool>(json, "queued");
  job.log = value<std::string>(json, "log");
  job.state = model::job_state(value<std::string>(json, "state")).value_or(model::JobState::kLost);
  job.request.gpus = optional<int>(json, "gpus");
  job.request.gpus_most = optional<int>(json, "gpus_most");
  job.request.memory_bytes = optional<std::uint64_t>(json, "memory_bytes");
  job.request.share_permille = optional<int>(json, "share_permille");
  job.request.turns.cap_permille = optional<int>(json, "cap_permille");
  job.request.turns.slice_milliseconds = optional<int>(json, "slice_milliseconds");
  const auto turns = value<std::string>(json, "turns");
  if (turns == "latency") job.request.turns.latency = true;
  if (turns == "best_effort") job.request.turns.best_effort = true;
  job.request.cpus = optional<int>(json, "cpus_wanted");
  job.request.devices = value<std::vector<std::string>>(json, "devices_wanted");
  if (const auto visible = json.find("visible"); visible != json.end() && visible->is_object())
    for (const model::InheritedVariable& one : model::kInherited)
      job.request.*one.value = optional<std::string>(*visible, one.key);
  job.priority = value<int>(json, "priority");
  job.time_limit = duration_of(json, "time_limit_seconds");
  job.or_cpu_after = duration_of(json, "or_cpu_after_seconds");
  job.grace = duration_of(json, "grace_seconds");
  if (const auto signal = model::warning_signal(value<std::string>(json, "signal")))
    job.warning = {*signal, duration_of(json, "signal_before_seconds").value_or(milliseconds(0)),
                   value<bool>(json, "signal_at_any_end")};
  job.after = value<std::vector<model::JobId>>(json, "after");
  job.after_any = value<std::vector<model::JobId>>(json, "after_any");
  job.after_not_ok = value<std::vector<model::JobId>>(json, "after_not_ok");
  job.on_end = value<std::string>(json, "on_end");
  job.notify = value<bool>(json, "notify");
  job.ended_by = value<std::string>(json, "ended_by");
  job.usage.cpu = duration_of(json, "cpu_seconds");
  job.usage.peak_memory_bytes = optional<std::uint64_t>(json, "peak_memory_bytes");
  job.requeue = value<bool>(json, "requeue");
  job.restarts = value<int>(json, "restarts");
  if (const auto told = model::job_state(value<std::string>(json, "told_to_end")))
    job.told_to_end = model::ToldToEnd{*told, "", ""};
  job.preemptible = value<bool>(json, "preemptible");
  job.preemptions = value<int>(json, "preemptions");
  take_tries(json, job);
  job.submitted_unix_milliseconds = time_of(json, "submitted").value_or(0);
  job.requeued_unix_milliseconds = time_of(json, "requeued");
  job.started_unix_milliseconds = time_of(json, "started");
  job.ended_unix_milliseconds = time_of(json, "ended");
  for (const Json& device : value<Json::array_t>(json, "devices"))
    job.grants.push_back({value<std::string>(device, "uuid"),
                          value<std::uint64_t>(device, "memory_bytes"),
                          value<int>(device, "share_permille"), value<bool>(device, "made")});
  job.affinity = value<std::string>(json, "cpus");
  for (const std::int64_t pid : value<std::vector<std::int64_t>>(json, "pids"))
    job.owners.push_back({pid, 0});
  job.why = translated(value<std::string>(json, "why"));  // the broker's sentences are in English
  job.group = value<std::string>(json, "group");
  job.access = value<std::string>(json, "access") == model::name(model::Access::kKernel)
                   ? model::Access::kKernel
                   : model::Access::kVariable;
  job.refusals = value<std::uint64_t>(json, "refusals");
  job.outcome = outcome_of(json, "outcome");
  job.last_outcome = outcome_of(json, "last_outcome");
  return job;
}

model::JobOutlook outlook_of(const Json& json) {
  model::JobOutlook outlook;
  outlook.obstruction = json.at("obstruction").get<std::string>();
  outlook.before = value<std::vector<model::JobId>>(json, "before");
  outlook.fits_at = time_of(json, "fits_at");
  for (const Json& one : value<Json::array_t>(json, "releases"))
    outlook.releases.push_back({value<model::JobId>(one, "job"), time_of(one, "at").value_or(0),
                                value<bool>(one, "by_limit")});
  return outlook;
}

Error error_of(const Response& response) {
  return error_in(response.body).value_or(unreadable_answer(response));
}

template <typename Read>
auto read(const Response& response, Read take) -> Result<decltype(take(Json()))> try {
  if (response.status >= 300) return error_of(response);
  return take(Json::parse(response.body));
} catch (const Json::exception&) {
  return unreadable_answer(response);
}

}  // namespace

std::optional<Error> error_in(std::string_view json_text) {
  const Json json = Json::parse(json_text, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object())
    return std::nullopt;
  const Json& error = json["error"];
  return Error{error_code(value<std::string>(error, "code")).value_or(ErrorCode::kUnavailable),
               value<std::string>(error, "id"), translated(value<std::string>(error, "message")),
               translated(value<std::string>(error, "hint"))};
}

std::string new_key() {
  std::array<unsigned char, 16> bytes{};
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t n = ::getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  // Without random bytes, send no key: if the key were not unique, the broker could return another
  // job.
  if (have < bytes.size()) return "";
  std::string key;
  for (const unsigned char byte : bytes) key += fmt::format("{:02x}", byte);
  return key;
}

Result<Job> job_in(const Response& response) {
  return read(response, [](const Json& json) { return job_of(json.at("job")); });
}

Result<std::vector<Job>> jobs_in(const Response& response) {
  return read(response, [](const Json& json) {
    std::vector<Job> jobs;
    if (json.contains("job")) return std::vector{job_of(json.at("job"))};
    for (const Json& one : json.at("jobs")) jobs.push_back(job_of(one));
    return jobs;
  });
}

Result<model::JobOutlook> outlook_in(const Response& response) {
  return read(response, outlook_of);
}

std::uint64_t not_shown_in(const Response& response) {
  const auto number =
      read(response, [](const Json& json) { return value<std::uint64_t>(json, "not_shown"); });
  return number ? *number : 0;
}

model::ClosedUnits closed_in(const Response& response) {
  auto closed = read(response, [](const Json& json) {
    model::ClosedUnits all{value<std::vector<std::string>>(json, "elsewhere"),
                           value<std::vector<std::string>>(json, "drained"),
                           {},
                           {}};
    for (const Json& one : json.value("aside", Json::array())) {
      auto& aside = all.aside.emplace_back();
      aside.unit = value<std::string>(one, "unit");
      aside.job = value<std::uint64_t>(one, "job");
      aside.user = value<std::string>(one, "user");
      aside.number = value<std::string>(one, "number");
      for (const std::int64_t pid : value<std::vector<std::int64_t>>(one, "pids"))
        aside.processes.emplace_back(pid, 0);
    }
    for (const Json& one : json.value("lent", Json::array()))
      all.lent.push_back({value<std::string>(one, "unit"), value<std::string>(one, "to")});
    return all;
  });
  return closed ? *std::move(closed) : model::ClosedUnits();
}

std::vector<Error> notices_in(const Response& response) {
  auto notices = read(response, [](const Json& json) {
    std::vector<Error> all;
    for (const Json& one : value<Json::array_t>(json, "notices"))
      all.push_back({ErrorCode::kUnavailable, value<std::string>(one, "id"),
                     translated(value<std::string>(one, "message")),
                     translated(value<std::string>(one, "hint"))});
    return all;
  });
  return notices ? *std::move(notices) : std::vector<Error>();
}

}  // namespace berth::client
