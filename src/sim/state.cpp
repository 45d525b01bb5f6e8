#include "sim/state.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/fnv1a.hpp"
#include "base/text.hpp"
#include "sim/machine_check.hpp"
#include "wire/sim_load.hpp"

namespace berth::sim {
namespace {

namespace wire = berth::wire::sim;

template <std::size_t N>
void copy_text(char (&into)[N], std::string_view from) {
  const std::size_t n = std::min(from.size(), N - 1);
  std::memcpy(into, from.data(), n);
  into[n] = '\0';
}

std::uint32_t u32(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

/// The entry for device i in a list that has one entry for all devices or one for each.
template <typename T>
T each(const std::vector<T>& list, std::size_t i, T otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : list[i];
}

void put_power_and_clocks(const MachineDevices& d, wire::Device& out) {
  out.power_limit = u32(d.power_limit_watts * 1000);
  out.power_limit_default =
      u32((d.power_default_watts > 0 ? d.power_default_watts : d.power_limit_watts) * 1000);
  out.clock_application = u32(d.clock_application_mhz);
  out.power_limit_min = u32(d.power_min_watts * 1000);
  out.power_limit_max = u32(d.power_max_watts * 1000);
  out.power_idle = u32(d.power_idle_watts * 1000);
  out.clock_graphics_idle = u32(d.clock_graphics_idle_mhz);
  out.clock_graphics_max = u32(d.clock_graphics_mhz);
  out.clock_memory_idle = u32(d.clock_memory_idle_mhz);
  out.clock_memory_max = u32(d.clock_memory_mhz);
  out.clock_video_max = u32(d.clock_video_mhz);
  out.temperature_idle = u32(d.temperature_idle);
  out.temperature_busy = u32(d.temperature_busy);
  out.temperature_slowdown = u32(d.temperature_slowdown);
  out.temperature_shutdown = u32(d.temperature_shutdown);
  out.fans = u32(d.fans);
  // Idle GeForce boards are in performance state P8, and computing ones in P2. Data-centre boards
  // stay in P0.
  const bool geforce = d.brand == "geforce" || d.brand == "titan";
  out.performance_idle = geforce ? 8 : 0;
  out.performance_busy = geforce ? 2 : 0;
}

void put_bus(const MachineDevices& d, std::size_t i, wire::Device& out) {
  const PciAddress address = parse_pci_address(d.pci[i]).value_or(PciAddress{});
  out.pci_domain = address.domain;
  out.pci_bus = address.bus;
  out.pci_slot = address.slot;
  out.pci_id = parse_pci_id(d.pci_id).value_or(0);
  out.pci_subsystem = parse_pci_id(d.pci_subsystem).value_or(out.pci_id);
  out.pci_class = parse_pci_class(d.pci_class).value_or(0);
  out.numa_node = static_cast<std::int32_t>(each<std::int64_t>(d.numa, i, -1));
  copy_text(out.local_cpus, each<std::string>(d.local_cpus, i, ""));
  copy_text(out.pci_path, each<std::string>(d.pci_path, i, ""));
  out.nvlink_to = static_cast<std::int32_t>(each<std::int64_t>(d.nvlink_to, i, -1));
  out.pcie_generation_idle = u32(d.pcie_generation_idle);
  out.pcie_generation_max = u32(d.pcie_generation);
  out.pcie_width = u32(d.pcie_width_now);
  out.pcie_width_max = u32(d.pcie_width);
  out.on_bus = d.on_bus ? 1 : 0;
}

void put_identity(const Machine& machine, const MachineDevices& d, std::uint32_t number,
                  wire::Device& out) {
  const std::uint64_t hash = wire::mix(fnv1a(machine.name), 1000 + number);
  out.vendor = d.vendor == "amd" ? wire::kAmd : d.vendor == "intel" ? wire::kIntel : wire::kNvidia;
  copy_text(out.name, d.name);
  copy_text(out.uuid, uuid_of("GPU-", machine.name, number));
  copy_text(out.serial, fmt::format("{:013}", 1'320'000'000'000 + hash % 1'000'000'000));
  copy_text(out.vbios, fmt::format("9{}.{:02X}.{:02X}.00.{:02X}", hash % 8, hash >> 8U & 0xff,
                                   hash >> 16U & 0xff, hash >> 24U & 0xff));
  copy_text(out.part_number, fmt::format("900-2{:04}-0000-000", hash >> 32U & 0x7ff));
  copy_text(out.kernel_driver, d.kernel_driver);
  copy_text(out.architecture_name, d.architecture);
  out.architecture = nvidia_architecture(d.architecture).value_or(wire::kNone);
  const auto dot = d.compute_capability.find('.');
  if (dot != std::string::npos) {
    out.capability_major = u32(std::atoi(d.compute_capability.c_str()));
    out.capability_minor = u32(std::atoi(d.compute_capability.c_str() + dot + 1));
  }
  out.brand = brand_of(d.brand).value_or(0);
  out.minor = number;
  out.energy_base = hash % 1'000'000'000'000;
}

wire::Device device_of(const Machine& machine, const MachineDevices& d, std::size_t i,
                       std::uint32_t number) {
  wire::Device out{};
  put_identity(machine, d, number, out);
  put_bus(d, i, out);
  put_power_and_clocks(d, out);
  out.memory_total = d.memory_bytes;
  out.memory_reserved = d.memory_reserved_bytes;
  out.bar1_total = d.bar1_bytes;
  out.bar1_used = std::min<std::uint64_t>(d.bar1_bytes, 2U << 20U);
  for (const std::string& name : d.unsupported)
    out.unsupported |= std::uint64_t{1} << ability_of(name).value_or(63);
  out.ecc = d.ecc ? 1 : 0;
  out.persistence = d.persistence ? 1 : 0;
  out.compute_mode = compute_mode_of(d.compute_mode).value_or(0);
  out.mig_enabled = d.mig.empty() && !d.mig_enabled ? 0 : 1;
  out.mig_capable = d.mig_capable ? 1 : 0;
  out.display_active = d.display ? 1 : 0;
  out.fabric = d.fabric == "completed"     ? 3
               : d.fabric == "in progress" ? 2
               : d.fabric == "not started" ? 1
                                           : 0;
  out.vgpu = d.vgpu_licence == "licensed" ? 1 : d.vgpu_licence == "unlicensed" ? 2 : 0;
  out.retired_pending = d.retired_pages_pending ? 1 : 0;
  out.no_peer_access = d.peer_access ? 0 : 1;
  out.asleep = d.asleep ? 1 : 0;
  out.unified = d.unified ? 1 : 0;
  out.nvlinks = u32(d.nvlinks);
  out.cores = u32(d.cores);
  out.multiprocessors = u32(d.multiprocessors);
  out.memory_bus_width = u32(d.memory_bus_width);
  out.base_load = u32(d.load_percent);
  return out;
}

/// The next free id of a GPU instance, as the driver assigns ids. Ids start at 0 for instances with
/// 5 or more slices, at 1 for 3 or 4 slices, at 3 for 2 slices, and at 7 for 1 slice. (Seen in the
/// output of `nvidia-smi -L` and `nvidia-smi mig -lgi` on A100 and H100.)
std::uint32_t next_instance(std::uint32_t slices, std::vector<std::uint32_t>& given) {
  std::uint32_t id = slices >= 5 ? 0 : slices >= 3 ? 1 : slices == 2 ? 3 : 7;
  while (std::find(given.begin(), given.end(), id) != given.end()) ++id;
  given.push_back(id);
  return id;
}

void add_partitions(const Machine& machine, const MachineDevices& d, std::uint32_t number,
                    wire::Device& device, std::vector<wire::Partition>& all) {
  device.partition_first = u32(static_cast<std::int64_t>(all.size()));
  device.partition_count = u32(static_cast<std::int64_t>(d.mig.size()));
  std::vector<std::uint32_t> instances;
  for (std::size_t p = 0; p < d.mig.size(); ++p) {
    wire::Partition out{};
    out.memory_total = d.mig[p].memory_bytes;
    out.device = number;
    out.slices = out.compute_slices = slices_of(d.mig[p].profile).value_or(1);
    out.gpu_instance = next_instance(out.slices, instances);
    out.multiprocessors = device.multiprocessors / 8 * out.slices;
    copy_text(out.uuid, uuid_of("MIG-", machine.name, 0x1000 + number * 16 + p));
    copy_text(out.profile, d.mig[p].profile);
    all.push_back(out);
  }
}

void add_profiles(const MachineDevices& d, wire::Device& device,
                  std::vector<wire::MigProfile>& all) {
  device.profile_first = u32(static_cast<std::int64_t>(all.size()));
  device.profile_count = u32(static_cast<std::int64_t>(d.mig_profiles.size()));
  for (const MachineMigProfile& one : d.mig_profiles) {
    wire::MigProfile out{};
    out.memory = one.memory_bytes;
    out.number = u32(one.number);
    out.id = u32(one.id);
    out.slices = slices_of(one.profile).value_or(1);
    out.multiprocessors = u32(one.multiprocessors);
    out.size = u32(one.size);
    for (const std::int64_t start : one.starts) out.start[out.starts++] = u32(start);
    copy_text(out.name, one.profile);
    all.push_back(out);
  }
}

/// Sets the index that the driver gives each device. Drivers number the devices of their vendor by
/// PCI address.
void number_devices(std::vector<wire::Device>& devices) {
  const auto key = [](const wire::Device& d) {
    return std::uint64_t{d.vendor} << 48U | std::uint64_t{d.pci_domain} << 16U | d.pci_bus << 8U |
           d.pci_slot;
  };
  for (wire::Device& device : devices)
    device.vendor_index = device.minor =
        u32(std::count_if(devices.begin(), devices.end(), [&](const wire::Device& other) {
          return other.vendor == device.vendor && key(other) < key(device);
        }));
}

wire::Process process_of(const Planned& planned) {
  wire::Process out{};
  out.memory = planned.memory_bytes;
  out.memory_swing = planned.swing_bytes;
  out.pid = planned.pid;
  out.device = planned.device;
  out.partition = planned.partition;
  out.use = planned.use;
  out.activity = planned.activity;
  out.foreign = planned.foreign ? 1 : 0;
  copy_text(out.command, planned.command);
  return out;
}

void put_driver(const Machine& machine, wire::State& state) {
  state.process_record_bytes = 24;
  if (!machine.driver) return;
  const DriverVersion version =
      parse_driver_version(machine.driver->version).value_or(DriverVersion{});
  state.driver_present = 1;
  state.driver_major = version.major;
  state.driver_minor = version.minor;
  state.driver_patch = version.patch;
  state.confidential = machine.driver->confidential == "ready"       ? 2
                       : machine.driver->confidential == "not ready" ? 1
                                                                     : 0;
  state.cuda_version = parse_cuda_version(machine.driver->cuda).value_or(0);
  state.init_time = machine.driver->init_ms * wire::kMillisecond;
  state.pcie_window = machine.driver->pcie_window_ms * wire::kMillisecond;
  copy_text(state.driver_version, machine.driver->version);
  copy_text(state.nvml_version,
            fmt::format("{}.{}", state.cuda_version / 1000, machine.driver->version));
  // Drivers 535.43 to 535.86 wrote longer records, although the function had the same name (nvitop
  // issue 79).
  if (version.major == 535 && version.minor >= 43 && version.minor < 86)
    state.process_record_bytes = 32;
}

template <typename T>
std::uint32_t append(std::string& bytes, const std::vector<T>& list) {
  const auto at = u32(static_cast<std::int64_t>(bytes.size()));
  bytes.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
  return at;
}

}  // namespace

std::string uuid_of(std::string_view prefix, std::string_view machine, std::uint64_t number) {
  const std::uint64_t a = wire::mix(fnv1a(machine), number), b = wire::mix(a, number);
  return fmt::format("{}{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", prefix, a >> 32U, a >> 16U & 0xffff,
                     a & 0xfff, 0x8000 | (b >> 48U & 0x3fff), b & 0xffffffffffff);
}

std::string build_state(const Machine& machine, const Options& options,
                        const std::vector<Planned>& processes, const Clocks& clocks,
                        std::uint32_t functions) {
  std::vector<wire::Device> devices;
  std::vector<wire::Partition> partitions;
  std::vector<wire::MigProfile> profiles;
  for (const MachineDevices& group : machine.groups) {
    for (std::size_t i = 0; i < group.pci.size(); ++i) {
      const auto number = u32(static_cast<std::int64_t>(devices.size()));
      devices.push_back(device_of(machine, group, i, number));
      add_partitions(machine, group, number, devices.back(), partitions);
      add_profiles(group, devices.back(), profiles);
    }
  }
  number_devices(devices);
  std::vector<wire::Process> all;
  for (const Planned& planned : processes) {
    wire::Device& device = devices[planned.device];
    if (device.process_count++ == 0)
      device.process_first = u32(static_cast<std::int64_t>(all.size()));
    all.push_back(process_of(planned));
  }
  std::vector<wire::Fault> faults;
  for (const Fault& fault : options.faults)
    faults.push_back({fault.kind, fault.device.value_or(wire::kNone), fault.from_ns, fault.value});

  wire::State state{};
  state.magic = wire::kStateMagic;
  state.version = wire::kVersion;
  state.header_bytes = sizeof(state);
  state.seed = options.seed;
  state.start_monotonic = clocks.monotonic_ns;
  state.start_unix_us = clocks.unix_us;
  state.frozen = options.at_ns ? static_cast<std::int64_t>(*options.at_ns) : -1;
  state.functions = functions;
  copy_text(state.machine, machine.name);
  put_driver(machine, state);
  std::string bytes(sizeof(state), '\0');
  state.devices_at = append(bytes, devices);
  state.partitions_at = append(bytes, partitions);
  state.processes_at = append(bytes, all);
  state.faults_at = append(bytes, faults);
  state.profiles_at = append(bytes, profiles);
  state.devices = u32(static_cast<std::int64_t>(devices.size()));
  state.partitions = u32(static_cast<std::int64_t>(partitions.size()));
  state.processes = u32(static_cast<std::int64_t>(all.size()));
  state.faults = u32(static_cast<std::int64_t>(faults.size()));
  state.profiles = u32(static_cast<std::int64_t>(profiles.size()));
  state.total_bytes = bytes.size();
  std::memcpy(bytes.data(), &state, sizeof(state));
  return bytes;
}

}  // namespace berth::sim
