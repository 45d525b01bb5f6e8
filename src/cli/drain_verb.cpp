// `berth drain` and `undrain`: devices get no new jobs, for maintenance. Running jobs continue.
#include <algorithm>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "model/device_selector.hpp"
#include "policy/candidates.hpp"

namespace berth::cli {
namespace {

struct Named {
  std::string unit, label;
};

/// Finds the devices and partitions that the user named. A device's name also means all its
/// partitions.
Result<std::vector<Named>> units_named(const Context& context) {
  const auto& words = context.arguments.positional;
  if (words.empty())
    return Error{ErrorCode::kInvalidArgument, "E0936",
                 text("name a device: its number, or the beginning of its uuid"), "berth ls"};
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  const auto selected = model::select_devices(snapshot->devices, words);
  if (!selected) return selected.error();
  std::vector<Named> units;
  for (const policy::Candidate& one : policy::candidates_of(*snapshot, {})) {
    const auto is_meant = [&](const model::Selected& chosen) {
      return chosen.device == one.device->index &&
             (chosen.partition_uuid.empty() || chosen.partition_uuid == one.unit().partition_uuid);
    };
    const std::string unit = policy::unit_id(*one.device, one.partition);
    if (!unit.empty() && std::any_of(selected->begin(), selected->end(), is_meant))
      units.push_back({unit, policy::label(one)});
  }
  if (!units.empty()) return units;
  return Error{ErrorCode::kInvalidArgument, "E0936",
               text("{} is not a device that jobs can use", printable(words.front())), "berth ls"};
}

Result<int> set_drained(const Context& context, bool drained) {
  const auto units = units_named(context);
  if (!units) return units.error();
  auto calls = JobCalls::reach_or_start();
  if (!calls) return std::move(calls).error();
  std::string document;
  for (const Named& one : *units) {
    auto answer = calls->call("POST", drained ? "/v1/devices/drain" : "/v1/devices/undrain",
                              kAnswerSoon, nlohmann::json{{"unit", one.unit}}.dump());
    if (!answer) return std::move(answer).error();
    const auto jobs = client::jobs_in(*answer);
    if (!jobs) return jobs.error();
    document = answer->body;
    const auto on_it = std::count_if(jobs->begin(), jobs->end(), [&](const model::Job& job) {
      return job.state == model::JobState::kRunning &&
             std::any_of(job.grants.begin(), job.grants.end(),
                         [&](const model::Grant& grant) { return grant.unit == one.unit; });
    });
    if (context.json) continue;
    context.out((!drained ? text("{} accepts new jobs again", one.label)
                 : on_it == 0
                     ? text("{} gets no new jobs; none runs on it", one.label)
                     : text_n("{} gets no new jobs; {} job is running on it, and continues",
                              "{} gets no new jobs; {} jobs are running on it, and continue", on_it,
                              one.label, on_it)) +
                "\n");
  }
  if (context.json) context.out(document);
  return 0;
}

}  // namespace

Result<int> run_drain(const Context& context) {
  return set_drained(context, true);
}

Result<int> run_undrain(const Context& context) {
  return set_drained(context, false);
}

}  // namespace berth::cli
