#include "guard/live.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/file.hpp"
#include "guard/usage_file.hpp"
#include "system/process_text.hpp"
#include "system/runtime_folder.hpp"

namespace berth::guard {
namespace {

namespace wire = berth::wire::guard;

LiveCounts counts_of(const wire::Counters& own, bool lives) {
  LiveCounts out;
  out.memory_bytes = lives ? own.used : 0;
  out.spilled_bytes = lives ? own.spilled : 0;
  out.allocations = own.allocations;
  out.frees = own.frees;
  out.refusals = own.refusals;
  out.launches = own.launches;
  out.copies = own.copies;
  out.fills = own.fills;
  out.copied_to_bytes = own.copied_in;
  out.copied_from_bytes = own.copied_out;
  out.copied_on_bytes = own.copied_on;
  out.copied_other_bytes = own.copied_other;
  out.filled_bytes = own.filled;
  out.device_nanoseconds = own.busy;
  return out;
}

}  // namespace

std::optional<LiveJob> live_job(const LiveLimits& of) {
  const auto limits = limits_in(of.folder);
  const auto usage = limits ? usage_in(of.folder) : nullptr;
  if (!usage) return std::nullopt;
  LiveJob out;
  out.job = limits->job;
  for (std::uint32_t d = 0; d < limits->devices; ++d) {
    const wire::DeviceLimit& limit = limits->device[d];
    LiveDevice device;
    for (const unsigned char byte : limit.uuid) device.uuid += fmt::format("{:02x}", byte);
    if (limit.memory_bytes != wire::kNoLimit) device.memory_bytes = limit.memory_bytes;
    if (limit.permille != 0) device.share_permille = static_cast<int>(limit.permille);
    device.hidden_bytes = limit.hidden_bytes;
    device.may_spill = (limit.flags & wire::kSpill) != 0;
    out.devices.push_back(std::move(device));
  }
  for (std::uint32_t i = 0; i < wire::places_of(*usage); ++i) {
    const wire::Process& process = usage->process[i];
    const bool lives = process.state == wire::kLives;
    if (!lives && process.state != wire::kDead) continue;
    LiveProcess one{i, process.pid, process.start, lives, {}};
    for (std::uint32_t d = 0; d < limits->devices; ++d)
      one.devices.push_back(counts_of(process.device[d], lives));
    out.processes.push_back(std::move(one));
  }
  return out;
}

bool lacks_guard(const LiveJob& job, std::int64_t pid, const std::string& proc) {
  const auto status = slurp(fmt::format("{}/{}/status", proc, pid));
  if (!status) return false;
  std::vector<std::int64_t> pids = system::parse_status(*status).namespace_pids;
  pids.push_back(pid);
  return std::none_of(job.processes.begin(), job.processes.end(), [&](const LiveProcess& one) {
    return std::find(pids.begin(), pids.end(), one.pid) != pids.end();
  });
}

std::vector<LiveJob> live_jobs() {
  std::vector<LiveJob> out;
  const auto runtime = system::runtime_folder();
  if (!runtime) return out;
  const std::string jobs = *runtime + "/jobs";
  for (const std::string& name : list_folder(jobs))
    if (auto job = live_job({jobs + "/" + name + "/guard", 0, 0})) out.push_back(*std::move(job));
  return out;
}

}  // namespace berth::guard
