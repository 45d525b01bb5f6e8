// The values that `berth run` computes, in this order: request, placement, environment, outcome,
// report.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/access.hpp"
#include "model/guard.hpp"
#include "model/prices.hpp"
#include "model/reading.hpp"

namespace berth::model {

/// What the user requested. `inherited_*` hold those variables of the caller that limit the visible
/// devices. Only devices that they allow may be chosen.
struct Request {
  std::string verb = "run";  // name of the called verb, for hints
  std::optional<int> gpus;   // --gpus N; 0 means CPU only
  // --devices: each is a device number, the start of a uuid, or a PCI address
  std::vector<std::string> devices;
  std::vector<std::string> without;  // devices on which an earlier try failed (policy::unit_id)
  // --memory: the job's amount of memory on a shared device
  std::optional<std::uint64_t> memory_bytes;
  std::optional<int> share_permille;  // --share: the job's share of a shared device's time
  TurnRules turns;                    // --cap, --latency, --best-effort, --slice, --turn
  // --spill: allocations beyond memory_bytes use managed memory. The broker is not told.
  bool spills = false;
  // Whether the driver may enforce the limits (--isolation).
  std::optional<bool> driver_limits;
  std::optional<bool> mig_only;  // use only MIG partitions (--isolation mig)
  // a queued job waits for `gpus` devices, and then takes up to this many
  std::optional<int> gpus_most;
  std::optional<bool> all_gpus;  // --gpus all: all devices that one job can get on this machine
  std::optional<int> cpus;       // --cpus
  std::optional<std::string> cpu_list;  // --cpus 0-3, in the kernel's list format
  std::optional<std::string> inherited_cuda, inherited_hip, inherited_rocr, inherited_ze,
      inherited_tpu;
  std::optional<std::string>
      inherited_cuda_order;  // CUDA_DEVICE_ORDER, which says what an inherited CUDA index refers to

