// The values that flow through `run`: request → placement → environment → outcome → report.
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

/// What the user requested. `inherited_*` are the variables of the caller's environment that make
/// devices visible. Only devices that they allow may be chosen.
struct Request {
  std::string verb = "run";          // the verb that was called, for hints
  std::optional<int> gpus;           // --gpus N; 0 = CPU only
  std::vector<std::string> devices;  // --devices: each is an index, a uuid prefix or a PCI address
  std::vector<std::string> without;  // policy::unit_id of devices on which an earlier try failed
  std::optional<std::uint64_t> memory_bytes;  // --memory: the amount on a shared device
  std::optional<int> share_permille;          // --share: the share of a shared device's time
  TurnRules turns;                            // --cap, --latency, --best-effort, --slice, --turn
  // --spill: memory beyond memory_bytes is managed memory. The broker does not get this value.
  bool spills = false;
  // false: the driver must not enforce the limits (--isolation).
  std::optional<bool> driver_limits;
  std::optional<bool> mig_only;  // use only MIG partitions (--isolation mig)
  std::optional<int> gpus_most;  // a queued job starts with up to this many, but waits for `gpus`
  std::optional<bool> all_gpus;  // --gpus all: as many as one job can get on this machine
  std::optional<int> cpus;       // --cpus
  std::optional<std::string> cpu_list;  // --cpus 0-3, in the kernel's list format
  std::optional<std::string> inherited_cuda, inherited_hip, inherited_rocr, inherited_ze,
      inherited_tpu;
  std::optional<std::string>
      inherited_cuda_order;  // CUDA_DEVICE_ORDER, which says what an inherited CUDA index refers to

  /// Whether the guard, or a stronger isolation method, must limit the job on its devices.
  [[nodiscard]] bool has_limits() const { return memory_bytes || share_permille; }
};

/// The inherited variables, with their keys in JSON documents.
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

/// The share that means all of a device's time.
inline constexpr int kWholePermille = 1000;

/// Where the job runs. If there is no device, it runs on the CPU.
struct Placement {
  std::vector<int>
      devices;  // Device::index of each device, in the order in which the job sees them
  std::vector<std::string> partitions;  // the partition's uuid for each device; "" the whole device
  std::string cpus;  // affinity to set, in the kernel's list format; "" unchanged
  int threads = 1;   // number of threads for OpenMP and similar
  std::vector<std::string>
      reasons;  // why this placement was chosen: sentences for people, translated
};

/// One variable of the job's environment.
struct Setting {
  enum class Action { kSet, kUnset, kKeep };  // kKeep: the user's value is kept and only reported
  Action action = Action::kSet;
  std::string name, value;
  std::string why;  // the reason in one sentence for people, translated
};

/// What the job will see. No part of it is applied yet; --dry-run and `berth env` print exactly
/// this.
struct Environment {
  std::vector<Setting> settings;
  std::string cpus;  // affinity, kernel list format; "" unchanged
  int threads = 1;
  std::vector<std::string> notes;  // sentences about what cannot be hidden or enforced, translated
};

/// kCancelled, kTimeLimit, kPreempted: the job was ended by `berth cancel`, by its time limit, or
/// by the broker for another job. The exit code does not matter then. Journals store the numbers,
/// so add new values at the end.
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

/// A job's use of one device, from samples.
struct DeviceUse {
  int device = -1;
  std::string name, uuid;  // name and uuid of the partition, if the job got one
  std::string words;       // description for people: "GPU 2:1 (MIG 1g.10gb of NVIDIA A100)"
  std::optional<std::uint32_t> partition;    // its index on the device; nullopt: the whole device
  Reading<std::uint64_t> memory_peak_bytes;  // peak of the memory that the job's own processes used
  Reading<double> utilization_mean_percent,
      utilization_peak_percent;               // peak utilization of the device while the job ran
  Reading<std::uint64_t> energy_millijoules;  // energy that the device used while the job ran
};

enum class GpuUse { kSeen, kNotSeen, kDeniedByKernel, kNotChecked };
[[nodiscard]] std::string_view name(
    GpuUse use);  // "seen", "not_seen", "denied_by_kernel", "not_checked"

/// A process that was still running when the command ended. Berth killed it.
struct LeftBehind {
  std::int64_t pid = 0;
  std::string command;  // start of its command line; "" unknown
};

