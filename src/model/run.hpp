// The values that flow through `run`: request → placement → environment → outcome → report.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/access.hpp"
#include "model/reading.hpp"

namespace berth::model {

/// What was asked for. `inherited_*`: visibility the caller's environment already sets; it is the
/// set to choose within.
struct Request {
  std::string verb = "run";                   // the one that was called: hints name it
  std::optional<int> gpus;                    // --gpus N; 0 = on the CPU
  std::vector<std::string> devices;           // --devices: index, uuid prefix or PCI address each
  std::optional<std::uint64_t> memory_bytes;  // --memory: that much on a shared device
  std::optional<int> share_permille;          // --share: of such a device's time
  std::optional<int> cpus;                    // --cpus
  std::optional<std::string> inherited_cuda, inherited_hip, inherited_rocr, inherited_ze,
      inherited_tpu;
  std::optional<std::string>
      inherited_cuda_order;  // CUDA_DEVICE_ORDER: what an inherited CUDA index counts
};

/// Those variables, by the keys that documents have for them.
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

/// All of a device's time.
inline constexpr int kWholePermille = 1000;

/// Where it runs. No device: on the CPU.
struct Placement {
  std::vector<int> devices;  // Device::index, in the order they are handed to the job
  std::vector<std::string>
      partitions;                    // uuid of the partition for each device; "" the whole device
  std::string cpus;                  // affinity to set, kernel list format; "" leave as it is
  int threads = 1;                   // for OMP and friends
  std::vector<std::string> reasons;  // sentences for people, translated: why these
};

/// One variable of the job's environment.
struct Setting {
  enum class Action {
    kSet,
    kUnset,
    kKeep
  };  // kKeep: the user's own value stands; said, not changed
  Action action = Action::kSet;
  std::string name, value;
  std::string why;  // one sentence for people, translated
};

/// What the job will see; nothing is applied yet, so --dry-run and `berth env` print exactly this.
struct Environment {
  std::vector<Setting> settings;
  std::string cpus;  // affinity, kernel list format; "" unchanged
  int threads = 1;
  std::vector<std::string> notes;  // what cannot be hidden, what is not enforced (translated)
};

enum class OutcomeClass { kOk, kFailed, kSignal, kNotFound, kNotExecutable, kLost };
[[nodiscard]] std::string_view name(
    OutcomeClass outcome);  // "ok", "failed", "signal", "not_found", "not_executable", "lost"

struct Outcome {
  OutcomeClass kind = OutcomeClass::kLost;
  int exit_code = 125;  // what `berth run` itself returns
  std::optional<int> signal;
};

/// How one device was used by the job, from the samples.
struct DeviceUse {
  int device = -1;
  std::string name, uuid;                    // of the partition, where that was given
  std::string words;                         // for people: "GPU 2:1 (MIG 1g.10gb of NVIDIA A100)"
  std::optional<std::uint32_t> partition;    // its index on the device; nullopt: the whole device
  Reading<std::uint64_t> memory_peak_bytes;  // of the job's own processes
  Reading<double> utilization_mean_percent,
      utilization_peak_percent;               // of the device while the job ran
  Reading<std::uint64_t> energy_millijoules;  // of the device while the job ran
};

enum class GpuUse { kSeen, kNotSeen, kDeniedByKernel, kNotChecked };
[[nodiscard]] std::string_view name(
    GpuUse use);  // "seen", "not_seen", "denied_by_kernel", "not_checked"

struct Report {
  std::vector<std::string> command;
  std::string name;                  // --name
  std::optional<std::uint64_t> job;  // the broker's number of it
  Outcome outcome;
  std::chrono::milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;  // largest sum over the job's processes seen at one sample
  int threads = 1;
  std::string cpus;
  std::vector<DeviceUse> devices;
  Access access = Access::kVariable;
  GpuUse gpu_use = GpuUse::kNotChecked;
  std::string gpu_use_method;  // what was looked at, how often; translated
  std::vector<std::string>
      libraries;  // compute libraries seen loaded: "torch (CPU build)", "numpy", …
  std::vector<std::string> suggestions;  // sentences for people, translated
  std::int64_t started_unix_milliseconds = 0;
  int looks = 0;                     // at the job's processes
  std::string how_often;             // "looked 52 times, …": translated; "" without a look
  bool gpus_here = false;            // a GPU (or TPU) that a program could use is in this machine
  bool on_cpu_by_request = false;    // --gpus none
  std::vector<Setting> settings;     // what was set, unset, kept
  std::vector<std::string> reasons;  // of the placement
  std::vector<std::string> notes;    // sentences for people, translated
};

}  // namespace berth::model
