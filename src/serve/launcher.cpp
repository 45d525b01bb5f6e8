#include "serve/launcher.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "model/cpu_list.hpp"
#include "output/report.hpp"
#include "policy/environment.hpp"
#include "policy/placement.hpp"
#include "system/device_locks.hpp"
#include "system/process_limits.hpp"

namespace berth::serve {
namespace {

using model::Job;

Error unusable(const std::string& folder, int problem) {
  return {ErrorCode::kUnavailable, "E0517",
          text("the folder {} cannot be used: {}", printable(folder), error_words(problem)),
          "df -h " + printable(folder)};
}

std::map<std::string, std::string> variables_of(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> variables;
  for (const std::string& one : environment)
    if (const auto at = one.find('='); at != std::string::npos && at > 0)
      variables[one.substr(0, at)] = one.substr(at + 1);
  return variables;
}

/// The resource limits of this process, which never change. All other settings come from the
/// submitter, because a job must not depend on the shell that started the broker.
const model::Limits& most_of_ours() {
  static const model::Limits kOurs = [] {
    model::Limits ours;
    ours.resources = system::limits_of(0).resources;
    return ours;
  }();
  return kOurs;
}

/// The limits that the client asked for, but not above the limits of the calling process (unknown
/// over TCP) or of this process. So no user escapes a limit by queueing a job or by not reporting
/// limits.
model::Limits limits_for(const model::Limits& told, pid_t caller) {
  const bool is_known = caller > 0 && caller != ::getpid();
  const model::Limits had = is_known ? system::limits_of(caller) : model::Limits();
  return model::within(model::within(model::filled(told, had), had), most_of_ours());
}

}  // namespace

run::Launch launch_of(const broker::Submission& asked, const Peer& peer) {
  run::Launch launch;
  launch.command = asked.command;
  launch.environment = asked.environment;
  launch.folder = asked.folder;
  launch.mask = asked.mask;
  launch.limits = limits_for(asked.limits, peer.pid);
  launch.user = run::Credentials{peer.uid, peer.gid, peer.groups};
  return launch;
}

Result<Launcher> Launcher::start(const std::string& state_folder, bool for_all,
                                 std::string lock_folder) {
  std::string jobs = state_folder + "/jobs";
  if (::mkdir(jobs.c_str(), for_all ? 0711 : 0700) != 0 && errno != EEXIST)
    return unusable(jobs, errno);
  // Users must be able to reach their logs in this folder. Each file's own mode protects it from
  // other users.
  if (for_all && ::chmod(state_folder.c_str(), 0711) != 0) return unusable(state_folder, errno);
  auto fork_server = run::ForkServer::start(output::stored_report);
  if (!fork_server) return std::move(fork_server).error();
  return Launcher(std::move(jobs), std::move(lock_folder), *std::move(fork_server));
}

Result<model::ProcessId> Launcher::start_job(const Job& job, run::Launch launch,
                                             const model::Snapshot& snapshot) {
  std::vector<std::string> units;
  for (const model::Grant& grant : job.grants) units.push_back(grant.unit);
  const auto placement = policy::place_leased(job.request, units, job.affinity, snapshot);
  if (!placement) return placement.error();
  auto variables = variables_of(launch.environment);
  const auto environment = policy::environment_for(*placement, snapshot, variables, {});
  policy::set_variables(environment, variables);
  for (const char* name : {"BERTH_ARRAY", "BERTH_ARRAY_INDEX", "BERTH_RESTARTS"})
    variables.erase(name);  // the variable may have been inherited from another job
  variables["BERTH_JOB"] = std::to_string(job.id);
  if (job.requeue || job.preemptible)
    variables["BERTH_RESTARTS"] = std::to_string(job.restarts + job.preemptions);
  if (job.task) {
    variables["BERTH_ARRAY"] = std::to_string(job.task->array);
    variables["BERTH_ARRAY_INDEX"] = std::to_string(job.task->index);
  }
  launch.environment.clear();
  for (const auto& [name, value] : variables) launch.environment.push_back(name + "=" + value);
  launch.group = job.group;
  launch.cpus = model::parse_cpu_list(environment.cpus).value_or(std::vector<int>{});
  launch.job_files = files(job.id);
  launch.units = units;
  launch.name = job.name;
  launch.settings = environment.settings;
  launch.reasons = placement->reasons;
  launch.job_record = broker::record_of(job);
  launch.grace = job.grace.value_or(model::kDefaultGrace);
  if (job.warning && job.warning->at_any_end) launch.checkpoint = *job.warning;
  launch.on_end = job.on_end;
  if (!locks_.empty())
    for (const std::string& unit : units) launch.locks.push_back(system::lock_file(locks_, unit));
  return fork_server_.keep(launch);
}

std::string Launcher::report(model::JobId job, const std::optional<model::Outcome>& outcome) const {
  constexpr std::size_t kMost = 16 << 20;  // enough for the stacks of a thousand ranks
  const auto bytes = slurp_regular(run::report_of(files(job)), kMost);
  return bytes ? output::sound_report(*bytes, outcome) : "";
}

Status Launcher::keep_report(model::JobId job, const std::string& stored,
                             const std::optional<model::Outcome>& outcome) const {
  const std::string sound = output::sound_report(stored, outcome);
  if (sound.empty())
    return Error{ErrorCode::kInvalidArgument, "E1084", text("this is not a report of berth run"),
                 ""};
  const std::string path = run::report_of(files(job));
  if (replace_file(path, sound, 0600)) return Done{};
  return Error{ErrorCode::kUnavailable, "E1085",
               text("{} cannot be written: {}", printable(path), error_words(errno)),
               "df -h " + folder_};
}

run::OutputPart Launcher::output(model::JobId job, std::int64_t from, std::size_t most) const {
  const Descriptor file(
      ::open(log(job).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat about = {};
  if (!file || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return {"", from};
  return run::read_output(file.get(), from, most);
}

}  // namespace berth::serve
