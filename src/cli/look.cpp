#include "cli/look.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "client/jobs.hpp"
#include "client/lease.hpp"
#include "guard/live.hpp"
#include "output/words.hpp"
#include "policy/candidates.hpp"
#include "policy/demand.hpp"
#include "serve/guard_counts.hpp"
#include "serve/observer.hpp"
#include "system/device_locks.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

/// If the broker takes longer than this to answer, the list is shown without leases.
constexpr std::chrono::milliseconds kPatience(1000);

/// Whether the job's lease is on this device or partition.
bool holds(const std::vector<model::Holding>& holdings, model::JobId job,
           const model::Device& device, const std::string& partition) {
  const std::string unit = partition.empty() ? policy::unit_id(device, nullptr) : partition;
  return std::any_of(holdings.begin(), holdings.end(),
                     [&](const model::Holding& one) { return one.job == job && one.unit == unit; });
}

/// Whether a broker should be running but is not: it left unfinished jobs, the system broker ran a
/// moment ago, or a process still locks a device.
bool is_broker_missed(const model::Snapshot& snapshot) {
  if (system::system_broker_expected_for().count() > 0 ||
      ::access((system::state_folder() + "/berth.sock").c_str(), F_OK) == 0)
    return true;
  const std::string locks = system::lock_folder();
  const auto units = policy::units_of(snapshot);
  return std::any_of(units.begin(), units.end(), [&](const std::string& unit) {
    return system::holder_of(system::lock_file(locks, unit)).has_value();
  });
}

}  // namespace

Result<model::Snapshot> look(const Context& context, Processes processes, bool opencl) {
  const Arguments& asked = context.arguments;
  if (asked.has("--opencl") && asked.has("--no-opencl"))
    return contradiction("--opencl", "--no-opencl");
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  inventory::Options options;
  options.process_details = options.holders = processes == Processes::kAll;
  if (!opencl) options.opencl = inventory::OpenCl::kNever;
  options.pcie_throughput = asked.has("--pcie-throughput");
  if (asked.has("--opencl")) options.opencl = inventory::OpenCl::kAlways;
  if (asked.has("--no-opencl")) options.opencl = inventory::OpenCl::kNever;
  options.on_slow = [&context](std::string_view says) { context.err(printable(says) + "\n"); };
  return inventory::observe(inventory::Sources::from_environment(), options);
}

namespace {

void note_unguarded(model::Snapshot& snapshot, const guard::LiveJob& job) {
  for (const model::DeviceProcess& one : snapshot.processes) {
    if (job.job == 0 || one.job != job.job || one.guard_memory_bytes || !one.pid ||
        !guard::lacks_guard(job, *one.pid))
      continue;
    snapshot.notes.push_back(
        text("pid {0} of job {1} uses {2} of device {3} without the job's guard", *one.pid, job.job,
             one.memory_bytes ? show_bytes(*one.memory_bytes) : text("memory"), one.device));
  }
}

void add_guarded(model::Snapshot& snapshot) {
  for (const guard::LiveJob& job : guard::live_jobs()) {
    serve::add_guard_counts(snapshot, job);
    note_unguarded(snapshot, job);
  }
}

void add_broker_leases(model::Snapshot& snapshot) {
  auto client = client::broker_here(client::IfNone::kGlance);
  if (!client) {
    if (is_broker_missed(snapshot))
      snapshot.notes.push_back(text(
          "it is not known which jobs use which devices: no broker answers; {} waits for an answer",
          "berth jobs"));
    return;
  }
  const auto answer = client->call("GET", "/v1/jobs?running", {}, kPatience);
  const auto jobs =
      answer ? client::jobs_in(*answer) : Result<std::vector<model::Job>>(answer.error());
  if (!jobs) {
    snapshot.notes.push_back(text("it is not known which jobs use which devices: {} ({})",
                                  jobs.error().message, jobs.error().id));
    return;
  }
  for (const Error& one : client::notices_in(*answer))
    snapshot.notes.push_back(fmt::format("{} ({})", one.message, one.id));
  snapshot.leases = client::ledger_of(*jobs, client::closed_in(*answer)).holdings;
  std::vector<serve::JobRoot> roots;
  for (const model::Job& job : *jobs)
    for (const model::ProcessId& owner : job.owners) roots.push_back({job.id, owner.pid});
  const auto known = serve::processes_of(snapshot, roots, "/proc");
  for (model::DeviceProcess& process : snapshot.processes) {
    const auto of_job = std::find_if(known.begin(), known.end(), [&](const model::JobProcess& one) {
      return one.pid == process.pid;
    });
    if (of_job == known.end()) continue;
    for (const model::Device& device : snapshot.devices)
      if (device.index == process.device &&
          holds(*snapshot.leases, of_job->job, device, process.partition_uuid))
        process.job = of_job->job;
  }
}

/// Adds a note for each device that the broker gives to no job, because a process of an ended job
/// cannot be killed.
void note_what_is_aside(model::Snapshot& snapshot) {
  if (!snapshot.leases) return;
  for (const model::Holding& one : *snapshot.leases) {
    if (one.stuck_pid == 0) continue;
    std::string unit = printable(one.unit);
    for (const model::Device& device : snapshot.devices)
      if (one.unit == (device.uuid.empty() ? device.pci_address : device.uuid))
        unit = fmt::format("{} {}", model::word_for(device.kind), device.index);
    snapshot.notes.push_back(text("set aside: {}, because process {} of job {} cannot be killed",
                                  unit, one.stuck_pid, one.job_words()));
  }
}

}  // namespace

void add_leases(model::Snapshot& snapshot) {
  add_broker_leases(snapshot);
  note_what_is_aside(snapshot);
  add_guarded(snapshot);
}

output::View view_of(const Arguments& arguments) {
  output::View view;
  view.devices = arguments.values("--device");
  view.user = arguments.value("--user").value_or("");
  view.mine = arguments.has("--mine");
  view.own_uid = ::getuid();
  view.sort = arguments.value("--sort").value_or("");
  return view;
}

}  // namespace berth::cli
