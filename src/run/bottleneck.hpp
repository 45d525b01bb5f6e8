// What limited a job, derived from measurements. Pure. A bottleneck without evidence is never
// reported.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/run.hpp"
#include "run/activity.hpp"
#include "run/device_series.hpp"

namespace berth::run {

struct RankActivity {
  int rank = 0;
  double runs = 0;  // the fraction of the time in which the rank's main thread ran
};

/// One device of the job. Fractions are between 0 and 1.
struct DeviceEvidence {
  std::string words;           // what the report calls the device, such as "GPU 0 (NVIDIA H100)"
  std::optional<double> busy;  // the part of the time in which the device had work of any user
  DeviceStrain strain;
  // number of launches and copies of the job, which the guard counts
  std::optional<std::uint64_t> launches, copies;
  std::optional<double> own_seconds;  // device time that the guard counted for the job
  std::optional<int> share_permille;  // the share that the guard enforced
  // how long the job waited for its turn while other jobs had the device
  std::optional<double> waited_seconds;
};

struct Evidence {
  double wall_seconds = 0;
  std::optional<double> cpu_seconds;
  int cores = 1;                   // number of cores that the job may use
  MainActivity main;               // the sum of the activity of its main processes
  int mains = 1;                   // the number of main processes
  std::optional<double> runnable;  // threads that ran or waited for a core, on average
  std::optional<double> disk_bytes;
  double quota_part = 0;  // the part of the periods in which the CPU quota stopped the group
  std::vector<RankActivity> ranks;
  // the only BLAS library of the job is the reference BLAS, which is not optimised
  bool has_reference_blas = false;
  bool registers_stacks = false;  // whether `berth stacks` can show the stacks of its Python code
  bool has_number = true;         // the broker manages the job, so it has a number
  bool device_unused = false;     // the job had a device, but was never seen to use it
  std::vector<DeviceEvidence> devices;
};

struct Bottlenecks {
  std::vector<model::Bottleneck> found;  // the most important first
  std::string unknown;  // why some or all bottlenecks are not known; "": all are known
};

[[nodiscard]] Bottlenecks find_bottlenecks(const Evidence& evidence);

inline constexpr double kShortestJudged = 2;  // seconds

}  // namespace berth::run
