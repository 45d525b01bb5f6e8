// What the guard limited in a job, and what the job used. Part of the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::model {

/// The rules by which a job shares a device's time with others, in addition to its share.
struct TurnRules {
  // largest share of the device's time in thousandths, even if no other job uses the device
  std::optional<int> cap_permille;
  std::optional<bool> latency;            // this job's turns come before those of other jobs
  std::optional<bool> best_effort;        // this job gets only the time that no other job uses
  std::optional<int> slice_milliseconds;  // length of one of its turns
  std::optional<bool> keeps_turn;         // a pause of up to a second does not end its turn
  [[nodiscard]] bool any() const {
    return cap_permille || latency || best_effort || slice_milliseconds || keeps_turn;
  }
};

/// The name in JSON: "latency" or "best_effort"; "" for neither.
inline const char* word_of(const TurnRules& turns) {
  return turns.latency ? "latency" : turns.best_effort ? "best_effort" : "";
}

struct GuardedDevice {
  int device = -1;    // the device's number (Device::index)
  std::string words;  // a description of the device for people
  std::optional<std::uint64_t> memory_limit_bytes;
  std::optional<int> share_permille;
  TurnRules turns;
  std::uint64_t memory_peak_bytes = 0, allocations = 0, frees = 0, refusals = 0, launches = 0,
                copies = 0, fills = 0;
  // Peak memory of CUDA contexts and modules; absent if NVML did not report it.
  std::optional<std::uint64_t> hidden_peak_bytes;
  // peak memory beyond the limit; nullopt without --spill
  std::optional<std::uint64_t> spilled_peak_bytes;
  // When a turn began, spilled memory was moved back to the device: how often, how many bytes, and
  // how long it took.
  std::uint64_t prefetches = 0, prefetched_bytes = 0, prefetch_nanoseconds = 0;
  // Bytes copied to, from and on the device (`other`: the call does not tell the direction), and
  // bytes filled.
  std::uint64_t copied_to_bytes = 0, copied_from_bytes = 0, copied_on_bytes = 0,
                copied_other_bytes = 0, filled_bytes = 0;
  std::uint64_t device_nanoseconds =
      0;  // device time of the job; 0 without a share, because it is measured only with one
  // how long the job waited for its turn while another job had the device
  std::uint64_t waited_nanoseconds = 0;
};

struct Guarded {
  bool set_up = false;  // whether the guard was set up for the job
  std::uint32_t programs =
      0;  // number of the job's processes that loaded the guard and initialized CUDA
  bool opencl_only = false;  // only OpenCL programs are limited on these devices
  // What else limits the job besides the guard: "driver", "mig" or "mps"; "" if nothing does.
  std::string method;
  // the percentage of multiprocessors that MPS lets the job use
  std::optional<int> threads_percent;
  std::string not_enforced;  // why the limits are not enforced, translated; "" if they are enforced
  // which memory the guard could not count, translated; "" if it counted all
  std::string not_counted;
  std::vector<GuardedDevice> devices;
};

}  // namespace berth::model
