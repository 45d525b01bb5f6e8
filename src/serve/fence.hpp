// Fence: a control group for each job of root's broker, with a device filter that lets its
// processes open the GPUs they have a lease on and no other. Whatever a job starts is born in its
// group, and no user can leave it. The groups live without the broker, filters and all; the next
// one finds them again.
#pragma once

#include <cstdint>
#include <map>
#include <set>
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
  /// `name`: of the folder of its groups. It stands in the broker's own group where that is a
  /// service of systemd's (which delegates it), else at the top, outside of every session's. Where
  /// an earlier broker of this state folder left jobs elsewhere, that place is kept; where another
  /// broker is, a number is added to the name. Moves this process out of user.slice. Fails with
  /// kUnsupported (E0940) where it cannot be done here.
  [[nodiscard]] static Result<Fence> open(const Roots& roots, const std::string& name,
                                          const std::string& state_folder);

  /// The machine as it is now.
  void see(const model::Snapshot& snapshot);
  [[nodiscard]] const model::GpuNodes& nodes() const { return nodes_; }
  /// Makes the job's group and its filter, or takes what an earlier broker left; its folder. Fails
  /// with kUnsupported (E0940), also where the nodes of its devices are not known.
  [[nodiscard]] Result<std::string> enclose(const model::Job& job, const model::Snapshot& snapshot);
  [[nodiscard]] bool has_group(model::JobId job) const;
  /// Moves a process into the group, and so whatever it starts from now on. `user`: whose alone it
  /// must be. Fails with kPermissionDenied (E0912), kUnsupported (E0941).
  [[nodiscard]] Status admit(model::JobId job, const model::ProcessId& process,
                             std::uint32_t user) const;
  /// Nothing of the job survives. How often the kernel refused it something.
  std::uint64_t release(model::JobId job);
  /// Ends and removes what an earlier broker left, but for these jobs.
  void clean_up(const std::set<model::JobId>& running);
  /// Puts back filters that somebody has dropped, and removes what has died by now. Sentences for
  /// people about what is not as it should be.
  [[nodiscard]] std::vector<std::string> keep();
  /// Removes its folder where no job is left.
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
