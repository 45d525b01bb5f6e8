// Measures what users, jobs and programs use on devices: GPU-seconds, memory, energy, and how long
// they held a device without using it. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "watch/frame.hpp"

namespace berth::watch {

struct UsageKey {
  std::string device;     // key_of()
  std::string user;       // user name; "": unknown
  std::uint64_t job = 0;  // 0: none
  std::string program;    // program name, such as "python3"; "": unknown
  auto operator<=>(const UsageKey&) const = default;
};

/// The user name and program name for memory that belongs to no process.
inline constexpr const char* kNoProcess = "(no process)";

struct Usage {
  double held_seconds = 0;         // time with at least one compute process on the device
  double used_seconds = 0;         // known_seconds multiplied by the time share
  double known_seconds = 0;        // the part of held_seconds in which the time share is known
  double idle_seconds = 0;         // the part of known_seconds in which the time share is 0
  double memory_byte_seconds = 0;  // bytes × seconds, for processes whose memory is known
  double energy_joules = 0;        // part of the device's energy, in proportion to the time share
  /// The peak of the memory that was used on one device. nullopt: never known.
  std::optional<double> peak_memory_bytes = {};
  std::optional<double> device_memory_bytes = {};  // total memory of the largest device
  /// The memory that the job requested; 0: a whole device. nullopt: this is no job of Berth, or the
  /// history is from an older version.
  std::optional<double> asked_memory_bytes = {};
  void add(const Usage& other);
};

/// Maps a job to the memory that it requested on each of its devices; 0 means whole devices.
using AskedMemory = std::map<std::uint64_t, std::uint64_t>;

class UsageMeter {
 public:
  void add(const Frame& frame, const AskedMemory& asked = {});
  /// Returns the usage since the last call of take().
  [[nodiscard]] std::map<UsageKey, Usage> take() { return std::exchange(usage_, {}); }

 private:
  [[nodiscard]] std::optional<double> joules_of(const model::Device& device, double seconds);
  void add_unaccounted(const Frame& frame, const model::Device& device, double seconds,
                       const std::optional<double>& joules);

  std::map<UsageKey, Usage> usage_;
  /// Last value of each device's energy counter, in mJ.
  std::map<std::string, std::uint64_t> energy_;
  std::optional<double> last_seconds_;
};

/// Returns the name of the program in a command line: "python3".
[[nodiscard]] std::string program_of(const std::string& command);

}  // namespace berth::watch
