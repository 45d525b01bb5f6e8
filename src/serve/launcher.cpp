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

std::map<std::string, std::string> variables_of(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> variables;
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

Status Launcher::prepare(model::JobId id, const broker::Submission& asked, const Peer& peer) const {
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
  return Done{};
}

Result<model::ProcessId> Launcher::start_job(const Job& job, const model::Snapshot& snapshot) {
  std::vector<std::string> units;
  for (const model::Grant& grant : job.grants) units.push_back(grant.unit);
  const auto placement = policy::place_leased(job.request, units, job.affinity, snapshot);
  if (!placement) return placement.error();
  auto launch = run::read_launch(folder(job.task ? job.task->array : job.id));
  if (!launch) return std::move(launch).error();
  if (job.task) {
    forget(job.id);
    if (auto made = make_folder(job.id); !made) return std::move(made).error();
  }
  auto variables = variables_of(launch->environment);
  const auto environment = policy::environment_for(*placement, snapshot, variables, {});
  for (const model::Setting& one : environment.settings) {
    if (one.action == model::Setting::Action::kSet) variables[one.name] = one.value;
    if (one.action == model::Setting::Action::kUnset) variables.erase(one.name);
  }
  variables["BERTH_JOB"] = std::to_string(job.id);
  if (job.task) {
    variables["BERTH_ARRAY"] = std::to_string(job.task->array);
    variables["BERTH_ARRAY_INDEX"] = std::to_string(job.task->index);
  }
  launch->environment.clear();
  for (const auto& [name, value] : variables) launch->environment.push_back(name + "=" + value);
  launch->group = job.group;
  launch->cpus = model::parse_cpu_list(environment.cpus).value_or(std::vector<int>{});
  if (auto written = run::write_launch(folder(job.id), *launch); !written)
    return std::move(written).error();
  return nursery_.keep(folder(job.id));
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
