// What the guard limited in a job, and what the job used. Part of the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::model {

struct GuardedDevice {
  int device = -1;    // Device::index
  std::string words;  // for people
  std::optional<std::uint64_t> memory_limit_bytes;
  std::optional<int> share_permille;
  std::uint64_t memory_peak_bytes = 0, allocations = 0, frees = 0, refusals = 0, launches = 0,
                copies = 0, fills = 0;
  std::optional<std::uint64_t> hidden_peak_bytes;  // contexts and modules, if NVML showed them
  // Bytes of the copies by direction (`other`: the call does not say which), and of the fills.
  std::uint64_t copied_to_bytes = 0, copied_from_bytes = 0, copied_on_bytes = 0,
                copied_other_bytes = 0, filled_bytes = 0;
  std::uint64_t device_nanoseconds =
      0;  // time on the device; 0 if no share was given, because it is not measured then
};

struct Guarded {
  bool set_up = false;  // whether the guard was set up for the job
  std::uint32_t programs =
      0;  // number of the job's processes that loaded the guard and initialized CUDA
  std::string not_enforced;  // why the limits are not enforced, translated; "" if they are
  std::string not_counted;   // which memory the guard did not see, translated; "" none known
  std::vector<GuardedDevice> devices;
};

}  // namespace berth::model
