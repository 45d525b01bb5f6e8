// What the next try of a queued job must know of the earlier ones. A try that needs other devices
// runs in another lease, and so in another `berth run` inside the job. The keeper gives each `berth
// run` an unnamed file with the tries that the one before it has written. When the job goes back to
// the queue, the keeper stores the tries in JOBS/N.tries. So the tries do not go through the broker
// or its journal.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "model/run.hpp"
#include "model/tries.hpp"

namespace berth::run {

/// This variable tells the `berth run` inside a queued job the number of its descriptor for these
/// tries.
inline constexpr const char* kTriesVariable = "BERTH_JOB_TRIES";

struct EarlierTries {
  model::Tries tries;
  model::TryChange change = model::TryChange::kNothing;  // what the next try should change
  double batch_scale = 1;
  std::vector<std::string> without;  // policy::unit_id of devices that the next try should not get
  std::int64_t ended_unix_milliseconds = 0;  // when the last try ended
  // The following values are of all tries together.
  std::chrono::milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;
  std::vector<model::DeviceUse> devices;
  std::chrono::milliseconds device_wall{0};  // wall time of the starts that had devices
  double held_seconds = 0;  // wall time of each start, multiplied by the number of its devices
};

/// Reads the earlier tries; nullopt if there was none.
[[nodiscard]] std::optional<EarlierTries> read_earlier_tries(const Descriptor& file);
/// Stores the tries, and marks the job as one that goes back to the queue when it ends. False if
/// they cannot be stored.
[[nodiscard]] bool write_next_try(const Descriptor& file, const EarlierTries& earlier);

// The following functions are for the keeper.

/// The path of the file JOBS/N.tries.
[[nodiscard]] std::string tries_of(const std::string& job_files);
/// An unnamed file with the content of JOBS/N.tries, to be inherited; -1 if there can be none.
[[nodiscard]] Descriptor open_tries_for(const std::string& job_files);
/// If write_next_try() was called, stores the tries in JOBS/N.tries. Returns whether it was called.
[[nodiscard]] bool keep_tries(const Descriptor& file, const std::string& job_files);

}  // namespace berth::run
