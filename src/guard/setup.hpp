// Prepares a job so that the guard limits its memory and share: creates a folder with the limits
// and the library, and sets the variables with which the job finds them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/guard.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::guard {

class Setup {
 public:
  /// Creates the files below the job's own folder. Fails with kUnavailable (E0520) if the folder or
  /// the library cannot be used; then leaves nothing behind.
  /// `job`: the number of its lease; 0: it has none.
  [[nodiscard]] static Result<Setup> make(const std::string& job_folder, std::uint64_t job,
                                          const model::Request& request,
                                          const model::Placement& placement,
                                          const model::Snapshot& snapshot);
  /// Refers to what another process created in that job's folder for these devices. Only outcome()
  /// and remove() may be called on it.
  [[nodiscard]] static Setup made_before(const std::string& job_folder,
                                         std::vector<model::GuardedDevice> devices);
  [[nodiscard]] const std::vector<model::GuardedDevice>& devices() const { return devices_; }
  /// Whether the guard has something to limit: memory or a share, on an NVIDIA GPU.
  [[nodiscard]] static bool is_wanted(const model::Request& request,
                                      const model::Placement& placement,
                                      const model::Snapshot& snapshot);

  /// Sets BERTH_GUARD, and LD_PRELOAD with the guard before existing entries.
  void set_variables(std::map<std::string, std::string>& variables) const;
  /// What the job did; call it after the job has ended.
  [[nodiscard]] model::Guarded outcome() const;
  void remove() const;

 private:
  std::string folder_, library_;
  std::vector<model::GuardedDevice> devices_;
};

}  // namespace berth::guard
