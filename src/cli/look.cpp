#include "cli/look.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/file.hpp"
#include "base/text.hpp"
#include "client/jobs.hpp"
#include "client/lease.hpp"
#include "guard/live.hpp"
#include "output/words.hpp"
#include "policy/candidates.hpp"
#include "policy/demand.hpp"
#include "serve/observer.hpp"
#include "system/device_locks.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

/// If the broker takes longer than this, the list is shown without leases.
constexpr std::chrono::milliseconds kPatience(1000);

/// Whether the job's lease is on this device or partition.
bool holds(const std::vector<model::Holding>& holdings, model::JobId job,
           const model::Device& device, const std::string& partition) {
  const std::string unit = partition.empty() ? policy::unit_id(device, nullptr) : partition;
  return std::any_of(holdings.begin(), holdings.end(),
                     [&](const model::Holding& one) { return one.job == job && one.unit == unit; });
}

/// Whether a broker should be running but is not: it left unfinished work, the system broker ran a
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

/// The uuid as the guard writes it: without "GPU-" and without hyphens.
std::string plain_uuid(std::string uuid) {
  uuid.erase(0, uuid.find('-') + 1);
  std::erase(uuid, '-');
  return uuid;
}

void add_device(model::Snapshot& snapshot, const guard::LiveJob& job, std::size_t at) {
  const guard::LiveDevice& limits = job.devices[at];
  // OpenCL commands are also timed if the job has no share.
  const auto is_timed = [&](const guard::LiveCounts& counts) {
    return limits.share_permille.has_value() || counts.device_nanoseconds > 0;
  };
  const auto seconds = [](const guard::LiveCounts& counts) {
    return static_cast<double>(counts.device_nanoseconds) / 1e9;
  };
  guard::LiveCounts sum;
  sum.memory_bytes = limits.hidden_bytes;
  for (const guard::LiveProcess& process : job.processes) {
    const guard::LiveCounts& counts = process.devices[at];
    sum.memory_bytes += counts.memory_bytes;
    sum.spilled_bytes += counts.spilled_bytes;
    sum.device_nanoseconds += counts.device_nanoseconds;
    for (model::DeviceProcess& shown : snapshot.processes) {
      const model::Device* device = output::find_device(snapshot, shown.device);
      if (!process.lives || shown.pid != process.pid || device == nullptr ||
          (shown.start_ticks && *shown.start_ticks != process.start) ||
          plain_uuid(shown.partition_uuid.empty() ? device->uuid : shown.partition_uuid) !=
              limits.uuid)
        continue;
      // A process that uses CUDA and OpenCL under the guard has two entries, so add their numbers.
      shown.guard_memory_bytes = shown.guard_memory_bytes.value_or(0) + counts.memory_bytes;
      if (limits.may_spill)
        shown.guard_spilled_bytes = shown.guard_spilled_bytes.value_or(0) + counts.spilled_bytes;
      if (is_timed(counts))
        shown.guard_device_seconds = shown.guard_device_seconds.value_or(0) + seconds(counts);
    }
  }
  if (!snapshot.leases || job.job == 0) return;
  for (model::Holding& lease : *snapshot.leases) {
    if (lease.job != job.job || plain_uuid(lease.unit) != limits.uuid) continue;
    lease.guard_memory_bytes = sum.memory_bytes;
    if (limits.may_spill) lease.guard_spilled_bytes = sum.spilled_bytes;
    if (is_timed(sum)) lease.guard_device_seconds = seconds(sum);
  }
}

void add_guarded(model::Snapshot& snapshot) {
  for (const guard::LiveJob& job : guard::live_jobs())
    for (std::size_t i = 0; i < job.devices.size(); ++i) add_device(snapshot, job, i);
}

void add_broker_leases(model::Snapshot& snapshot) {
  auto client = client::broker_here(client::IfNone::kGlance);
  if (!client) {
    if (is_broker_missed(snapshot))
      snapshot.notes.push_back(text(
          "the devices of jobs are not known: no broker answers; {} waits for it", "berth jobs"));
    return;
  }
  const auto answer = client->call("GET", "/v1/jobs?running", {}, kPatience);
  const auto jobs =
      answer ? client::jobs_in(*answer) : Result<std::vector<model::Job>>(answer.error());
  if (!jobs) {
    snapshot.notes.push_back(
        text("the devices of jobs are not known: {} ({})", jobs.error().message, jobs.error().id));
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

}  // namespace

void add_leases(model::Snapshot& snapshot) {
  add_broker_leases(snapshot);
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
