// What the kernel shows of the machine: its bus, modules, log. From files alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// A PCIe link as one of its ends sees it.
struct PciLink {
  Fact<int> width, max_width;                 // lanes
  Fact<double> gigatransfers, max_transfers;  // GT/s: 2.5, 5, 8, 16, 32
};

/// Errors that a PCIe device has reported since it was found.
struct AerCounts {
  std::uint64_t correctable = 0;
  std::uint64_t uncorrectable = 0;  // without those that a mere look at the bus causes
};

/// One GPU, NVSwitch or other function on the PCI bus. What follows `driver` is read for NVIDIA's
/// and AMD's GPUs only, and of Intel's the BARs.
struct PciFunction {
  std::string address;                                     // "0000:81:00.0"
  std::uint32_t vendor = 0, device = 0, class_code = 0;    // class: 24 bits, 0x030200
  Fact<std::string> driver;                                // absent: none is bound
  Fact<std::string> runtime_status;                        // "active", "suspended"
  Fact<std::string> power_state;                           // "D0", "D3cold"
  Fact<bool> gone;                                         // its configuration space reads as ones
  Fact<std::vector<std::uint64_t>> bar_starts, bar_sizes;  // lines of `resource`
  PciLink link, port;                                      // the card's end, the slot's end
  std::string port_address;                                // "" on the root bus
  Fact<bool> aspm;                                         // its link may sleep while it works
  Fact<AerCounts> errors, port_errors;
  Fact<std::string> iommu;  // "identity", "DMA", "DMA-FQ"; absent: no IOMMU
  Fact<int> numa_node;
  Fact<std::vector<int>> near_cpus;
  Fact<std::vector<std::string>>
      redirecting_bridges;  // above it, where ACS sends peers to the root

  [[nodiscard]] bool is_gpu() const {
    // 0300 VGA, 0302 3D, 0380 other display controllers, 1200 accelerators
    const std::uint32_t kind = class_code >> 8;
    return kind == 0x0300 || kind == 0x0302 || kind == 0x0380 || kind == 0x1200;
  }
  [[nodiscard]] bool is_nvidia_gpu() const { return vendor == 0x10de && is_gpu(); }
  /// "Other bridge" of NVIDIA is also what its old chipsets called their network: newer ids only.
  [[nodiscard]] bool is_nvswitch() const {
    return vendor == 0x10de && class_code >> 8 == 0x0680 && device >= 0x1ac0;
  }
  [[nodiscard]] bool is_asleep() const {
    return runtime_status.value_or("") == "suspended" || power_state.value_or("") == "D3cold";
  }
};

/// A process that waits in the kernel and cannot be ended (D), or has ended and its parent has not
/// asked how (Z). What it holds stays held.
struct StuckProcess {
  int pid = 0, parent = 0;
  char state = 'D';
  std::string name;
  std::string node;      // "/dev/nvidia0", which it or a thread of it has open; "" none was seen
  bool unknown = false;  // its open files could not be looked at
};

/// /etc/os-release: which distribution it is, and so by which commands it is mended.
struct OsRelease {
  std::string id;                 // "rocky"
  std::vector<std::string> like;  // "rhel", "centos", "fedora"
  std::string version;            // "9.4"; "" a rolling one
  std::string name;               // "Rocky Linux 9.4 (Blue Onyx)"
  bool is_image = false;          // rpm-ostree: packages are layered on it
};

struct MachineFacts {
  Fact<std::string> kernel;  // "6.8.0-45-generic"
  Fact<OsRelease> system;    // absent: it does not say
  Fact<std::vector<PciFunction>> pci;
  Fact<std::vector<std::string>> modules;  // loaded ones, as in /proc/modules
  /// Those of the newest 4 MiB that speak of GPUs, their bus, or sleep; oldest first.
  Fact<std::vector<std::string>> kernel_log;
  Fact<std::vector<std::string>> processes;  // names (comm) of those that can be seen
  Fact<std::vector<StuckProcess>> stuck;     // where NVIDIA's driver is
  Fact<bool> secure_boot;                    // absent: no UEFI
  Fact<std::int64_t> started;                // the kernel, in seconds since 1970
  Fact<int> suspends;                        // since boot; absent: the kernel does not count
  Fact<std::string> machine_maker;           // DMI: "Microsoft Corporation"
  Fact<std::string> machine_kind;            // DMI: "KVM", "PowerEdge R750"; absent: no DMI
  Fact<std::string> host_name_address;       // what /etc/hosts says of it
  Fact<std::string> host_name;
  Fact<std::string> tegra;  // a Jetson's chip, "tegra234"; absent: none, or it does not tell
  Fact<int> l4t;            // of JetPack 6: 36
  /// Boxes at Thunderbolt and USB4 that nobody has let in: "Razer Core X". What is in them is on no
  /// bus.
  Fact<std::vector<std::string>> locked_out;
  Fact<std::uint64_t> memory_bytes;  // MemTotal
  Fact<std::string> aspm_policy;     // "[default] performance powersave powersupersave"
  Fact<bool> on_battery;             // absent: it has none, or does not tell
  Fact<std::string> power_profile;   // of the firmware: "low-power", "balanced", "performance"
  /// A switch of the firmware's that stands on "off" for the GPU beside the processor's.
  Fact<std::string> switched_off;
  Fact<std::string> sbsa_source;  // of a Jetson: a file of apt's with CUDA for servers
  /// Of a Jetson the mode it is in and the one with all its power: "15W", "MAXN".
  Fact<std::string> jetson_mode, jetson_full_mode;
  bool is_wsl = false, is_jetson = false, is_virtual = false, is_laptop = false;
  bool in_container = false;

  [[nodiscard]] Fact<bool> has_module(std::string_view name) const;
};

[[nodiscard]] MachineFacts collect_machine(const Tree& tree, const Fact<std::string>& kernel_log);
[[nodiscard]] Fact<std::vector<PciFunction>> collect_pci(const Tree& tree);
[[nodiscard]] Fact<std::vector<StuckProcess>> collect_stuck(const Tree& tree);

}  // namespace berth::doctor
