// PciDevice: one PCI device as sysfs shows it. It is declared here and not in `system`, because the
// code for each vendor uses it and may not include `system`. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace berth::model {

struct PciDevice {
  std::string address;  // "0000:81:00.0", lower case
  std::string path;     // the bridges above the device, as in Device::pci_path
  std::uint16_t vendor = 0, device = 0, subsystem_vendor = 0, subsystem_device = 0;
  std::optional<std::uint8_t> revision;  // read only where it distinguishes products (AMD)
  // PCI class: 0x030000 VGA, 0x030200 3D, 0x038000 display, 0x120000 processing accelerator
  std::uint32_t class_code = 0;
  std::string driver;      // name of the kernel driver that is bound to the device; "" if none is
  bool suspended = false;  // asleep: power/runtime_status is "suspended", or power_state is D3cold
  std::optional<int> numa_node;  // nullopt if the kernel reports -1
  std::string local_cpus;        // nearest CPUs, from local_cpulist; "" if unknown
  // From current_link_speed: "16.0 GT/s PCIe" gives 16.0. Absent for a suspended device, because
  // reading the file would wake it.
  std::optional<double> link_speed_gts, link_speed_max_gts;
  std::optional<int> link_width, link_width_max;
  std::string name;  // name from the built-in table of PCI ids: "Radeon RX 7900 XTX"; "" if unknown

  /// The PCI id as in Device::pci_id: vendor << 16 | device.
  [[nodiscard]] std::uint32_t id() const { return std::uint32_t{vendor} << 16 | device; }
};

/// PCIe generation of a link speed: 2.5 → 1, 5 → 2, 8 → 3, 16 → 4, 32 → 5, 64 → 6; nullopt for
/// others.
[[nodiscard]] std::optional<int> pcie_generation(double gts);

}  // namespace berth::model
