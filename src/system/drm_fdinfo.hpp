// What processes use on AMD, Intel and other DRM devices: /proc/PID/fdinfo/N of every open /dev/dri
// node (Documentation/gpu/drm-usage-stats.rst). This needs no library and wakes no device.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace berth::system {

/// An amount for an engine or a memory region: "render" 12345, "vram" 4096.
struct DrmAmount {
  std::string name;
  std::uint64_t amount = 0;
};

/// The fields of one fdinfo file. A missing field is nullopt.
struct DrmFdinfo {
  std::string driver;  // "amdgpu", "i915", "xe"
  // "0000:03:00.0" in lower case; empty if the device is not on PCI or the address is not reported
  std::string pci_address;
  std::optional<std::uint64_t> client_id;
  std::vector<DrmAmount>
      memory;  // resident bytes for each region ("vram", "local0", "gtt", "system0")
  std::vector<DrmAmount> engine_ns;  // busy nanoseconds since the file was opened
  std::vector<DrmAmount> cycles;  // only for xe: busy cycles; `total_cycles` has the elapsed cycles
  std::vector<DrmAmount> total_cycles;
};
/// Parses the text of an fdinfo file; nullopt if the descriptor is not a DRM file.
[[nodiscard]] std::optional<DrmFdinfo> parse_drm_fdinfo(std::string_view text);

/// What one process uses on one device, summed over all its open files.
struct DrmClient {
  std::int64_t pid = 0;
  std::string pci_address, driver;
  std::optional<std::uint64_t> device_bytes;  // memory of the device itself ("vram…", "local…")
  std::optional<std::uint64_t>
      host_bytes;  // memory of the host ("gtt", "system…", "stolen…", "cpu")
  std::vector<DrmAmount> engine_ns, cycles, total_cycles;  // sums for each engine
  // whether a compute engine, or a graphics engine, was busy
  bool compute = false, graphics = false;

  /// How long the engines of this client were busy. A rate needs two readings
  /// (Absence::kNeedsTwoReadings).
  [[nodiscard]] std::uint64_t busy_ns() const;
};

void add_fdinfo(DrmClient& client, const DrmFdinfo& info);

struct DrmSearch {
  /// Sorted by pid, then by device. A client that several processes share (after a fork, or by
  /// passing the descriptor) counts once, for the lowest pid.
  std::vector<DrmClient> clients;
  bool finished = true;  // false if the time limit ended the search before all processes were read
};
/// Skips files that the caller may not read. For root, this reads every descriptor of every
/// process, possibly millions, so there is a time limit.
[[nodiscard]] DrmSearch read_drm_clients(const Roots& roots, std::chrono::milliseconds limit);
/// Reads only these processes. Apart from that, it is like the function above.
[[nodiscard]] DrmSearch read_drm_clients(const Roots& roots, const std::vector<std::int64_t>& pids,
                                         std::chrono::milliseconds limit);

}  // namespace berth::system
