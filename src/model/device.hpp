// Device describes one GPU, CPU or other accelerator. It has the same form in all parts of Berth,
// whatever its data come from. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/reading.hpp"

namespace berth::model {

enum class DeviceKind : unsigned char { kGpu, kTpu, kAccelerator, kOpenCl, kCpu };
enum class Vendor : unsigned char { kNvidia, kAmd, kIntel, kGoogle, kOther };
/// kNotChecked: Berth sees the device, but cannot ask for its health.
enum class Health : unsigned char { kOk, kDegraded, kLost, kAsleep, kNoAnswer, kNotChecked };

[[nodiscard]] std::string_view name(
    DeviceKind kind);                                // "gpu", "tpu", "accelerator", "opencl", "cpu"
[[nodiscard]] std::string_view name(Vendor vendor);  // "nvidia", "amd", "intel", "google", "other"
[[nodiscard]] std::string_view name(
    Health health);  // "ok", "degraded", "lost", "asleep", "no answer", "not checked"

/// The values that are read again at every scan. This is their only list; the codec, JSON and docs
/// follow it. Each row has a C++ type and the name of the member. The name contains the unit, and
/// is also the JSON key.
#define BERTH_DEVICE_READINGS(ROW)               \
  ROW(std::uint64_t, memory_total_bytes)         \
  ROW(std::uint64_t, memory_used_bytes)          \
  ROW(std::uint64_t, memory_reserved_bytes)      \
  ROW(double, utilization_percent)               \
  ROW(double, memory_utilization_percent)        \
  ROW(double, encoder_utilization_percent)       \
  ROW(double, decoder_utilization_percent)       \
  ROW(double, sm_active_percent)                 \
  ROW(double, tensor_active_percent)             \
  ROW(double, dram_active_percent)               \
  ROW(double, temperature_celsius)               \
  ROW(std::uint64_t, power_milliwatts)           \
  ROW(std::uint64_t, power_limit_milliwatts)     \
  ROW(std::uint64_t, energy_millijoules)         \
  ROW(double, fan_percent)                       \
  ROW(std::uint64_t, clock_graphics_mhz)         \
  ROW(std::uint64_t, clock_graphics_max_mhz)     \
  ROW(std::uint64_t, clock_sm_mhz)               \
  ROW(std::uint64_t, clock_memory_mhz)           \
  ROW(std::uint64_t, clock_memory_max_mhz)       \
  ROW(std::uint64_t, pcie_generation)            \
  ROW(std::uint64_t, pcie_generation_max)        \
  ROW(std::uint64_t, pcie_width)                 \
  ROW(std::uint64_t, pcie_width_max)             \
  ROW(std::uint64_t, pcie_rx_bytes_per_second)   \
  ROW(std::uint64_t, pcie_tx_bytes_per_second)   \
  ROW(std::uint64_t, nvlink_links)               \
  ROW(std::uint64_t, nvlink_links_max)           \
  ROW(std::uint64_t, nvlink_rx_bytes_per_second) \
  ROW(std::uint64_t, nvlink_tx_bytes_per_second) \
  ROW(std::uint64_t, performance_state)          \
  ROW(std::uint64_t, ecc_corrected)              \
  ROW(std::uint64_t, ecc_uncorrected)            \
  ROW(std::uint64_t, remapped_rows)              \
  ROW(std::uint64_t, remap_pending)              \
  ROW(std::uint64_t, remap_failed)

struct DeviceReadings {
#define BERTH_ROW(type, member) Reading<type> member;
  BERTH_DEVICE_READINGS(BERTH_ROW)
#undef BERTH_ROW
};

/// Calls visit("key", reading) for every reading, in the order of the list. Works for const and
/// non-const DeviceReadings.
template <typename Readings, typename Visit>
void for_each_reading(Readings& readings, Visit&& visit) {
#define BERTH_ROW(type, member) visit(std::string_view(#member), readings.member);
  BERTH_DEVICE_READINGS(BERTH_ROW)
#undef BERTH_ROW
}
/// Sets all readings to absent for one reason: the device is asleep, is lost, or does not answer.
void set_all_absent(DeviceReadings& readings, Absence why);

/// A part of a device with its own memory and compute units (MIG).
struct Partition {
  std::uint32_t index = 0;  // the driver's index of the MIG partition on its device
  std::string name;         // "MIG 1g.10gb"
  std::string uuid;         // "MIG-…"
  std::optional<std::uint32_t> gpu_instance, compute_instance;
  Reading<std::uint64_t> memory_total_bytes, memory_used_bytes;
  // Measured with GPM (GPU performance monitoring), which exists on Hopper and later GPUs.
  Reading<double> utilization_percent;
};

/// What is at the other end of some NVLinks of a device: a GPU or a switch.
struct NvLinkPeer {
  // PCI address of the GPU at the other end; "" if the links lead to NVSwitches
  std::string pci_address;
  std::uint32_t links = 0;  // number of active links
};

struct Device {
  // Berth's number for the device: GPUs come first, sorted by vendor and PCI address; the CPU is
  // last
  int index = -1;
  // the number that the vendor's driver gives the device
  std::optional<std::uint32_t> vendor_index;
  DeviceKind kind = DeviceKind::kGpu;
  Vendor vendor = Vendor::kOther;
  std::string vendor_name;  // the vendor's name for people: "NVIDIA", "AMD", "Huawei Ascend"
  std::string name;
  std::string uuid;         // "" if the device has none
  std::string pci_address;  // such as "0000:81:00.0", in lower case; "" if the device is not on PCI
  /// the bridges above the device: "pci0000:00/0000:00:01.0"; "" if unknown
  std::string pci_path;
  std::optional<std::uint32_t> pci_id;  // PCI id: vendor << 16 | device
  std::string kernel_driver;            // "nvidia", "amdgpu", "i915", "xe"; "" if unknown or none
  std::optional<int> numa_node;
  // the CPUs nearest to the device, in the kernel's list format: "0-15,64-79"; "" if unknown
  std::string local_cpus;
  std::optional<std::uint32_t> minor_number;  // minor number of /dev/nvidiaN or /dev/dri/renderDN
  std::string architecture;                   // "hopper", "gfx942"; "" if unknown
  std::string compute_capability;             // such as "9.0"; only for NVIDIA
  std::string compute_mode;  // "default", "exclusive process", "prohibited"; "" if unknown
  std::optional<bool> persistence_mode;
  std::optional<bool> mig_enabled;
  bool memory_unified =
      false;            // the device uses the host's memory (GB10, Jetson, integrated GPUs, CPU)
  bool managed = true;  // false if the device is on the bus, but Berth cannot use it
  Health health = Health::kNotChecked;
  // Why the health is not kOk, as stable identifiers: "throttle:hw_thermal", "ecc_uncorrected",
  // "nvml:15", "xid:79".
  std::vector<std::string> health_reasons;
  // Why the clocks are low, as stable identifiers: "hw_thermal", "sw_power_cap", "idle", …
  std::vector<std::string> throttle_reasons;
  std::vector<Partition> partitions;
  // sorted by address; empty if there are none, or if they are not known
  std::vector<NvLinkPeer> nvlink_peers;
  /// why the device's processes could not be read; then the list may be incomplete
  std::optional<Absence> processes_unknown = {};
  /// why some or all MIG partitions could not be read
  std::optional<Absence> partitions_unknown = {};
  DeviceReadings readings;
  // age of the readings in seconds, if they were not read just now
  std::optional<double> age_seconds;
  /// When the readings that are taken less often were taken. 0 means at the same time as the
  /// others.
  std::int64_t slow_unix_milliseconds = 0;
  std::string note;  // a translated sentence for people; usually ""
};

/// False if the device is lost, or has not answered in time.
[[nodiscard]] inline bool answers(const Device& device) {
  return device.health != Health::kLost && device.health != Health::kNoAnswer;
}

}  // namespace berth::model
