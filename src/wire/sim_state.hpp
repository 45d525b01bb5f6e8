// The simulated machine as bytes. `berth sim` writes them once to BERTH_SIM_DIR/state, and the
// simulated driver maps them. The driver is loaded into other programs, so this file needs no
// libstdc++. Only BERTH_SIM_DIR/shared is written later: counts of calls, wake-ups, and ended
// processes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::wire::sim {

inline constexpr std::uint64_t kStateMagic = 0x4d49534854524542;   // "BERTHSIM"
inline constexpr std::uint64_t kSharedMagic = 0x4e554f4348545242;  // "BRTHCOUN"
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::uint32_t kMaxDevices = 64, kMaxPartitions = 512, kMaxProcesses = 4096,
                               kMaxFaults = 64, kMaxFunctions = 1024, kMaxMigProfiles = 1024;
inline constexpr std::uint32_t kNone = 0xffffffff;

enum Vendor : std::uint32_t { kNvidia = 0, kAmd = 1, kIntel = 2 };

/// Readings that a device does not support: bits of Device::unsupported. The names are those in
/// `unsupported` of a machine file.
// clang-format off
#define BERTH_SIM_ABILITIES(ROW) \
  ROW(memory) \
  ROW(utilization) \
  ROW(temperature) \
  ROW(power) \
  ROW(clocks) \
  ROW(fan) \
  ROW(pcie) \
  ROW(energy) \
  ROW(ecc) \
  ROW(processes) \
  ROW(process_memory) \
  ROW(process_utilization) \
  ROW(encoder) \
  ROW(bar1) \
  ROW(remap) \
  ROW(throttle_reasons) \
  ROW(performance_state) \
  ROW(serial) \
  ROW(compute_mode)
// clang-format on
enum Ability : std::uint32_t {
#define BERTH_ROW(name) k_##name,
  BERTH_SIM_ABILITIES(BERTH_ROW)
#undef BERTH_ROW
      kAbilities
};

enum Use : std::uint32_t { kCompute = 1, kGraphics = 2, kMps = 4 };

// clang-format off
#define BERTH_SIM_FAULTS(ROW) \
  ROW(kLost, "lost") \
  ROW(kHung, "hung") \
  ROW(kSlow, "slow") \
  ROW(kXid, "xid") \
  ROW(kEcc, "ecc") \
  ROW(kRemap, "remap") \
  ROW(kThrottle, "throttle") \
  ROW(kMismatch, "mismatch") \
  ROW(kNoPermission, "no-permission") \
  ROW(kNoDriver, "no-driver") \
  ROW(kZombie, "zombie") \
  ROW(kMig, "mig")
// clang-format on
enum FaultKind : std::uint32_t {
#define BERTH_ROW(name, word) name,
  BERTH_SIM_FAULTS(BERTH_ROW)
#undef BERTH_ROW
      kFaultKinds
};
/// Values of Fault::value for kRemap. Other values are the number of remapped rows.
inline constexpr std::uint64_t kRemapPending = ~std::uint64_t{0}, kRemapFailed = ~std::uint64_t{1};
/// Value of Fault::value for kHung: the functions that find and identify devices hang, too.
inline constexpr std::uint64_t kHungAll = 1;
/// Value of Fault::value for kNoPermission: only the memory of whole devices can be read, as in a
/// container with a MIG GPU.
inline constexpr std::uint64_t kNoPermissionMemory = 1;

/// Values of Fault::value for kMig: MIG partitions cannot be made, or they cannot be removed.
inline constexpr std::uint64_t kMigMake = 1, kMigRemove = 2;

