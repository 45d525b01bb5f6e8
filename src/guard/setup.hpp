// Prepares a job so that the guard limits its memory and share: creates a folder with the limits
// and the library, and sets the variables with which the job finds them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "guard/resize.hpp"
#include "model/guard.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::guard {

class LimitsPage;

/// Where the limits are stored. kInMemory: in memory of this process, until it ends. kInFile: in a
/// file that outlives this process and that the job's user can change. kForContainer: in a file
/// that is mounted into the container read-only.
enum class Keep { kInMemory, kInFile, kForContainer };

/// A file that a container needs in its BERTH_GUARD folder.
struct MountedFile {
  std::string source, name;
  bool writable = false;
};

/// A request of `berth resize`.
struct Wish {
  std::uint64_t request = 0;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<int> share_permille;
};

class Setup {
 public:
  /// Creates the files below the job's own folder. Fails with kUnavailable (E0520) if the folder or
  /// the library cannot be used. If it fails, it leaves nothing behind. `job`: the number of the
  /// job's lease; 0: the job has none.
  [[nodiscard]] static Result<Setup> make(const std::string& job_folder, std::uint64_t job,
                                          const model::Request& request,
                                          const model::Placement& placement,
                                          const model::Snapshot& snapshot, Keep keep);
  /// Fails with kRefused (E0956) if CUDA itself needs more memory than the job may use. How much
  /// CUDA needs was measured in earlier jobs.
  [[nodiscard]] static Status leaves_room(const model::Request& request,
                                          const model::Placement& placement,
                                          const model::Snapshot& snapshot);
  /// Returns a Setup for the files that another process created in `job_folder` for these devices.
  /// Only outcome() and remove() may be called on this Setup.
  [[nodiscard]] static Setup made_before(const std::string& job_folder,
                                         std::vector<model::GuardedDevice> devices);
  [[nodiscard]] const std::vector<model::GuardedDevice>& devices() const { return devices_; }
  /// Whether the guard has something to limit: memory or a share, on a GPU or a device that only
  /// OpenCL lists. The guard limits CUDA and OpenCL programs only.
  [[nodiscard]] static bool is_wanted(const model::Request& request,
                                      const model::Placement& placement,
                                      const model::Snapshot& snapshot);

  /// The files to mount for Keep::kForContainer: the library ("libberth-guard.so"), limits,
  /// counters and turns.
  [[nodiscard]] std::vector<MountedFile> files() const;
  /// Sets BERTH_GUARD. Adds the guard to LD_PRELOAD and OPENCL_LAYERS, before their existing
  /// entries.
  void set_variables(std::map<std::string, std::string>& variables) const;
  /// The newest request of `berth resize`. Each request is returned only once. nullopt: there is no
  /// new one.
  [[nodiscard]] std::optional<Wish> wish() const;
  /// Answers the request. The job gets what was requested, but at most `memory_bytes` and
  /// `permille`, which the broker has granted. For a value that is nullopt, the job's current limit
  /// is the maximum.
  void grant(const Wish& wish, std::optional<std::uint64_t> memory_bytes,
             std::optional<int> permille) const;
  /// Compares the driver's numbers with the guard's counters. At the time `at` (milliseconds of the
  /// wall clock), the driver reported that `processes` processes of the job use `bytes` bytes on
  /// `device`. If the counters have not changed since then, the difference is the memory of
  /// contexts and modules. The quota for the job's allocations becomes smaller by that much.
  void reconcile(int device, std::uint64_t bytes, int processes, std::int64_t at);
  /// The location of the counters, as live_job() needs it.
  [[nodiscard]] LiveLimits live() const { return {folder_, 0, 0}; }
  /// Call it often: it records when the counters change.
  void look();
  /// Reads the counters of the job. Call it after the job has ended.
  [[nodiscard]] model::Guarded outcome() const;
  void remove() const;

 private:
  struct Ledger {
    std::uint64_t events = 0;
    std::int64_t since = 0;                           // when `events` changed last
    std::uint64_t hidden_peak = 0, hidden_least = 0;  // 0: no difference was seen yet
    // UUID of the device; "": NVML does not know the device
    std::string uuid;
  };
  std::string folder_, driver_;
  // Paths of the guard's library for CUDA ("" if no device has CUDA) and of its layer for OpenCL.
  std::string library_, layer_;
  std::vector<model::GuardedDevice> devices_;
  std::vector<Ledger> ledgers_;  // one for each of devices_
  std::shared_ptr<LimitsPage> page_;
};

}  // namespace berth::guard
