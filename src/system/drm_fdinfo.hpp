// What processes hold and do on AMD, Intel and other DRM devices: /proc/PID/fdinfo/N of every open
// /dev/dri node, as the kernel's Documentation/gpu/drm-usage-stats.rst lays it out. Nothing here
// needs a library or wakes a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace berth::system {

/// A number per engine or memory region: "render" 12345, "vram" 4096.
struct DrmAmount {
  std::string name;
  std::uint64_t amount = 0;
};

/// One fdinfo text; nullopt fields were not in it.
struct DrmFdinfo {
  std::string driver;       // "amdgpu", "i915", "xe"
  std::string pci_address;  // "0000:03:00.0", lower case; "" not on PCI, or not said
  std::optional<std::uint64_t> client_id;
  std::vector<DrmAmount> memory;  // resident bytes by region ("vram", "local0", "gtt", "system0")
  std::vector<DrmAmount> engine_ns;  // busy nanoseconds since it was opened
  std::vector<DrmAmount> cycles;     // xe: busy cycles, to be set against `total_cycles`
  std::vector<DrmAmount> total_cycles;
};
/// nullopt where the text is of no DRM file.
[[nodiscard]] std::optional<DrmFdinfo> parse_drm_fdinfo(std::string_view text);

/// What one process holds on one device, over all its open files.
struct DrmClient {
  std::int64_t pid = 0;
  std::string pci_address, driver;
  std::optional<std::uint64_t> device_bytes;  // in the device's own memory ("vram…", "local…")
  std::optional<std::uint64_t>
      host_bytes;  // of the host's memory ("gtt", "system…", "stolen…", "cpu")
  std::vector<DrmAmount> engine_ns, cycles, total_cycles;  // sums by engine
  bool compute = false, graphics = false;                  // an engine of that kind has been busy

  /// A rate takes two readings; see Absence::kNeedsTwoReadings.
  [[nodiscard]] std::uint64_t busy_ns() const;
};

void add_fdinfo(DrmClient& client, const DrmFdinfo& info);

struct DrmSearch {
  /// By pid, then device. A client that several processes hold (after a fork, or passed on) counts
  /// once, for the lowest pid.
  std::vector<DrmClient> clients;
  bool finished = true;  // false: time was up before all processes were looked at
};
/// Files that the caller may not read are passed over. As root every descriptor of every process is
/// looked at, which can be millions, so there is a limit.
[[nodiscard]] DrmSearch read_drm_clients(const Roots& roots, std::chrono::milliseconds limit);
/// Of these processes alone.
[[nodiscard]] DrmSearch read_drm_clients(const Roots& roots, const std::vector<std::int64_t>& pids,
                                         std::chrono::milliseconds limit);

}  // namespace berth::system
