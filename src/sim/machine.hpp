// A machine file (docs/simulator.md): read once and checked strictly, so that a typing error causes
// a message with a line number instead of a different machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::sim {

struct MachineDriver {
  std::string version;                // "580.95.05"
  std::string cuda;                   // "13.0"
  std::uint64_t init_ms = 0;          // duration of nvmlInit
  std::uint64_t pcie_window_ms = 20;  // duration of nvmlDeviceGetPcieThroughput
  std::string confidential;  // state of confidential computing: "ready" or "not ready"; "": off
};

struct MachinePartition {
  std::string profile;  // "3g.40gb"
  std::uint64_t memory_bytes = 0;
};

/// A profile of the MIG partitions that can be made on a device.
struct MachineMigProfile {
  std::string profile;  // "1g.10gb"
  std::int64_t number = 0, id = 0, multiprocessors = 0, size = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<std::int64_t> starts;
};

/// One or more devices that differ only in address and location. `pci` has one address for each.
struct MachineDevices {
  std::string vendor = "nvidia", name, architecture, compute_capability, brand, kernel_driver,
              compute_mode = "default";
  std::string pci_id, pci_subsystem, pci_class = "3d";
  std::vector<std::string> pci;
  // Bridges above the device: one entry for all devices or one for each; empty: unknown.
  std::vector<std::string> pci_path;
  // NUMA node: one entry for all devices or one for each; empty: unknown.
  std::vector<std::int64_t> numa;
  // CPUs near the device: one entry for all devices or one for each; empty: unknown.
  std::vector<std::string> local_cpus;
  std::uint64_t memory_bytes = 0, memory_reserved_bytes = 0, bar1_bytes = 256U << 20U;
  std::int64_t power_limit_watts = 0, power_min_watts = 0, power_max_watts = 0,
               power_idle_watts = 0, power_default_watts = 0;
  std::int64_t clock_graphics_mhz = 0, clock_graphics_idle_mhz = 210, clock_memory_mhz = 0,
               clock_memory_idle_mhz = 405, clock_video_mhz = 0, clock_application_mhz = 0;
  std::int64_t temperature_idle = 30, temperature_busy = 70, temperature_slowdown = 90,
               temperature_shutdown = 95;
  std::int64_t fans = 0, pcie_generation = 4, pcie_generation_idle = 0, pcie_width = 16,
               pcie_width_now = 0;
  std::int64_t nvlinks = 0, cores = 0, multiprocessors = 0, memory_bus_width = 0, load_percent = 0;
  /// The device at the other end of each NVLink: one entry for all devices, or one for each device.
  /// Empty: the links lead to NVSwitches.
  std::vector<std::int64_t> nvlink_to;
  bool ecc = false, persistence = false, mig_capable = false, display = false, asleep = false,
       on_bus = true, unified = false, mig_enabled = false, retired_pages_pending = false,
       peer_access = true;
  // state of the NVLink fabric: "not started", "in progress", "completed"; "": no fabric
  std::string fabric;
  // in a virtual machine's guest: "licensed", "unlicensed"; "": not a guest
  std::string vgpu_licence;
  std::vector<MachinePartition> mig;            // MIG partitions; if there are any, MIG is enabled
  std::vector<MachineMigProfile> mig_profiles;  // MIG partitions that programs can create
  std::vector<std::string>
      unsupported;  // names of values that these devices cannot report (wire/sim_state.hpp)
};

/// A process that exists during the whole simulation.
struct MachineProcess {
  std::int64_t device = 0;
  std::optional<std::int64_t> partition;
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> use = {"compute"};
  std::int64_t activity_percent = 0;
  bool foreign = false;  // true: the process is in another PID namespace
  std::string command = "python train.py";
};

struct Machine {
  std::string name, summary, note;
  std::optional<MachineDriver> driver;  // NVIDIA's driver; nullopt: not installed
  std::vector<MachineDevices> groups;
  std::vector<MachineProcess> processes;
};

/// Parses a machine file; messages name it as `origin`. Fails with kInvalidArgument (E0602:
/// malformed TOML, E0603: unknown key, E0604: wrong type, E0605: impossible value, E0606: missing
/// key).
[[nodiscard]] Result<Machine> parse_machine(std::string_view document, const std::string& origin);

/// A machine file that is inside the program.
struct BuiltIn {
  std::string_view name, text;
};
[[nodiscard]] const std::vector<BuiltIn>& built_in_machines();
/// Loads a built-in machine, or a file if the name contains '/' or ends in ".toml". Fails with
/// E0601 (unknown) or as parse_machine().
[[nodiscard]] Result<Machine> load_machine(const std::string& name_or_file);

}  // namespace berth::sim