/// The threads of the job's processes, and the CPU libraries that they loaded.
struct Threading {
  std::vector<std::string> pools;  // libraries that start threads: "GNU OpenMP", "TBB"
  std::vector<std::string> blas;   // "OpenBLAS 0.3.21 (pthreads)", "reference BLAS"
  std::optional<int> most;         // threads of one process, at most; nullopt: not measured
  std::optional<int> most_of_all;  // threads of all processes of the job at once, at most
};

/// Memory that kept growing until the end.
struct MemoryGrowth {
  std::optional<int> device;  // Device::index; nullopt: the host
  std::string words;          // "GPU 0 (NVIDIA H100)"; "" the host
  double bytes_per_minute = 0;
  double since_seconds = 0;  // time since the start of the job
};

/// What limited a job, with its evidence.
struct Bottleneck {
  std::string kind;      // "input", "one_thread", … (docs/run.md)
  std::string sentence;  // with the figures; translated
  std::string change;    // one change to try; translated
};

/// The job of a cluster scheduler inside which this job ran.
struct EngineJob {
  std::string engine;           // "slurm"
  std::string job, step, node;  // as the scheduler names them; "" unknown
  std::optional<int> rank;      // rank of the task within its step
};

struct Tries;  // model/tries.hpp

/// The container in which `berth run --container` started the command.
struct ContainerUse {
  std::string engine, image;  // "podman"
};

/// What happened with the signal of --checkpoint-signal.
struct CheckpointSignal {
  int signal = 0;                       // 0: the job was not about to be ended
  bool was_handled = false;             // false: no process handles it, so it was not sent
  bool ended_by_itself = false;         // the command ended before it got SIGTERM
  std::chrono::milliseconds waited{0};  // from the signal to the end of the command, or to SIGTERM
};

struct Report {
  std::vector<std::string> command;
  std::optional<ContainerUse> container;  // nullopt: the command ran in none
  std::string name;                       // --name
  std::optional<std::uint64_t> job;       // the number of the job in the broker
  std::optional<EngineJob> engine;        // nullopt: not started by a cluster scheduler
  Outcome outcome;
  std::chrono::milliseconds wall{0}, cpu{0};
  // false: another process is charged with the job's CPU time, so `cpu` is not valid.
  bool cpu_known = true;
  // Memory of all the job's processes together, at the sample where it was largest.
  std::uint64_t peak_rss_bytes = 0;
  // The peak is a sum of PSS, which counts each shared page once. Used if the job had several
  // processes.
  bool peak_is_pss = false;
  // The number of threads in the job's environment, such as OMP_NUM_THREADS.
  int threads = 1;
  Threading threading;  // what was really there
  std::string cpus;
  std::vector<DeviceUse> devices;
  UsagePrices prices;          // the prices that are set on this machine
  std::optional<double> cost;  // nullopt: no prices, or the energy is priced and not known
  Access access = Access::kVariable;
  std::optional<Guarded> guarded;  // nullopt: no memory or share was requested
  GpuUse gpu_use = GpuUse::kNotChecked;
  // The method that checked whether the job used a GPU, and how often it checked; translated.
  std::string gpu_use_method;
  /// GPUs that a job without a GPU accessed nevertheless: "GPU 0 (NVIDIA H100)", "/dev/nvidia0".
  /// nullopt: the job had a GPU, or this was not checked.
  std::optional<std::vector<std::string>> gpus_touched;
  std::vector<std::string>
      libraries;  // compute libraries seen loaded: "torch (CPU build)", "numpy", …
  std::vector<std::string> suggestions;  // sentences for people, translated
  std::int64_t started_unix_milliseconds = 0;
  int looks = 0;           // how many samples of the job's processes were taken
  std::string how_often;   // how often samples were taken: "looked 52 times, …", translated; ""
                           // without samples
  bool gpus_here = false;  // this machine has a GPU (or TPU) that a program could use
  bool on_cpu_by_request = false;    // --gpus none
  std::vector<Setting> settings;     // variables that were set, unset or kept
  std::vector<std::string> reasons;  // reasons for the placement
  std::vector<LeftBehind> left_behind;
  std::vector<MemoryGrowth> memory_growth;
  std::vector<Bottleneck> bottlenecks;  // the most important first
  std::string bottlenecks_unknown;      // why some or all are not known, translated; "" all known
  CheckpointSignal checkpoint;
  std::shared_ptr<const Tries> tries;  // for a job with ranks or retries; otherwise nullptr
  std::vector<std::string> notes;      // sentences for people, translated
};

}  // namespace berth::model
