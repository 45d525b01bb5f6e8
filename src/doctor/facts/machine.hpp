// The machine as the kernel's files show it: PCI bus, modules, log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// A PCIe link as reported by one of its ends.
struct PciLink {
  Fact<int> width, max_width;                 // lanes
  Fact<double> gigatransfers, max_transfers;  // transfer rate in GT/s: 2.5, 5, 8, 16, 32
};

/// Error counts of a PCIe device since it was detected.
struct AerCounts {
  std::uint64_t correctable = 0;
  std::uint64_t uncorrectable = 0;  // without the errors that bus enumeration causes
};

/// A GPU, an NVSwitch or another PCI function. Members after `driver` are read only for NVIDIA and
/// AMD GPUs. For Intel GPUs, only the BARs among them are read.
struct PciFunction {
  std::string address;                                   // "0000:81:00.0"
  std::uint32_t vendor = 0, device = 0, class_code = 0;  // class_code has 24 bits: 0x030200
  Fact<std::string> driver;                              // absent: no driver is bound
  Fact<std::string> runtime_status;                      // "active", "suspended"
  Fact<std::string> power_state;                         // "D0", "D3cold"
  Fact<bool> gone;  // the configuration space reads as all ones, because the device left the bus
  /// read from the file `resource`; the index is the number of the BAR
  Fact<std::vector<std::uint64_t>> bar_starts, bar_sizes;
  PciLink link, port;        // the link as reported by the card, and by the slot
  std::string port_address;  // PCI address of the port above the GPU; "" on the root bus
  Fact<bool> aspm;           // whether power management may put the link to sleep
  Fact<AerCounts> errors, port_errors;
  Fact<std::string> iommu;  // IOMMU mode: "identity", "DMA", "DMA-FQ"; absent: no IOMMU
  Fact<int> numa_node;
  Fact<std::vector<int>> near_cpus;
  // bridges above the GPU whose ACS settings redirect peer traffic to the root complex
  Fact<std::vector<std::string>> redirecting_bridges;

  [[nodiscard]] bool is_gpu() const {
    // 0x0300 VGA, 0x0302 3D, 0x0380 other display controllers, 0x1200 accelerators
    const std::uint32_t kind = class_code >> 8;
    return kind == 0x0300 || kind == 0x0302 || kind == 0x0380 || kind == 0x1200;
  }
  [[nodiscard]] bool is_nvidia_gpu() const { return vendor == 0x10de && is_gpu(); }
  /// NVIDIA's NVSwitches have the class "other bridge". So do old chipsets, which have lower device
  /// ids.
  [[nodiscard]] bool is_nvswitch() const {
    return vendor == 0x10de && class_code >> 8 == 0x0680 && device >= 0x1ac0;
  }
  [[nodiscard]] bool is_asleep() const {
    return runtime_status.value_or("") == "suspended" || power_state.value_or("") == "D3cold";
  }
};

/// A process that hangs in the kernel and cannot be killed (state D), or a zombie (state Z). The
/// kernel has not freed its resources.
struct StuckProcess {
  int pid = 0, parent = 0;
  char state = 'D';
  std::string name;
  // a GPU node that the process or one of its threads has open: "/dev/nvidia0"; empty if not seen
  std::string node;
  bool unknown = false;  // the open files of the process could not be read
};

/// The content of /etc/os-release. The distribution determines the commands that fixes suggest.
struct OsRelease {
  std::string id;                 // "rocky"
  std::vector<std::string> like;  // similar distributions: "rhel", "centos", "fedora"
  std::string version;            // "9.4"; empty for a rolling release
  std::string name;               // "Rocky Linux 9.4 (Blue Onyx)"
  bool is_image = false;  // the system uses rpm-ostree: a base image with packages layered on it
};

/// A device that is slower than before, or than other devices with the same name, in the newest
/// results of `berth bench --keep`.
struct SlowDevice {
  /// `name` is "NVIDIA L4". `id` is the uuid; without a uuid, the PCI address or the name.
  std::string name, id;
  std::string file;                // path of the file with the results
  std::vector<std::string> cases;  // translated sentences: one for each slower result
};

struct MachineFacts {
  Fact<std::string> kernel;  // "6.8.0-45-generic"
  Fact<OsRelease> system;    // distribution; absent if unknown
  Fact<std::vector<PciFunction>> pci;
  Fact<std::vector<std::string>> modules;  // loaded modules, as in /proc/modules
  /// Lines of the kernel log about GPUs, their bus, or sleep; oldest first. Only the newest 4 MiB
  /// of the log are searched.
  Fact<std::vector<std::string>> kernel_log;
  Fact<std::vector<std::string>> processes;  // names (comm) of visible processes
  Fact<std::vector<StuckProcess>> stuck;     // read only if NVIDIA's driver is loaded
  Fact<bool> secure_boot;                    // whether Secure Boot is on; absent: no UEFI
  Fact<std::int64_t> started;                // boot time, in seconds since 1970
  Fact<int> suspends;  // number of suspends since boot; absent: the kernel has no counter
  Fact<std::string> machine_maker;  // vendor name from DMI: "Microsoft Corporation"
  Fact<std::string> machine_kind;  // product name from DMI: "KVM", "PowerEdge R750"; absent: no DMI
  Fact<std::string> host_name_address;  // address of the host name in /etc/hosts
  Fact<std::string> host_name;
  Fact<std::string> tegra;  // the chip of a Jetson, "tegra234"; absent: none or unknown
  Fact<int> l4t;            // major version of Jetson Linux; 36 in JetPack 6
  /// Unauthorized Thunderbolt and USB4 devices: "Razer Core X". A GPU inside such a device appears
  /// on no bus.
  Fact<std::vector<std::string>> locked_out;
  Fact<std::uint64_t> memory_bytes;  // MemTotal
  // all ASPM policies, the active one in brackets: "[default] performance powersave"
  Fact<std::string> aspm_policy;
  Fact<bool> on_battery;            // absent: the machine has no battery, or this is unknown
  Fact<std::string> power_profile;  // platform profile: "low-power", "balanced", "performance"
  /// Path of a firmware setting that turns the discrete GPU off; absent: no such setting is active.
  Fact<std::string> switched_off;
  Fact<std::string> sbsa_source;  // on a Jetson: an apt source file with CUDA for Arm servers
  /// A Jetson's current power mode, and the mode that has full power: "15W", "MAXN".
  Fact<std::string> jetson_mode, jetson_full_mode;
  Fact<std::vector<SlowDevice>> slow_devices;
  bool is_wsl = false, is_jetson = false, is_virtual = false, is_laptop = false;
  bool in_container = false;

  [[nodiscard]] Fact<bool> has_module(std::string_view name) const;
};

}  // namespace berth::doctor
