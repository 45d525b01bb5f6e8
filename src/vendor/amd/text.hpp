// Parses the text of amdgpu's and kfd's sysfs files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::amd {

/// The clock levels in pp_dpm_sclk or pp_dpm_mclk: "0: 500Mhz\n1: 2482Mhz *\n". The "*" marks the
/// active level.
struct ClockLevels {
  std::optional<std::uint64_t> current_mhz, highest_mhz;
};
[[nodiscard]] ClockLevels parse_clock_levels(std::string_view text);

/// The active link level in pp_dpm_pcie, marked by "*": "1: 16.0GT/s, x16 1150Mhz *".
struct LinkLevel {
  std::optional<double> gts;
  std::optional<std::uint64_t> width;
};
[[nodiscard]] LinkLevel parse_link_levels(std::string_view text);

/// The memory errors in ras/umc_err_count, uncorrected and corrected: "ue: 0\nce: 3\n".
struct ErrorCounts {
  std::optional<std::uint64_t> corrected, uncorrected;
};
[[nodiscard]] ErrorCounts parse_error_counts(std::string_view text);

/// Converts kfd's gfx_target_version, a decimal number MMmmss, to the name of the architecture:
/// 110000 → "gfx1100", 90402 → "gfx942", 90010 → "gfx90a"; "" for 0.
[[nodiscard]] std::string architecture_of(std::uint64_t gfx_target_version);

/// The fields of class/kfd/kfd/topology/nodes/N/properties that identify a GPU.
struct KfdNode {
  std::uint64_t simd_count = 0;  // number of SIMD units; 0: the node is a CPU
  std::uint64_t cpu_cores_count = 0;
  std::uint64_t gfx_target_version = 0;
  std::uint64_t unique_id = 0;
  std::uint64_t domain = 0, location_id = 0;  // location_id: bus << 8 | slot << 3 | function
  std::uint64_t drm_render_minor = 0;
};
[[nodiscard]] KfdNode parse_kfd_properties(std::string_view text);
/// Returns the PCI address: "0000:03:00.0".
[[nodiscard]] std::string pci_address_of(const KfdNode& node);

}  // namespace berth::amd
