#include "serve/guard_counts.hpp"

#include <sys/fsuid.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/file.hpp"
#include "output/words.hpp"

namespace berth::serve {
namespace {

/// The uuid as the guard writes it: without "GPU-" and without hyphens.
std::string plain_uuid(std::string uuid) {
  uuid.erase(0, uuid.find('-') + 1);
  std::erase(uuid, '-');
  return uuid;
}

void add_device(model::Snapshot& snapshot, const guard::LiveJob& job, std::size_t at,
                std::optional<std::uint32_t> uid) {
  const guard::LiveDevice& limits = job.devices[at];
  // OpenCL commands are timed even if the job has no share.
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
      if (uid && shown.uid != uid) continue;
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

/// The maximum number of jobs of one user whose counters are read.
constexpr std::size_t kMostJobs = 256;

/// While this object exists, the current thread opens files with the rights of a user.
class AsUser {
 public:
  explicit AsUser(uid_t uid) { ::setfsuid(uid); }
  ~AsUser() { ::setfsuid(::geteuid()); }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

/// The folders of a user's jobs. These are the places that system::runtime_folder() uses if no
/// environment variable is set.
std::vector<std::string> job_folders(uid_t uid) {
  const std::string number = std::to_string(uid);
  return {"/run/user/" + number + "/berth/jobs", "/tmp/berth-" + number + "/jobs"};
}

}  // namespace

void add_guard_counts(model::Snapshot& snapshot, const guard::LiveJob& job,
                      std::optional<std::uint32_t> uid) {
  for (std::size_t i = 0; i < job.devices.size(); ++i) add_device(snapshot, job, i, uid);
}

void add_guard_times(model::Snapshot& snapshot) {
  const uid_t own = ::geteuid();
  std::set<uid_t> others;
  bool has_jobs = false;
  for (const model::DeviceProcess& process : snapshot.processes) {
    if (!process.job) continue;
    has_jobs = true;
    if (own == 0 && process.uid && *process.uid != own) others.insert(*process.uid);
  }
  if (!has_jobs) return;
  for (const guard::LiveJob& job : guard::live_jobs()) add_guard_counts(snapshot, job, own);
  for (const uid_t uid : others) {
    std::vector<guard::LiveJob> jobs;
    {
      const AsUser as_user(uid);
      for (const std::string& folder : job_folders(uid))
        for (const std::string& name : list_folder(folder)) {
          auto job = guard::live_job({folder + "/" + name + "/guard", 0, 0});
          if (job && jobs.size() < kMostJobs) jobs.push_back(*std::move(job));
        }
    }
    for (const guard::LiveJob& job : jobs) add_guard_counts(snapshot, job, uid);
  }
}

}  // namespace berth::serve
