// What the guard limited in a job, and what the job used. Part of the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::model {

/// How a job takes turns on a shared device, in addition to its share.
struct TurnRules {
  std::optional<int> cap_permille;  // largest share of the device's time, even if other jobs idle
  std::optional<bool> latency;      // turns of this job come before those of other jobs
  std::optional<bool> best_effort;  // the job gets only the time that other jobs leave
  std::optional<int> slice_milliseconds;  // the length of its turns
  std::optional<bool> keeps_turn;         // a pause of up to a second does not end the job's turn
  [[nodiscard]] bool any() const {
    return cap_permille || latency || best_effort || slice_milliseconds || keeps_turn;
  }
};

/// For documents: "latency", "best_effort", or "" for neither.
inline const char* word_of(const TurnRules& turns) {
  return turns.latency ? "latency" : turns.best_effort ? "best_effort" : "";
}

struct GuardedDevice {
  int device = -1;    // Device::index
  std::string words;  // for people
  std::optional<std::uint64_t> memory_limit_bytes;
  std::optional<int> share_permille;
  TurnRules turns;
  std::uint64_t memory_peak_bytes = 0, allocations = 0, frees = 0, refusals = 0, launches = 0,
                copies = 0, fills = 0;
  // Peak memory of contexts and modules, if NVML reported it.
  std::optional<std::uint64_t> hidden_peak_bytes;
  std::optional<std::uint64_t> spilled_peak_bytes;  // peak beyond the limit; nullopt: no --spill
  // How often and how much spilled memory was moved back to the device when a turn began.
  std::uint64_t prefetches = 0, prefetched_bytes = 0, prefetch_nanoseconds = 0;
  // Bytes copied in each direction (`other`: the call does not say which), and bytes filled.
  std::uint64_t copied_to_bytes = 0, copied_from_bytes = 0, copied_on_bytes = 0,
                copied_other_bytes = 0, filled_bytes = 0;
  std::uint64_t device_nanoseconds =
      0;  // time on the device; 0 if no share was given, because it is not measured then
  std::uint64_t waited_nanoseconds = 0;  // how long the job waited while another one had the device
};

struct Guarded {
  bool set_up = false;  // whether the guard was set up for the job
  std::uint32_t programs =
      0;  // number of the job's processes that loaded the guard and initialized CUDA
  bool opencl_only = false;  // on these devices, only OpenCL programs are limited
  // What limits the job besides the guard: "driver", "mig" or "mps"; "": nothing.
  std::string method;
  std::optional<int> threads_percent;  // percentage of the multiprocessors that MPS allows it
  std::string not_enforced;  // why the limits are not enforced, translated; "" if they are
  std::string not_counted;   // which memory the guard did not see, translated; "" none known
  std::vector<GuardedDevice> devices;
};

}  // namespace berth::model
