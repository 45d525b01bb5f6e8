// Fence: a control group for each job of root's broker. Its device filter lets the job's processes
// open only the GPUs of their lease. Every process that a job starts inherits the group, and no
// user can leave it. The groups and filters stay when the broker exits; the next broker finds them
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/result.hpp"
#include "model/access.hpp"
#include "model/job.hpp"
#include "model/snapshot.hpp"
#include "system/control_group.hpp"
#include "system/device_filter.hpp"

namespace berth::serve {

class Fence {
 public:
  /// `name`: the name of the folder of groups. If the broker is a systemd service with a delegated
  /// group, the folder is inside that group. If not, it is at the top, outside all sessions. If an
  /// earlier broker of this state folder left jobs in a folder, that folder is used again. If
  /// another broker uses the folder, a number is added to the name. Moves this process out of
  /// user.slice. Fails with kUnsupported (E0940) if that is impossible here.
  [[nodiscard]] static Result<Fence> open(const Roots& roots, const std::string& name,
                                          const std::string& state_folder);

  /// Gives the fence a new snapshot of the machine.
  void see(const model::Snapshot& snapshot);
  [[nodiscard]] const model::GpuNodes& nodes() const { return nodes_; }
  /// Creates the job's group and filter, or takes over those of an earlier broker. Returns the
  /// folder. Fails with kUnsupported (E0940), for example if the device nodes are unknown.
  [[nodiscard]] Result<std::string> enclose(const model::Job& job, const model::Snapshot& snapshot);
  [[nodiscard]] bool has_group(model::JobId job) const;
  /// Moves a process into the job's group, which its future children inherit. All user ids of the
  /// process must be `user`. Fails with kPermissionDenied (E0912) and kUnsupported (E0941).
  [[nodiscard]] Status admit(model::JobId job, const model::ProcessId& process,
                             std::uint32_t user) const;
  /// Kills all processes of the job. Returns how often the kernel denied the job a device.
  std::uint64_t release(model::JobId job);
  /// Ends the remaining processes of finished jobs of an earlier broker. Does not end running jobs
  /// that this broker does not know, and returns them.
  [[nodiscard]] std::vector<model::JobId> clean_up(
      const std::function<std::optional<bool>(model::JobId)>& runs);
  /// Restores filters that were removed, and deletes groups whose processes have died. Returns
  /// problems as sentences for the log.
  [[nodiscard]] std::vector<std::string> keep();
  /// Removes the fence's folder if no job is left in it.
  void leave() const;

 private:
  Fence(Roots roots, system::CgroupMount mount, system::ControlGroup base, Descriptor lock)
      : roots_(std::move(roots)),
        mount_(std::move(mount)),
        base_(std::move(base)),
        lock_(std::move(lock)) {}
  [[nodiscard]] system::ControlGroup group(model::JobId job) const;

  Roots roots_;
  system::CgroupMount mount_;
  system::ControlGroup base_;
  Descriptor lock_;
  model::GpuNodes nodes_;
  std::map<model::JobId, system::DeviceFilter> filters_;
  std::vector<system::ControlGroup> dying_;
};

}  // namespace berth::serve