struct Device {
  std::uint64_t memory_total, memory_reserved;  // bytes
  std::uint64_t bar1_total, bar1_used;          // bytes
  std::uint64_t unsupported;                    // bits of enum Ability
  std::uint64_t energy_base;  // initial value of the energy counter in millijoules
  std::uint32_t vendor;
  std::uint32_t pci_domain, pci_bus, pci_slot;
  std::uint32_t pci_id, pci_subsystem;  // the PCI ids as NVML returns them: device << 16 | vendor
  std::uint32_t pci_class;              // 0x030200
  std::uint32_t minor, architecture, capability_major, capability_minor, brand;
  // all in milliwatts
  std::uint32_t power_limit, power_limit_default, power_limit_min, power_limit_max;
  std::uint32_t power_idle;
  std::uint32_t clock_graphics_idle, clock_graphics_max, clock_memory_idle,
      clock_memory_max;  // MHz
  std::uint32_t clock_video_max;
  std::uint32_t temperature_idle, temperature_busy, temperature_slowdown, temperature_shutdown;
  std::uint32_t fans;
  std::uint32_t pcie_generation_idle, pcie_generation_max, pcie_width, pcie_width_max;
  std::int32_t numa_node;  // -1: none
  std::uint32_t ecc;       // 0 if ECC is not supported
  std::uint32_t persistence, compute_mode, mig_enabled, mig_capable, display_active;
  std::uint32_t performance_idle, performance_busy;  // P-states
  std::uint32_t asleep;   // 1 if it is runtime-suspended; any access wakes it
  std::uint32_t on_bus;   // 1 if the device is visible in sysfs
  std::uint32_t unified;  // 1 if the device uses the host's memory
  std::uint32_t nvlinks, cores, memory_bus_width, multiprocessors;
  // the driver's number for the device: position by PCI address among the vendor's devices
  std::uint32_t vendor_index;
  std::uint32_t partition_first, partition_count;
  std::uint32_t profile_first, profile_count;
  std::uint32_t process_first, process_count;
  std::uint32_t base_load;  // utilization in percent without any simulated process
  // state of the NVLink fabric as in NVML: 0 none, 1 not started, 2 in progress, 3 completed
  std::uint32_t fabric;
  std::uint32_t vgpu;  // 0: no vGPU guest; 1: guest with a licence; 2: guest without a licence
  std::uint32_t retired_pending, no_peer_access;
  std::uint32_t clock_application;  // configured clock in MHz; 0 means the default
  std::int32_t nvlink_to;  // index of the device at the other end of all NVLinks; -1 for NVSwitches
  char name[96], uuid[96];
  char serial[32], vbios[32], part_number[32], kernel_driver[16], architecture_name[32];
  char local_cpus[128];
  char pci_path[124];  // the bridges above the device: "pci0000:00/0000:00:01.0"; "" if not known
};
static_assert(offsetof(Device, vendor) == 48 && offsetof(Device, name) == 292 &&
              sizeof(Device) == 880);

struct Partition {  // a MIG partition
  std::uint64_t memory_total;
  std::uint32_t device, gpu_instance, compute_instance, slices, compute_slices, multiprocessors;
  char uuid[96], profile[32];
};
static_assert(offsetof(Partition, uuid) == 32 && sizeof(Partition) == 160);

/// A profile for MIG partitions that programs can make on a device (sim_mig.hpp). The profiles are
/// sorted by device.
struct MigProfile {
  std::uint64_t memory;
  std::uint32_t number, id;  // the constant NVML_GPU_INSTANCE_PROFILE_…, and the driver's id
  std::uint32_t slices, multiprocessors;
  // number of memory slices that it occupies, and number of positions where it can start
  std::uint32_t size, starts;
  std::uint32_t start[8];  // the first memory slice of each position
  char name[32];           // such as "1g.10gb"
};
static_assert(offsetof(MigProfile, start) == 32 && sizeof(MigProfile) == 96);

struct Process {  // the processes are sorted by device
  // bytes; the process uses between memory - memory_swing and memory
  std::uint64_t memory, memory_swing;
  std::int64_t pid;
  std::uint32_t device,
      partition;  // index of the partition on the device; kNone means the whole device
  // activity: how much of the device the process keeps busy, in percent on average
  std::uint32_t use, activity;
  // 1 if it is in another PID namespace, so that its pid is unknown in this one
  std::uint32_t foreign;
  char command[124];
};
static_assert(offsetof(Process, command) == 44 && sizeof(Process) == 168);

struct Fault {
  std::uint32_t kind, device;  // device: its index; kNone means all devices
  std::uint64_t from;  // when the fault begins: nanoseconds since the start of the simulation
  // depends on the kind: nanoseconds, bytes, a count, an Xid or clock event bits
  std::uint64_t value;
};
static_assert(sizeof(Fault) == 24);

struct State {
  std::uint64_t magic;
  std::uint32_t version, header_bytes;
  std::uint64_t total_bytes;
  std::uint64_t seed;
  std::int64_t start_monotonic;  // start of the simulation: CLOCK_MONOTONIC in nanoseconds
  std::int64_t start_unix_us;
  std::int64_t frozen;  // if not -1, the time stands still at this many nanoseconds since the start
  std::uint64_t init_time, pcie_window;  // both in nanoseconds
  std::uint32_t driver_present, driver_major, driver_minor, driver_patch, cuda_version;
  std::uint32_t process_record_bytes;  // bytes per record of the _v3 process functions: 24, or 32
                                       // in drivers 535.43 to 535.86
  std::uint32_t devices, devices_at, partitions, partitions_at;
  std::uint32_t processes, processes_at, faults, faults_at;
  std::uint32_t functions;
  // state of confidential computing: 0 off, 1 on but not ready, 2 ready
  std::uint32_t confidential;
  std::uint32_t profiles, profiles_at;
  char machine[64], driver_version[32], nvml_version[32];
};
static_assert(offsetof(State, init_time) == 56 && offsetof(State, driver_present) == 72);
static_assert(offsetof(State, machine) == 144 && sizeof(State) == 272);

