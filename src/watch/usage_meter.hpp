// What users, jobs and programs used on the devices: GPU-seconds, memory, energy, and how long they
// held a device without using it. Pure.
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
  std::string user;       // "": unknown
  std::uint64_t job = 0;  // 0: none
  std::string program;    // "python3"; "": unknown
  auto operator<=>(const UsageKey&) const = default;
};

/// User and program of memory that no process accounts for.
inline constexpr const char* kNoProcess = "(no process)";

struct Usage {
  double held_seconds = 0;         // time with a compute process on the device
  double used_seconds = 0;         // known_seconds multiplied by the time share
  double known_seconds = 0;        // the part of held_seconds in which the time share is known
  double idle_seconds = 0;         // the part of known_seconds in which the time share is 0
  double memory_byte_seconds = 0;  // memory of processes whose memory is known
  double energy_joules = 0;        // its part of the device's energy, by time share
  /// The most memory that was used at one time on one device. nullopt: it was never known.
  std::optional<double> peak_memory_bytes = {};
  std::optional<double> device_memory_bytes = {};  // memory of the largest device
  /// The memory that the job requested; 0: a whole device; nullopt: not a job of Berth, or a
  /// history without this value.
  std::optional<double> asked_memory_bytes = {};
  void add(const Usage& other);
};

/// The memory that each job requested on each of its devices; 0: whole devices. The key is the job.
using AskedMemory = std::map<std::uint64_t, std::uint64_t>;

class UsageMeter {
 public:
  void add(const Frame& frame, const AskedMemory& asked = {});
  /// What was collected since the last call.
  [[nodiscard]] std::map<UsageKey, Usage> take() { return std::exchange(usage_, {}); }

 private:
  [[nodiscard]] std::optional<double> joules_of(const model::Device& device, double seconds);
  void add_unaccounted(const Frame& frame, const model::Device& device, double seconds,
                       const std::optional<double>& joules);

  std::map<UsageKey, Usage> usage_;
  std::map<std::string, std::uint64_t> energy_;  // last counter of each device, in mJ
  std::optional<double> last_seconds_;
};

/// The program of a command line: "python3".
[[nodiscard]] std::string program_of(const std::string& command);

}  // namespace berth::watch