  /// Whether the job has limits, which the guard or a stronger isolation method must enforce.
  [[nodiscard]] bool has_limits() const { return memory_bytes || share_permille; }
};

/// The inherited variables and their keys in JSON.
struct InheritedVariable {
  const char* key;
  const char* variable;
  std::optional<std::string> Request::*value;
};
inline constexpr std::array<InheritedVariable, 6> kInherited{{
    {"cuda_visible_devices", "CUDA_VISIBLE_DEVICES", &Request::inherited_cuda},
    {"cuda_device_order", "CUDA_DEVICE_ORDER", &Request::inherited_cuda_order},
    {"hip_visible_devices", "HIP_VISIBLE_DEVICES", &Request::inherited_hip},
    {"rocr_visible_devices", "ROCR_VISIBLE_DEVICES", &Request::inherited_rocr},
    {"ze_affinity_mask", "ZE_AFFINITY_MASK", &Request::inherited_ze},
    {"tpu_visible_chips", "TPU_VISIBLE_CHIPS", &Request::inherited_tpu},
}};

/// The share that stands for all of a device's time, in thousandths.
inline constexpr int kWholePermille = 1000;

/// Where the job runs. Without any device, it runs on the CPU.
struct Placement {
  std::vector<int>
      devices;  // numbers of the devices (Device::index), in the order in which the job sees them
  // for each device, the partition's uuid; "" means the whole device
  std::vector<std::string> partitions;
  std::string cpus;  // CPU affinity to set, in the kernel's list format; "" means no change
  int threads = 1;   // number of threads for OpenMP and similar libraries
  std::vector<std::string>
      reasons;  // sentences that tell why this placement was chosen, translated
};

/// A change of one variable in the job's environment.
struct Setting {
  // kKeep: keep the value that the user set, and only report it
  enum class Action { kSet, kUnset, kKeep };
  Action action = Action::kSet;
  std::string name, value;
  std::string why;  // a sentence that tells the reason, translated
};

/// The environment that the job will have. It is only a plan; --dry-run and `berth env` print it.
struct Environment {
  std::vector<Setting> settings;
  std::string cpus;  // CPU affinity in the kernel's list format; "" means no change
  int threads = 1;
  std::vector<std::string> notes;  // sentences about what cannot be hidden or enforced, translated
};

/// kCancelled, kTimeLimit and kPreempted: the job was ended by `berth cancel`, by its time limit,
/// or by the broker for another job, whatever the exit code was. Journals store the numbers, so add
/// new values at the end.
enum class OutcomeClass {
  kOk,
  kFailed,
  kSignal,
  kNotFound,
  kNotExecutable,
  kLost,
  kCancelled,
  kTimeLimit,
  kPreempted
};
[[nodiscard]] std::string_view name(
    OutcomeClass outcome);  // "ok", "failed", "signal", "not_found", "not_executable", "lost",
                            // "cancelled", "time limit", "preempted"

struct Outcome {
  OutcomeClass kind = OutcomeClass::kLost;
  int exit_code = 125;  // the exit code that `berth run` itself returns
  std::optional<int> signal;
};

/// How much a job used one device, from samples.
struct DeviceUse {
  int device = -1;
  std::string name, uuid;  // if the job got a partition, its name and uuid
  std::string words;       // description for people: "GPU 2:1 (MIG 1g.10gb of NVIDIA A100)"
  // index of the partition on the device; nullopt means the whole device
  std::optional<std::uint32_t> partition;
  Reading<std::uint64_t> memory_peak_bytes;  // peak of the memory that the job's own processes used
  Reading<double> utilization_mean_percent,
      utilization_peak_percent;               // peak utilization of the device while the job ran
  Reading<std::uint64_t> energy_millijoules;  // energy that the whole device used while the job ran
};

enum class GpuUse { kSeen, kNotSeen, kDeniedByKernel, kNotChecked };
[[nodiscard]] std::string_view name(
    GpuUse use);  // "seen", "not_seen", "denied_by_kernel", "not_checked"

/// A process of the job that was still running when the command ended. Berth killed it.
struct LeftBehind {
  std::int64_t pid = 0;
  std::string command;  // beginning of its command line; "" if unknown
};

/// The threads of the job's processes, and the CPU libraries that they loaded.
struct Threading {
  std::vector<std::string> pools;  // loaded libraries that start threads: "GNU OpenMP", "TBB"
  // loaded BLAS libraries: "OpenBLAS 0.3.21 (pthreads)", "reference BLAS"
  std::vector<std::string> blas;
  std::optional<int> most;  // largest number of threads of one process; nullopt if not measured
  std::optional<int> most_of_all;  // largest number of threads of all the job's processes together
};

/// Memory of a job that kept growing until its end.
struct MemoryGrowth {
  // the device's number (Device::index); nullopt means the host's memory
  std::optional<int> device;
  std::string words;  // "GPU 0 (NVIDIA H100)"; "" means the host's memory
  double bytes_per_minute = 0;
  double since_seconds = 0;  // when the growth began: time since the start of the job
};

/// What made a job slow, with the evidence.
struct Bottleneck {
  std::string kind;      // a stable name: "input", "one_thread", … (docs/run.md)
  std::string sentence;  // a sentence with the figures, translated
  std::string change;    // one change that may help, translated
};

/// The job of a cluster scheduler in which this job ran.
struct EngineJob {
  std::string engine;           // "slurm"
  std::string job, step, node;  // names that the scheduler gives them; "" if unknown
  std::optional<int> rank;      // rank of the task within its step
};

struct Tries;  // defined in model/tries.hpp

/// The container in which `berth run --container` started the command.
struct ContainerUse {
  std::string engine, image;  // "podman"
};

/// What happened after the signal of --checkpoint-signal.
struct CheckpointSignal {
  int signal = 0;                // 0 if the job was not being ended, so that no signal was due
  bool was_handled = false;      // false if no process handles the signal, so that it was not sent
  bool ended_by_itself = false;  // whether the command ended before Berth sent SIGTERM
  // time from the signal until the command ended or got SIGTERM
  std::chrono::milliseconds waited{0};
};

struct Report {
  std::vector<std::string> command;
  std::optional<ContainerUse> container;  // nullopt if the command ran outside of a container
  std::string name;                       // --name
  std::optional<std::uint64_t> job;       // the number of the job in the broker
  std::optional<EngineJob> engine;        // nullopt if no cluster scheduler started it
  Outcome outcome;
  std::chrono::milliseconds wall{0}, cpu{0};
  // False if `cpu` is not valid, because the kernel charges another process with the job's CPU
  // time.
  bool cpu_known = true;
  // The largest memory of all the job's processes together, in any sample.
  std::uint64_t peak_rss_bytes = 0;
  // Whether the peak is a sum of PSS, which counts each shared page once. This is so if the job had
  // several processes.
  bool peak_is_pss = false;
  // The number of threads that the job's variables allow, such as OMP_NUM_THREADS.
  int threads = 1;
  Threading threading;  // the threads and libraries that the job really had
  std::string cpus;
  std::vector<DeviceUse> devices;
  UsagePrices prices;          // the prices that are set on this machine
  std::optional<double> cost;  // nullopt if no price is set, or energy has a price but is not known
  Access access = Access::kVariable;
  std::optional<Guarded> guarded;  // nullopt if neither memory nor share was requested
  GpuUse gpu_use = GpuUse::kNotChecked;
  // How the use of a GPU was checked, and how often; translated.
  std::string gpu_use_method;
  /// GPUs that a job without a GPU nevertheless accessed: "GPU 0 (NVIDIA H100)", "/dev/nvidia0".
  /// nullopt if the job had a GPU, or if this was not checked.
  std::optional<std::vector<std::string>> gpus_touched;
  std::vector<std::string>
      libraries;  // compute libraries that the job loaded: "torch (CPU build)", "numpy", …
  std::vector<std::string> suggestions;  // sentences for people, translated
  std::int64_t started_unix_milliseconds = 0;
  int looks = 0;  // how many samples of the job's processes were taken
  // how often samples were taken, as a translated sentence "looked 52 times, …"; "" if none were
  // taken
  std::string how_often;
  // without samples
  bool gpus_here = false;            // this machine has a GPU (or TPU) that a program could use
  bool on_cpu_by_request = false;    // the user requested the CPU with --gpus none
  std::vector<Setting> settings;     // variables that were set, unset or kept
  std::vector<std::string> reasons;  // sentences that tell why the job ran on these devices
  std::vector<LeftBehind> left_behind;
  std::vector<MemoryGrowth> memory_growth;
  std::vector<Bottleneck> bottlenecks;  // what made the job slow, the most important first
  // why some bottlenecks are not known, translated; "" if all are known
  std::string bottlenecks_unknown;
  CheckpointSignal checkpoint;
  std::shared_ptr<const Tries> tries;  // only for a job with ranks or retries; else nullptr
  std::vector<std::string> notes;      // sentences for people, translated
};

}  // namespace berth::model
