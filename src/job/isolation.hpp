// The isolation methods, which keep a job within its memory and share of a GPU. Each method has
// its requirements, and things that it does not protect (docs/guard.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::job {

/// kAuto: the strongest method that is available. kGuard means the guard alone. The other methods,
/// except kNone, are used together with the guard.
enum class Isolation : unsigned char { kAuto, kNone, kGuard, kMps, kMig, kDriver };

/// Parses the value of `--isolation`. Fails with kInvalidArgument (E0106) if it is unknown.
[[nodiscard]] Result<Isolation> isolation_of(const std::string& word);
/// The name of the method in `--isolation` and in the report.
[[nodiscard]] std::string_view word_of(Isolation method);

/// Asks the broker not to set the driver's limits if the user chose another method or --spill.
/// `driver`: the driver of the machine on which the job will run.
void set_driver_limits(model::Request& request, Isolation wanted, const model::Driver& driver);

/// Asks for a MIG partition with --isolation mig, if a GPU of the machine has MIG enabled and the
/// user named no device.
void set_mig_only(model::Request& request, Isolation wanted, const model::Snapshot& snapshot);

/// The job that an isolation method must limit.
struct IsolatedJob {
  const model::Request& request;
  const model::Placement& placement;
  const model::Snapshot& snapshot;
  bool in_container = false;
  std::string group;         // the job's control group, which root's broker created; "": none
  std::string nvml_library;  // path of the NVML library; "": the driver is not called
  std::string mps_folder;    // where MPS's control daemon has its pipes
  bool strict = false;       // --strict
};

/// The strongest available method of kDriver, kMig and kMps; kGuard if none is available. If the
/// requested method is not available, fails with kUnavailable: E1067 (driver), E1068 (MIG), E1069
/// (MPS).
[[nodiscard]] Result<Isolation> choose_method(Isolation wanted, const IsolatedJob& job);

/// Checks whether the job can get managed memory beyond its quota, if it requests that (--spill).
/// `is_inner`: the limits of a surrounding job apply. Fails with kUnavailable (E1096).
[[nodiscard]] Status check_spill(Isolation wanted, const IsolatedJob& job, bool is_inner);

/// The folder of MPS's pipes, as the driver finds it. `variable`: the value of
/// CUDA_MPS_PIPE_DIRECTORY.
[[nodiscard]] std::string mps_folder(const std::string& variable);
struct MpsLimits {
  std::string memory;          // value of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT; "": no limit
  std::optional<int> threads;  // value of CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
};
/// The limits that MPS must enforce. `time`: whether MPS also limits the share or the cap. Even
/// then, MPS does not limit them if the job needs turns on the GPU.
[[nodiscard]] MpsLimits mps_limits(const IsolatedJob& job, bool time);

}  // namespace berth::job