/// Followed in memory by calls[functions], wakes[devices] (64 bits each) and gone[processes] (32
/// bits each). All of them must be accessed atomically.
struct Shared {
  std::uint64_t magic;
  std::uint32_t version, functions, devices, processes;
  /// The last number given to an Xid registration or to the first delivery of an Xid. The numbers
  /// tell the order of these events.
  std::uint64_t xid_order = 0;
  // for each fault, the number of its first delivery; 0 if it was not delivered
  std::uint64_t xid_taken[kMaxFaults] = {};
};
static_assert(offsetof(Shared, xid_order) == 24 && sizeof(Shared) == 32 + 8 * kMaxFaults);

constexpr std::size_t shared_bytes(std::uint32_t functions, std::uint32_t devices,
                                   std::uint32_t processes) {
  return sizeof(Shared) + 8 * (std::size_t{functions} + devices) + 4 * std::size_t{processes};
}

/// Whether `bytes` bytes contain a complete and consistent state.
inline bool valid(const State* state, std::size_t bytes) {
  if (bytes < sizeof(State) || state->magic != kStateMagic || state->version != kVersion)
    return false;
  if (state->header_bytes != sizeof(State) || state->total_bytes != bytes) return false;
  const auto fits = [bytes](std::uint32_t at, std::uint32_t count, std::size_t size,
                            std::uint32_t most) {
    return count <= most && at >= sizeof(State) && at % 8 == 0 && at + count * size <= bytes;
  };
  return fits(state->devices_at, state->devices, sizeof(Device), kMaxDevices) &&
         fits(state->partitions_at, state->partitions, sizeof(Partition), kMaxPartitions) &&
         fits(state->processes_at, state->processes, sizeof(Process), kMaxProcesses) &&
         fits(state->faults_at, state->faults, sizeof(Fault), kMaxFaults) &&
         fits(state->profiles_at, state->profiles, sizeof(MigProfile), kMaxMigProfiles);
}

/// Gives access to a state that valid() has accepted. `shared` may be nullptr.
class View {
 public:
  View() = default;
  View(const State* state, Shared* shared) : state_(state), shared_(shared) {}

  [[nodiscard]] const State& state() const { return *state_; }
  [[nodiscard]] bool empty() const { return state_ == nullptr; }
  [[nodiscard]] const Device& device(std::uint32_t i) const {
    return at<Device>(state_->devices_at)[i];
  }
  [[nodiscard]] const Partition& partition(std::uint32_t i) const {
    return at<Partition>(state_->partitions_at)[i];
  }
  [[nodiscard]] const MigProfile& profile(std::uint32_t i) const {
    return at<MigProfile>(state_->profiles_at)[i];
  }
  [[nodiscard]] const Process& process(std::uint32_t i) const {
    return at<Process>(state_->processes_at)[i];
  }
  [[nodiscard]] const Fault& fault(std::uint32_t i) const {
    return at<Fault>(state_->faults_at)[i];
  }

  /// The writable call counter of a function; nullptr if there is no shared memory.
  [[nodiscard]] std::uint64_t* calls(std::uint32_t function) const {
    return words() == nullptr ? nullptr : words() + function;
  }
  [[nodiscard]] std::uint64_t* wakes(std::uint32_t device) const {
    return words() == nullptr ? nullptr : words() + shared_->functions + device;
  }
  [[nodiscard]] std::uint32_t* gone(std::uint32_t process) const {
    if (shared_ == nullptr) return nullptr;
    return reinterpret_cast<std::uint32_t*>(words() + shared_->functions + shared_->devices) +
           process;
  }
  [[nodiscard]] Shared* shared() const { return shared_; }
  [[nodiscard]] bool is_gone(std::uint32_t process) const {
    const std::uint32_t* word = gone(process);
    return word != nullptr && __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
  }

 private:
  template <typename T>
  [[nodiscard]] const T* at(std::uint32_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(state_) + offset);
  }
  [[nodiscard]] std::uint64_t* words() const {
    return shared_ == nullptr ? nullptr : reinterpret_cast<std::uint64_t*>(shared_ + 1);
  }
  const State* state_ = nullptr;
  Shared* shared_ = nullptr;
};

}  // namespace berth::wire::sim
