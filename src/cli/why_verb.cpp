// `berth why JOB`: why the job waits, which jobs hold the resources, when it may start, which jobs
// are before it, and what would fit now. For a job that does not wait, shows where and how it ran.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "client/lease.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"
#include "output/jobs_text.hpp"
#include "policy/candidates.hpp"
#include "policy/demand.hpp"
#include "policy/placement.hpp"

namespace berth::cli {
namespace {

using model::Job;
using output::JobStory;
using policy::Candidate;
using policy::Obstacle;
using Json = nlohmann::ordered_json;

/// A snapshot of the machine, with its leases.
struct Scene {
  model::Snapshot snapshot;
  model::Ledger ledger;
};

/// Selects candidates as place() does. If the request names devices, only these are candidates.
/// Integrated graphics count only if there is no other GPU.
std::vector<Candidate> candidates_for(const model::Request& request, const Scene& scene) {
  if (request.gpus == 0) return {};
  auto all = policy::candidates_of(scene.snapshot, scene.ledger);
  const auto is_small = [](const Candidate& c) { return model::processor_graphics(*c.device); };
  if (!std::all_of(all.begin(), all.end(), is_small)) std::erase_if(all, is_small);
  const auto visible = policy::inherited_visibility(request, scene.snapshot);
  std::erase_if(all, [&](const Candidate& c) {
    return !visible.allows(c.device->index, c.unit().partition_uuid) ||
           std::find(request.without.begin(), request.without.end(),
                     policy::unit_id(*c.device, c.partition)) != request.without.end();
  });
  if (request.devices.empty()) return all;
  const auto named = model::select_devices(scene.snapshot.devices, request.devices);
  if (!named) return all;
  std::erase_if(all, [&](const Candidate& c) {
    return std::none_of(named->begin(), named->end(), [&](const model::Selected& one) {
      return one.device == c.device->index &&
             (one.partition_uuid.empty() || one.partition_uuid == c.unit().partition_uuid);
    });
  });
  return all;
}

std::string narrowed_for(const model::Request& request, const Scene& scene) {
  if (request.gpus == 0) return {};
  return policy::narrowed(policy::inherited_visibility(request, scene.snapshot),
                          policy::candidates_of(scene.snapshot, scene.ledger));
}

/// Describes processes on the device that belong to no job. The API does not tell a process's job.
/// If one job has the whole device, all processes on it count as part of that job. On a shared
/// device, all processes of a user with a job there count as part of this user's job.
std::string strangers_on(const Candidate& candidate, const Scene& scene) {
  const std::string unit = policy::unit_id(*candidate.device, candidate.partition);
  model::Snapshot others;
  for (const model::DeviceProcess& process : scene.snapshot.processes) {
    const bool is_a_jobs = std::any_of(
        scene.ledger.holdings.begin(), scene.ledger.holdings.end(), [&](const model::Holding& one) {
          return one.unit == unit && (one.memory_bytes == 0 || one.user == process.user);
        });
    if (!is_a_jobs) others.processes.push_back(process);
  }
  return policy::users_of(candidate, others);
}

void add_holders(JobStory& story, const Candidate& candidate, const Scene& scene) {
  ++story.possible;
  const std::string device = policy::label(candidate);
  const std::string unit = policy::unit_id(*candidate.device, candidate.partition);
  if (!candidate.busy && candidate.obstacle == Obstacle::kNone) {
    story.free.push_back(device);
    return;
  }
  bool is_told = false;
  for (const model::Holding& one : scene.ledger.holdings) {
    if (one.unit != unit) continue;
    if (one.job == 0 && one.user.empty()) ++story.drained;
    if (one.stuck_pid != 0)
      story.holders.push_back(
          {device, 0,
           text("set aside: process {} of job {}, which has ended, cannot be killed", one.stuck_pid,
                one.job_words())});
    else
      story.holders.push_back({device, one.job,
                               one.job != 0       ? ""
                               : one.user.empty() ? text("drained: it gets no new jobs")
                                                  : client::who_has_elsewhere(unit)});
    is_told = true;
  }
  const bool is_sick =
      candidate.obstacle != Obstacle::kNone && candidate.obstacle != Obstacle::kLeased;
  if (const std::string users = strangers_on(candidate, scene); !users.empty())
    story.holders.push_back({device, 0, text("{}, without a lease", users)});
  else if (is_sick)
    story.holders.push_back({device, 0, policy::sentence(candidate.obstacle)});
  else if (!is_told)
    story.holders.push_back({device, 0, text("memory is in use, but no visible process uses it")});
}

/// If this job needs cores, adds the jobs that have reserved some. A queued CPU job counts as one
/// core.
void add_core_holders(JobStory& story) {
  if (!story.job.request.cpus && story.job.request.gpus != 0) return;
  for (const Job& job : story.others) {
    if (job.state != model::JobState::kRunning || job.id == story.job.id) continue;
    if (job.request.cpus)
      story.holders.push_back({text("cores {}", printable(job.affinity)), job.id, ""});
    else if (job.queued && job.grants.empty())
      story.holders.push_back({text("one core"), job.id, ""});
  }
}

bool has_free_cores(const Scene& scene) {
  return static_cast<int>(scene.ledger.cpus.size()) < scene.snapshot.host.cpu.cores_usable;
}

// Finding smaller requests that would fit now.

std::string size_word(std::uint64_t bytes) {
  constexpr std::uint64_t kGiB = 1ULL << 30, kMiB = 1ULL << 20;
  return bytes >= kGiB ? fmt::format("{}GiB", bytes / kGiB) : fmt::format("{}MiB", bytes / kMiB);
}

bool add_if_it_fits(JobStory& story, const Scene& scene, const model::Request& request) {
  const auto place = policy::place(request, scene.snapshot, scene.ledger);
  if (!place) return false;
  std::string options;
  if (request.gpus == 0) options = "--cpu";
  if (request.gpus.value_or(0) > 0 && (!request.memory_bytes || *request.gpus > 1))
    options = fmt::format("--gpus {}", *request.gpus);
  if (request.memory_bytes)
    options +=
        (options.empty() ? "" : " ") + fmt::format("--memory {}", size_word(*request.memory_bytes));
  if (request.share_permille)
    options += fmt::format(" --share {}%", *request.share_permille / 10.0);
  if (request.turns.cap_permille)
    options += fmt::format(" --cap {}%", *request.turns.cap_permille / 10.0);
  if (request.cpus) options += fmt::format(" --cpus {}", *request.cpus);
  std::vector<std::string> where;
  for (const Candidate& c : policy::candidates_of(scene.snapshot, scene.ledger))
    for (std::size_t i = 0; i < place->devices.size(); ++i)
      if (c.unit() == policy::Unit{place->devices[i], place->partitions[i]})
        where.push_back(policy::label(c));
  std::string joined;
  for (const std::string& one : where) joined += (joined.empty() ? "" : ", ") + one;
  story.sooner.push_back({policy::call_with(request, options), joined});
  return true;
}

/// The memory that is free on each of the best `count` devices. Rounded down to whole GiB, or to
/// whole MiB if it is less than 1 GiB.
std::uint64_t free_on(const std::vector<Candidate>& candidates, std::size_t count) {
  std::vector<std::uint64_t> free;
  for (const Candidate& c : candidates)
    if (c.obstacle == Obstacle::kNone) free.push_back(c.free_bytes.value_or(0));
  if (free.size() < count || count == 0) return 0;
  std::sort(free.rbegin(), free.rend());
  const std::uint64_t unit = free[count - 1] >= (1ULL << 30) ? 1ULL << 30 : 1ULL << 20;
  return free[count - 1] / unit * unit;
}

/// Checks whether the request would fit without the inherited variables that limit it to some
/// devices.
bool add_without_variables(JobStory& story, const Scene& scene) {
  model::Request other = story.job.request;
  std::string unset = "env";
  for (const model::InheritedVariable& one : model::kInherited) {
    if (other.*one.value) unset += fmt::format(" -u {}", one.variable);
    (other.*one.value).reset();
  }
  if (!other.gpus && other.devices.empty()) other.gpus = 1;
  if (!add_if_it_fits(story, scene, other)) return false;
  story.sooner.back().command = unset + " " + story.sooner.back().command;
  return true;
}

void add_sooner(JobStory& story, const Scene& scene) {
  if (story.job.state != model::JobState::kWaiting) return;
  if (story.outlook.obstruction != "busy" && story.outlook.obstruction != "never") return;
  model::Request other = story.job.request;
  const int wanted = other.gpus.value_or(std::max<int>(1, static_cast<int>(other.devices.size())));
  if (wanted == 0) return;
  if (!story.narrowed.empty() && add_without_variables(story, scene)) return;
  const bool was_named = !other.devices.empty();
  other.devices.clear();
  // First try other devices than the named ones. If that does not fit, try fewer devices.
  int alone = was_named ? wanted : wanted - 1;
  for (; alone > 0; --alone) {
    other.gpus = alone;
    if (add_if_it_fits(story, scene, other)) break;
  }
  const auto candidates = candidates_for(other, scene);
  // Then try the same number of devices, or fewer, with less memory on each device.
  for (int count = wanted; count > alone; --count) {
    const std::uint64_t most = free_on(candidates, static_cast<std::size_t>(count));
    if (most == 0 || most >= story.job.request.memory_bytes.value_or(UINT64_MAX)) continue;
    other.gpus = count;
    other.memory_bytes = most;
    if (add_if_it_fits(story, scene, other)) break;
  }
  if (!story.sooner.empty()) return;
  if (story.job.request.share_permille) {
    other = story.job.request;
    other.share_permille.reset();
    if (add_if_it_fits(story, scene, other)) return;
  }
  other = policy::on_cpu(other);
  if (has_free_cores(scene)) static_cast<void>(add_if_it_fits(story, scene, other));
}

// Printing the answer.

Json json_of_array(const std::vector<Job>& jobs) {
  if (jobs.empty()) return {};
  Json out{{"id", jobs.front().task->array}};
  for (const auto state : {model::JobState::kDone, model::JobState::kFailed, model::JobState::kLost,
                           model::JobState::kCancelled, model::JobState::kRunning,
                           model::JobState::kWaiting, model::JobState::kHeld})
    out[std::string(model::name(state))] =
        std::count_if(jobs.begin(), jobs.end(), [&](const Job& job) { return job.state == state; });
  out["not_well"] = Json::array();
  for (const Job& job : jobs)
    if (model::has_ended(job.state) && job.state != model::JobState::kDone)
      out["not_well"].push_back(model::job_number(job));
  return out;
}

Json json_of(const JobStory& story, const Json& job, const Json& outlook) {
  Json document{{"schema", 1},
                {"job", job},
                {"array", json_of_array(story.array)},
                {"outlook", outlook},
                {"free", story.free}};
  document["holders"] = Json::array();
  for (const JobStory::Holder& one : story.holders)
    document["holders"].push_back({{"device", one.device},
                                   {"job", one.job == 0 ? Json() : Json(one.job)},
                                   {"note", one.says.empty() ? Json() : Json(one.says)}});
  document["sooner"] = Json::array();
  for (const JobStory::Sooner& one : story.sooner)
    document["sooner"].push_back(
        {{"command", one.command}, {"where", one.where.empty() ? Json() : Json(one.where)}});
  return document;
}

/// The value at `key` in an API document, unchanged.
Json part_of(const client::Response& answer, const char* key) {
  Json document = Json::parse(answer.body, nullptr, false);
  if (key != nullptr) return document.value(key, Json());
  document.erase("schema");
  return document;
}

/// The first job before this one in the queue that does not fit now. Devices that become free are
/// reserved for it.
model::JobId first_that_does_not_fit(JobCalls& calls, const std::vector<model::JobId>& before) {
  for (const model::JobId id : before) {
    const auto why = calls.call("GET", job_path(id, "/why"), kAnswerSoon);
    if (!why) return 0;
    if (const auto outlook = client::outlook_in(*why); outlook && outlook->obstruction == "busy")
      return id;
  }
  return 0;
}

/// Collects everything that explains why a job waits.
Result<Json> tell_waiting(const Context& context, JobCalls& calls, JobStory& story, Scene& scene) {
  const auto why = calls.call("GET", job_path(story.job.id, "/why"), kAnswerSoon);
  if (!why) return why.error();
  auto outlook = client::outlook_in(*why);
  if (!outlook) return std::move(outlook).error();
  story.outlook = *std::move(outlook);
  std::string also;
  for (const auto* ids :
       {&story.outlook.before, &story.job.after, &story.job.after_any, &story.job.after_not_ok})
    for (const model::JobId id : *ids) also += (also.empty() ? "" : ",") + std::to_string(id);
  const auto list = calls.call("GET", "/v1/jobs?running&also=" + also, kAnswerSoon);
  if (!list) return list.error();
  auto jobs = client::jobs_in(*list);
  if (!jobs) return std::move(jobs).error();
  story.others = *std::move(jobs);
  say_notices(context, *list);
  auto seen = look(context, Processes::kAll, false);
  if (!seen) return std::move(seen).error();
  scene.snapshot = *std::move(seen);
  scene.ledger = client::ledger_of(story.others, client::closed_in(*list));
  story.narrowed = narrowed_for(story.job.request, scene);
  for (const Candidate& one : candidates_for(story.job.request, scene))
    add_holders(story, one, scene);
  add_core_holders(story);
  add_sooner(story, scene);
  if (story.outlook.obstruction == "reserved")
    story.kept_for = first_that_does_not_fit(calls, story.outlook.before);
  return part_of(*why, nullptr);
}

/// The first waiting job of the array. If none waits, the first one that has not ended.
const Job& one_of(const std::vector<Job>& jobs) {
  const auto first = [&](auto is_it) { return std::find_if(jobs.begin(), jobs.end(), is_it); };
  auto found = first([](const Job& job) { return job.state == model::JobState::kWaiting; });
  if (found == jobs.end())
    found = first([](const Job& job) { return !model::has_ended(job.state); });
  return found == jobs.end() ? jobs.front() : *found;
}

}  // namespace

Result<int> run_why(const Context& context) {
  auto found = find_job(context, "why");
  if (!found) return std::move(found).error();
  JobCalls* const calls = &found->calls;
  const model::JobId id = found->id;
  const auto jobs = calls->jobs(id);
  if (!jobs) return jobs.error();
  const auto answer = calls->call("GET", job_path(one_of(*jobs).id), kAnswerSoon);
  if (!answer) return answer.error();
  auto job = client::job_in(*answer);
  if (!job) return std::move(job).error();
  JobStory story;
  story.job = *std::move(job);
  story.job.request.without = story.job.avoids;
  if (story.job.task && story.job.task->array == id) story.array = *jobs;
  Scene scene;
  output::JobsView view;
  view.own_uid = ::geteuid();
  view.snapshot = &scene.snapshot;
  Json outlook;
  if (!story.job.started_unix_milliseconds && !model::has_ended(story.job.state)) {
    auto told = tell_waiting(context, *calls, story, scene);
    if (!told) return std::move(told).error();
    outlook = *std::move(told);
  } else if (!story.job.grants.empty()) {
    auto seen = look(context, Processes::kUsers, false);
    if (!seen) return std::move(seen).error();
    scene.snapshot = *std::move(seen);
  }
  view.unix_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  add_output_bytes(story.job, view);
  context.out(context.json ? json_of(story, part_of(*answer, "job"), outlook)
                                     .dump(-1, ' ', false, Json::error_handler_t::replace) +
                                 "\n"
                           : output::why_text(story, view, context.out_terminal));
  return 0;
}

}  // namespace berth::cli
