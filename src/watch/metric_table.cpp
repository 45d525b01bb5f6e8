// The metrics for readings, with their names in Berth's own dialect and in those of other
// exporters. docs/watch.md lists Berth's own.
#include <array>

#include "watch/metrics.hpp"

namespace berth::watch {

namespace {

constexpr double kPercent = 0.01, kMilli = 0.001, kMega = 1e6, kMiB = 1.0 / (1 << 20);

/// Berth's own metrics. Values that never change, such as the highest clocks, are left out: `berth
/// ls --json` shows them.
constexpr auto kOwn = std::to_array<ReadingMetric>({
    {"memory_total_bytes", "berth_device_memory_total_bytes", "bytes", false, 1,
     "Memory of the device."},
    {"memory_used_bytes", "berth_device_memory_used_bytes", "bytes", false, 1,
     "Memory in use, without what the driver reserves."},
    {"memory_reserved_bytes", "berth_device_memory_reserved_bytes", "bytes", false, 1,
     "Memory that the driver reserves for itself."},
    {"utilization_percent", "berth_device_utilization_ratio", "ratio", false, kPercent,
     "Share of time in which any kernel ran."},
    {"memory_utilization_percent", "berth_device_memory_utilization_ratio", "ratio", false,
     kPercent, "Share of time in which device memory was read or written."},
    {"encoder_utilization_percent", "berth_device_encoder_utilization_ratio", "ratio", false,
     kPercent, "Load of the video encoder."},
    {"decoder_utilization_percent", "berth_device_decoder_utilization_ratio", "ratio", false,
     kPercent, "Load of the video decoder."},
    {"sm_active_percent", "berth_device_sm_active_ratio", "ratio", false, kPercent,
     "Part of the multiprocessors that had work, over time."},
    {"tensor_active_percent", "berth_device_tensor_active_ratio", "ratio", false, kPercent,
     "Part of the time in which tensor cores worked."},
    {"dram_active_percent", "berth_device_memory_bandwidth_ratio", "ratio", false, kPercent,
     "Part of the memory bandwidth that was used."},
    {"temperature_celsius", "berth_device_temperature_celsius", "celsius", false, 1,
     "Temperature of the chip."},
    {"power_milliwatts", "berth_device_power_watts", "watts", false, kMilli,
     "Power draw, as the driver averages it."},
    {"power_limit_milliwatts", "berth_device_power_limit_watts", "watts", false, kMilli,
     "Enforced power limit."},
    {"energy_millijoules", "berth_device_energy_joules_total", "joules", true, kMilli,
     "Energy used since the driver was loaded."},
    {"fan_percent", "berth_device_fan_ratio", "ratio", false, kPercent,
     "Fan speed, of its maximum."},
    {"clock_graphics_mhz", "berth_device_clock_graphics_hertz", "hertz", false, kMega,
     "Graphics clock."},
    {"clock_sm_mhz", "berth_device_clock_sm_hertz", "hertz", false, kMega,
     "Clock of the multiprocessors."},
    {"clock_memory_mhz", "berth_device_clock_memory_hertz", "hertz", false, kMega, "Memory clock."},
    {"pcie_generation", "berth_device_pcie_link_generation", "", false, 1,
     "PCI Express generation of the link now."},
    {"pcie_width", "berth_device_pcie_link_width", "", false, 1, "PCI Express lanes now."},
    {"nvlink_rx_bytes_per_second", "berth_device_nvlink_received_bytes_per_second", "", false, 1,
     "Data received over all NVLinks."},
    {"nvlink_tx_bytes_per_second", "berth_device_nvlink_sent_bytes_per_second", "", false, 1,
     "Data sent over all NVLinks."},
    {"performance_state", "berth_device_performance_state", "", false, 1,
     "Performance state; 0 is the fastest."},
    {"ecc_corrected", "berth_device_ecc_corrected_errors_total", "", true, 1,
     "Corrected memory errors since the driver was loaded."},
    {"ecc_uncorrected", "berth_device_ecc_uncorrected_errors_total", "", true, 1,
     "Uncorrected memory errors since the driver was loaded."},
    {"remapped_rows", "berth_device_remapped_rows", "", false, 1,
     "Memory rows that were remapped."},
    {"remap_pending", "berth_device_row_remap_pending", "", false, 1,
     "1: a row is to be remapped at the next reset."},
    {"remap_failed", "berth_device_row_remap_failed", "", false, 1,
     "1: a row could not be remapped."},
});

constexpr auto kDcgm = std::to_array<ReadingMetric>({
    {"clock_sm_mhz", "DCGM_FI_DEV_SM_CLOCK", "", false, 1, "SM clock frequency (in MHz)."},
    {"clock_memory_mhz", "DCGM_FI_DEV_MEM_CLOCK", "", false, 1, "Memory clock frequency (in MHz)."},
    {"temperature_celsius", "DCGM_FI_DEV_GPU_TEMP", "", false, 1, "GPU temperature (in C)."},
    {"power_milliwatts", "DCGM_FI_DEV_POWER_USAGE", "", false, kMilli, "Power draw (in W)."},
    {"energy_millijoules", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "", true, 1,
     "Total energy consumption since boot (in mJ)."},
    {"utilization_percent", "DCGM_FI_DEV_GPU_UTIL", "", false, 1, "GPU utilization (in %)."},
    {"memory_utilization_percent", "DCGM_FI_DEV_MEM_COPY_UTIL", "", false, 1,
     "Memory utilization (in %)."},
    {"encoder_utilization_percent", "DCGM_FI_DEV_ENC_UTIL", "", false, 1,
     "Encoder utilization (in %)."},
    {"decoder_utilization_percent", "DCGM_FI_DEV_DEC_UTIL", "", false, 1,
     "Decoder utilization (in %)."},
    {"sm_active_percent", "DCGM_FI_PROF_SM_ACTIVE", "", false, kPercent,
     "The ratio of cycles an SM has at least 1 warp assigned (0 to 1)."},
    {"tensor_active_percent", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "", false, kPercent,
     "Ratio of cycles the tensor (HMMA) pipe is active (0 to 1)."},
    {"dram_active_percent", "DCGM_FI_PROF_DRAM_ACTIVE", "", false, kPercent,
     "Ratio of cycles the device memory interface is active (0 to 1)."},
    {"memory_total_bytes", "DCGM_FI_DEV_FB_TOTAL", "", false, kMiB,
     "Total framebuffer memory (in MiB)."},
    {"memory_free_bytes", "DCGM_FI_DEV_FB_FREE", "", false, kMiB,
     "Framebuffer memory free (in MiB)."},
    {"memory_used_bytes", "DCGM_FI_DEV_FB_USED", "", false, kMiB,
     "Framebuffer memory used (in MiB)."},
    {"memory_reserved_bytes", "DCGM_FI_DEV_FB_RESERVED", "", false, kMiB,
     "Framebuffer memory reserved (in MiB)."},
    {"ecc_corrected", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "", true, 1,
     "Total number of single-bit volatile ECC errors."},
    {"ecc_uncorrected", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "", true, 1,
     "Total number of double-bit volatile ECC errors."},
    {"remap_failed", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "", false, 1,
     "Whether remapping of rows has failed."},
    {"remap_pending", "DCGM_FI_DEV_ROW_REMAP_PENDING", "", false, 1,
     "Whether remapping of rows is pending."},
});

constexpr auto kNvidiaSmi = std::to_array<ReadingMetric>({
    {"memory_total_bytes", "nvidia_smi_memory_total_bytes", "", false, 1, "memory.total"},
    {"memory_used_bytes", "nvidia_smi_memory_used_bytes", "", false, 1, "memory.used"},
    {"memory_free_bytes", "nvidia_smi_memory_free_bytes", "", false, 1, "memory.free"},
    {"memory_reserved_bytes", "nvidia_smi_memory_reserved_bytes", "", false, 1, "memory.reserved"},
    {"utilization_percent", "nvidia_smi_utilization_gpu_ratio", "", false, kPercent,
     "utilization.gpu"},
    {"memory_utilization_percent", "nvidia_smi_utilization_memory_ratio", "", false, kPercent,
     "utilization.memory"},
    {"encoder_utilization_percent", "nvidia_smi_utilization_encoder_ratio", "", false, kPercent,
     "utilization.encoder"},
    {"decoder_utilization_percent", "nvidia_smi_utilization_decoder_ratio", "", false, kPercent,
     "utilization.decoder"},
    {"temperature_celsius", "nvidia_smi_temperature_gpu", "", false, 1, "temperature.gpu"},
    {"power_milliwatts", "nvidia_smi_power_draw_watts", "", false, kMilli, "power.draw"},
    {"power_limit_milliwatts", "nvidia_smi_enforced_power_limit_watts", "", false, kMilli,
     "enforced.power.limit"},
    {"power_limit_milliwatts", "nvidia_smi_power_limit_watts", "", false, kMilli, "power.limit"},
    {"energy_millijoules", "nvidia_smi_energy_joules_total", "", true, kMilli,
     "total energy consumption"},
    {"fan_percent", "nvidia_smi_fan_speed_ratio", "", false, kPercent, "fan.speed"},
    {"clock_graphics_mhz", "nvidia_smi_clocks_current_graphics_clock_hz", "", false, kMega,
     "clocks.current.graphics"},
    {"clock_sm_mhz", "nvidia_smi_clocks_current_sm_clock_hz", "", false, kMega,
     "clocks.current.sm"},
    {"clock_memory_mhz", "nvidia_smi_clocks_current_memory_clock_hz", "", false, kMega,
     "clocks.current.memory"},
    {"clock_graphics_max_mhz", "nvidia_smi_clocks_max_graphics_clock_hz", "", false, kMega,
     "clocks.max.graphics"},
    {"clock_memory_max_mhz", "nvidia_smi_clocks_max_memory_clock_hz", "", false, kMega,
     "clocks.max.memory"},
    {"pcie_generation", "nvidia_smi_pcie_link_gen_current", "", false, 1, "pcie.link.gen.current"},
    {"pcie_generation_max", "nvidia_smi_pcie_link_gen_max", "", false, 1, "pcie.link.gen.max"},
    {"pcie_width", "nvidia_smi_pcie_link_width_current", "", false, 1, "pcie.link.width.current"},
    {"pcie_width_max", "nvidia_smi_pcie_link_width_max", "", false, 1, "pcie.link.width.max"},
    {"pcie_rx_bytes_per_second", "nvidia_smi_pcie_throughput_rx_bytes_per_second", "", false, 1,
     "PCI Express throughput, received"},
    {"pcie_tx_bytes_per_second", "nvidia_smi_pcie_throughput_tx_bytes_per_second", "", false, 1,
     "PCI Express throughput, sent"},
    {"performance_state", "nvidia_smi_pstate", "", false, 1, "pstate"},
    {"ecc_corrected", "nvidia_smi_ecc_errors_corrected_volatile_total", "", true, 1,
     "ecc.errors.corrected.volatile.total"},
    {"ecc_uncorrected", "nvidia_smi_ecc_errors_uncorrected_volatile_total", "", true, 1,
     "ecc.errors.uncorrected.volatile.total"},
    {"remap_failed", "nvidia_smi_remapped_rows_failure", "", false, 1, "remapped_rows.failure"},
    {"remap_pending", "nvidia_smi_remapped_rows_pending", "", false, 1, "remapped_rows.pending"},
});

}  // namespace

std::span<const ReadingMetric> metrics_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::kDcgm:
      return kDcgm;
    case Dialect::kNvidiaSmi:
      return kNvidiaSmi;
    case Dialect::kBerth:
      break;
  }
  return kOwn;
}

}  // namespace berth::watch
