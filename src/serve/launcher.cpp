#include "serve/launcher.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "base/text.hpp"
#include "model/cpu_list.hpp"
#include "policy/environment.hpp"
#include "policy/placement.hpp"
#include "run/launch_file.hpp"
#include "run/queued.hpp"

namespace berth::serve {
namespace {

using model::Job;

Error unusable(const std::string& folder, int problem) {
  return {
      ErrorCode::kUnavailable, "E0517",
      text("the job's file {} cannot be used: {}", printable(folder), ::strerrordesc_np(problem)),
      "df -h " + printable(folder)};
}

Launcher::Variables variables_of(const std::vector<std::string>& environment) {
  Launcher::Variables variables;
  for (const std::string& one : environment)
    if (const auto at = one.find('='); at != std::string::npos && at > 0)
      variables[one.substr(0, at)] = one.substr(at + 1);
  return variables;
}

}  // namespace

Result<Launcher> Launcher::start(std::string state_folder, bool for_all) {
  auto nursery = run::Nursery::start();
  if (!nursery) return std::move(nursery).error();
  return Launcher(std::move(state_folder), for_all, *std::move(nursery));
}

Status Launcher::make_folder(model::JobId job) const {
  const std::string mine = folder(job);
  if (::mkdir(mine.c_str(), for_all_ ? 0711 : 0700) == 0) return Done{};
  return unusable(mine, errno);
}

Status Launcher::prepare(model::JobId id, const broker::Submission& asked, const Peer& peer) {
  run::Launch launch;
  launch.command = asked.command;
  launch.environment = asked.environment;
  launch.folder = asked.folder;
  launch.mask = asked.mask;
  launch.user = run::Credentials{peer.uid, peer.gid, peer.groups};
  forget(id);  // of a broker that died before it had written the number down
  const std::string jobs = state_folder_ + "/jobs";
  if (::mkdir(jobs.c_str(), for_all_ ? 0711 : 0700) != 0 && errno != EEXIST)
    return unusable(jobs, errno);
  // Users come to their own logs; what else is there has modes of its own.
  if (for_all_ && ::chmod(state_folder_.c_str(), 0711) != 0) return unusable(state_folder_, errno);
  if (auto made = make_folder(id); !made) return made;
  if (auto written = run::write_launch(folder(id), launch); !written) {
    forget(id);
    return written;
  }
  last_ = {id, variables_of(asked.environment)};
  return Done{};
}

/// Jobs of an array have them in common, and most jobs start as soon as they are there.
Result<const Launcher::Variables*> Launcher::variables(model::JobId launched) {
  if (last_.first != launched) {
    const auto launch = run::read_launch(folder(launched));
    if (!launch) return launch.error();
    last_ = {launched, variables_of(launch->environment)};
  }
  return &last_.second;
}

Result<model::ProcessId> Launcher::start_job(const Job& job, const model::Snapshot& snapshot) {
  std::vector<std::string> units;
  for (const model::Grant& grant : job.grants) units.push_back(grant.unit);
  const auto placement = policy::place_leased(job.request, units, job.affinity, snapshot);
  if (!placement) return placement.error();
  const model::JobId launched = job.task ? job.task->array : job.id;
  const auto submitted = variables(launched);
  if (!submitted) return submitted.error();
  if (job.task) {
    forget(job.id);
    if (auto made = make_folder(job.id); !made) return std::move(made).error();
  }
  const auto environment = policy::environment_for(*placement, snapshot, **submitted, {});
  run::Start start{folder(job.id), folder(launched), {}, {}, {}, job.group};
  for (const model::Setting& one : environment.settings) {
    if (one.action == model::Setting::Action::kSet) start.set[one.name] = one.value;
    if (one.action == model::Setting::Action::kUnset) start.unset.push_back(one.name);
  }
  start.set["BERTH_JOB"] = std::to_string(job.id);
  if (job.task) {
    start.set["BERTH_ARRAY"] = std::to_string(job.task->array);
    start.set["BERTH_ARRAY_INDEX"] = std::to_string(job.task->index);
  }
  start.cpus = model::parse_cpu_list(environment.cpus).value_or(std::vector<int>{});
  return nursery_.keep(start);
}

std::optional<model::ProcessId> Launcher::keeper(model::JobId job) const {
  return run::keeper_of(folder(job));
}

std::optional<model::Outcome> Launcher::outcome(model::JobId job) const {
  return run::outcome_of(folder(job));
}

void Launcher::forget(model::JobId job) const {
  std::error_code ignored;
  std::filesystem::remove_all(folder(job), ignored);
}

}  // namespace berth::serve
