#include "vendor/intel/intel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "vendor/sysfs/sysfs_device.hpp"

namespace berth::intel {
namespace {
using model::Absence;
using model::Reading;

/// Returns the path of the folder ".../drm/card0", in which i915 keeps its files; "" if it does not
/// exist.
std::string card_folder(const std::string& folder) {
  for (const std::string& name : list_folder(folder + "/drm"))
    if (name.starts_with("card") && to_number(std::string_view(name).substr(4)))
      return fmt::format("{}/drm/{}", folder, name);
  return {};
}

/// Whether the GPU is integrated. Intel's integrated GPU is device 2 of the root bus. A graphics
/// card is behind a bridge.
bool is_integrated(const model::PciDevice& pci) {
  const auto parts = split(pci.address, ':');
  return parts.size() == 3 && parts[1] == "00";
}

std::string name_of(const model::PciDevice& pci) {
  if (pci.name.empty()) return fmt::format("Intel GPU {:04x}", pci.device);
  return pci.name.starts_with("Intel ") ? pci.name : "Intel " + pci.name;
}

/// Reads why clocks are limited. There is one file per cause, which contains "0" or "1" (Linux
/// Documentation/ABI: sysfs-driver-intel-i915, sysfs-driver-intel-xe).
void read_throttling(const std::string& status, const std::string& prefix, model::Device& device) {
  struct Cause {
    const char* file;
    const char* reason;
  };
  constexpr std::array<Cause, 6> kCauses = {{{"pl1", "sw_power_cap"},
                                             {"pl2", "sw_power_cap"},
                                             {"pl4", "sw_power_cap"},
                                             {"thermal", "hw_thermal"},
                                             {"prochot", "hw_thermal"},
                                             {"vr_thermalert", "hw_thermal"}}};
  if (read_number(status).value_or(0) == 0) return;
  std::vector<std::string>& reasons = device.throttle_reasons;
  for (const Cause& cause : kCauses) {
    if (read_number(prefix + cause.file).value_or(0) == 0) continue;
    if (std::find(reasons.begin(), reasons.end(), cause.reason) == reasons.end())
      reasons.emplace_back(cause.reason);
  }
}

void read_i915(const std::string& folder, model::Device& device) {
  const std::string card = card_folder(folder);
  if (card.empty()) return;
  model::DeviceReadings& readings = device.readings;
  // Since Linux 5.19, there are files for each GT (a part of the GPU). Older kernels only have the
  // files in `card`.
  const std::string gt = card + "/gt/gt0/";
  readings.clock_graphics_mhz = sysfs::either(sysfs::number(gt + "rps_cur_freq_mhz"),
                                              sysfs::number(card + "/gt_cur_freq_mhz"));
  readings.clock_graphics_max_mhz = sysfs::either(sysfs::number(gt + "rps_RP0_freq_mhz"),
                                                  sysfs::number(card + "/gt_RP0_freq_mhz"));
  if (!device.memory_unified)
    readings.memory_total_bytes = sysfs::number(card + "/lmem_total_bytes");
  read_throttling(gt + "throttle_reason_status", gt + "throttle_reason_", device);
}

void read_xe(const std::string& folder, model::Device& device) {
  model::DeviceReadings& readings = device.readings;
  const std::string frequency = folder + "/tile0/gt0/freq0/";
  readings.clock_graphics_mhz = sysfs::number(frequency + "cur_freq");
  readings.clock_graphics_max_mhz = sysfs::number(frequency + "rp0_freq");
  read_throttling(frequency + "throttle/status", frequency + "throttle/reason_", device);
  if (device.memory_unified) return;
  std::uint64_t total = 0;
  for (int tile = 0; tile < 4; ++tile) {
    const auto size =
        sysfs::number(fmt::format("{}/tile{}/physical_vram_size_bytes", folder, tile));
    if (tile == 0 && !size) readings.memory_total_bytes = size.why;
    total += size.value_or(0);
  }
  if (total != 0) readings.memory_total_bytes = total;
}

/// Reads the energy counter in microjoules. In xe, channel 1 is the whole card, and channel 2 is
/// only the package.
void read_energy(const std::string& hwmon, model::Device& device) {
  device.readings.energy_millijoules =
      sysfs::either(sysfs::scaled(hwmon + "/energy1_input", 1, 1000),
                    sysfs::scaled(hwmon + "/energy2_input", 1, 1000));
}

void read_hwmon(const std::string& hwmon, model::Device& device) {
  if (hwmon.empty()) return;
  model::DeviceReadings& readings = device.readings;
  read_energy(hwmon, device);
  if (readings.energy_millijoules) readings.power_milliwatts = Absence::kNeedsTwoReadings;
  readings.power_limit_milliwatts = sysfs::either(sysfs::scaled(hwmon + "/power1_max", 1, 1000),
                                                  sysfs::scaled(hwmon + "/power2_max", 1, 1000));
  readings.temperature_celsius =
      sysfs::either(sysfs::celsius(hwmon + "/temp2_input"), sysfs::celsius(hwmon + "/temp1_input"));
}

}  // namespace

std::vector<model::Device> read_devices(const Roots& roots,
                                        const std::vector<model::PciDevice>& pci) {
  std::vector<model::Device> devices;
  for (const model::PciDevice& card : pci) {
    if (card.vendor != 0x8086 || card.class_code >> 16 != 0x03) continue;
    model::Device device = sysfs::device_from(card);
    device.kind = model::DeviceKind::kGpu;
    device.vendor = model::Vendor::kIntel;
    device.vendor_name = "Intel";
    device.name = name_of(card);
    device.memory_unified = is_integrated(card);
    const std::string folder = sysfs::folder_of(roots, card.address);
    if (!sysfs::mark_without_driver(device, {"i915", "xe"})) {
      device.minor_number = sysfs::render_minor(folder);
      if (!card.suspended) {
        device.readings.utilization_percent = Absence::kNeedsTwoReadings;
        if (card.driver == "xe")
          read_xe(folder, device);
        else
          read_i915(folder, device);
        read_hwmon(sysfs::hwmon_of(folder), device);
      }
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

void read_load(const Roots& roots, model::Device& device) {
  const std::string hwmon = sysfs::hwmon_of(sysfs::folder_of(roots, device.pci_address));
  if (!hwmon.empty()) read_energy(hwmon, device);
}

}  // namespace berth::intel
