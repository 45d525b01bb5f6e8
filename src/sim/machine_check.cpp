#include "sim/machine_check.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "model/cpu_list.hpp"
#include "wire/sim_state.hpp"

namespace berth::sim {
namespace {

namespace wire = berth::wire::sim;

struct Word {
  std::string_view name;
  std::uint32_t number;
};

template <std::size_t N>
std::optional<std::uint32_t> number_of(const std::array<Word, N>& words, std::string_view name) {
  for (const Word& word : words)
    if (word.name == name) return word.number;
  return std::nullopt;
}

// NVML's numbers: NVML_DEVICE_ARCH_*, nvmlComputeMode_t, nvmlBrandType_t (nvml.h, API version 13).
constexpr std::array<Word, 9> kArchitectures{{{"kepler", 2},
                                              {"maxwell", 3},
                                              {"pascal", 4},
                                              {"volta", 5},
                                              {"turing", 6},
                                              {"ampere", 7},
                                              {"ada", 8},
                                              {"hopper", 9},
                                              {"blackwell", 10}}};
constexpr std::array<Word, 3> kComputeModes{
    {{"default", 0}, {"prohibited", 2}, {"exclusive process", 3}}};
constexpr std::array<Word, 6> kBrands{{{"quadro", 1},
                                       {"tesla", 2},
                                       {"geforce", 5},
                                       {"titan", 6},
                                       {"nvidia rtx", 13},
                                       {"nvidia", 14}}};
constexpr std::array<Word, 4> kClasses{
    {{"vga", 0x030000}, {"3d", 0x030200}, {"display", 0x038000}, {"accelerator", 0x120000}}};
constexpr std::array<Word, 3> kUses{
    {{"compute", wire::kCompute}, {"graphics", wire::kGraphics}, {"mps", wire::kMps}}};
constexpr std::array<Word, wire::kAbilities> kAbilities{{
#define BERTH_ROW(name) {#name, wire::k_##name},
    BERTH_SIM_ABILITIES(BERTH_ROW)
#undef BERTH_ROW
}};

/// Parses `text`, which must be a number with at most `digits` digits in that base.
std::optional<std::uint32_t> whole(std::string_view text, int base, std::size_t digits) {
  std::uint32_t value = 0;
  if (text.empty() || text.size() > digits) return std::nullopt;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> identity_problem(const MachineDevices& d) {
  if (d.vendor != "nvidia" && d.vendor != "amd" && d.vendor != "intel")
    return text("vendor '{}' is not one of {}", d.vendor, "nvidia, amd, intel");
  if (d.name.empty()) return text("'{}' is missing", "name");
  // A folder gets this name, so only allow characters that are safe in a path.
  if (d.kernel_driver.size() > 15 ||
      d.kernel_driver.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") !=
          std::string::npos)
    return text("kernel_driver '{}' is not a name of a module", d.kernel_driver);
  if (d.architecture.size() > 31) return text("architecture '{}' is not known", d.architecture);
  if (!parse_pci_id(d.pci_id)) return text("'{}' is not a PCI id such as 10de:2330", d.pci_id);
  if (!d.pci_subsystem.empty() && !parse_pci_id(d.pci_subsystem))
    return text("'{}' is not a PCI id such as 10de:2330", d.pci_subsystem);
  if (!parse_pci_class(d.pci_class))
    return text("pci_class '{}' is not one of {}", d.pci_class, "vga, 3d, display, accelerator");
  if (d.vendor != "nvidia") return std::nullopt;
  if (!nvidia_architecture(d.architecture))
    return text("architecture '{}' is not known", d.architecture);
  if (!brand_of(d.brand)) return text("brand '{}' is not known", d.brand);
  if (!compute_mode_of(d.compute_mode))
    return text("compute_mode '{}' is not one of {}", d.compute_mode,
                "default, prohibited, exclusive process");
  const auto dot = d.compute_capability.find('.');
  if (dot == std::string::npos || !whole(d.compute_capability.substr(0, dot), 10, 2) ||
      !whole(d.compute_capability.substr(dot + 1), 10, 1))
    return text("compute_capability '{}' is not a version such as 9.0", d.compute_capability);
  return std::nullopt;
}

std::optional<std::string> state_problem(const MachineDevices& d) {
  const auto one_of = [](const std::string& word, std::initializer_list<const char*> known) {
    return word.empty() || std::find(known.begin(), known.end(), word) != known.end();
  };
  if (!one_of(d.fabric, {"not started", "in progress", "completed"}))
    return text("fabric '{}' is not one of {}", d.fabric, "not started, in progress, completed");
  if (!one_of(d.vgpu_licence, {"licensed", "unlicensed"}))
    return text("vgpu_licence '{}' is not one of {}", d.vgpu_licence, "licensed, unlicensed");
  return std::nullopt;
}

/// Whether the path is a list of PCI bridges that begins with a host bridge.
bool is_pci_path(const std::string& path) {
  constexpr std::size_t kLongest = 123;  // must be the same limit as in wire/sim_state.hpp
  const auto parts = split(path, '/');
  return path.size() <= kLongest && parts.size() > 1 && parts.front().starts_with("pci") &&
         std::all_of(parts.begin() + 1, parts.end(), [](std::string_view bridge) {
           // A bridge may have a function from 0 to 7, but parse_pci_address() accepts only
           // function 0. So replace the last digit by 0.
           return bridge.size() > 2 &&
                  parse_pci_address(std::string(bridge.substr(0, bridge.size() - 1)) + "0")
                      .has_value();
         });
}

std::optional<std::string> place_problem(const MachineDevices& d) {
  if (d.pci.empty()) return text("pci: a device needs an address");
  for (const std::string& address : d.pci)
    if (!parse_pci_address(address))
      return text("'{}' is not a PCI address such as 0000:81:00.0", address);
  const auto one_or_each = [&d](std::size_t n) { return n <= 1 || n == d.pci.size(); };
  if (!one_or_each(d.numa.size()) || !one_or_each(d.local_cpus.size()) ||
      !one_or_each(d.pci_path.size()) || !one_or_each(d.nvlink_to.size()))
    return text("{}: give one value for all devices, or one for each PCI address",
                "numa, local_cpus, pci_path, nvlink_to");
  for (const std::string& path : d.pci_path)
    if (!is_pci_path(path))
      return text("'{}' is not a path of bridges such as pci0000:80/0000:80:01.0", path);
  for (const std::string& list : d.local_cpus)
    if (!model::parse_cpu_list(list))
      return text("'{}' is not a list of CPU cores such as 0-15,64-79", list);
  return std::nullopt;
}

std::optional<std::string> number_problem(const MachineDevices& d) {
  if (d.memory_bytes == 0) return text("memory: must be more than 0");
  if (d.memory_reserved_bytes >= d.memory_bytes) return text("memory_reserved is not below memory");
  if (d.power_idle_watts >= d.power_limit_watts)
    return text("power_idle_watts is not below power_limit_watts");
  if (d.power_min_watts > d.power_limit_watts || d.power_limit_watts > d.power_max_watts)
    return text("power_limit_watts is not between power_min_watts and power_max_watts");
  if (d.clock_graphics_idle_mhz > d.clock_graphics_mhz ||
      d.clock_memory_idle_mhz > d.clock_memory_mhz)
    return text("an idle clock is above the highest clock");
  if (d.temperature_idle > d.temperature_busy || d.temperature_busy >= d.temperature_slowdown ||
      d.temperature_slowdown > d.temperature_shutdown)
    return text("temperatures must rise: idle, busy, slowdown, shutdown");
  if (d.pcie_generation_idle > d.pcie_generation || d.pcie_width_now > d.pcie_width)
    return text("the PCIe link is faster or wider than its maximum");
  return std::nullopt;
}

std::optional<std::string> mig_profile_problem(const MachineDevices& d) {
  constexpr std::size_t kMost = 17;
  if (d.mig_enabled && !d.mig_capable) return text("mig_enabled: needs mig_capable = true");
  if (d.mig_profiles.empty()) return std::nullopt;
  if (!d.mig_capable || !d.mig.empty())
    return text("mig_profiles: needs mig_capable = true, and no partitions in 'mig'");
  if (d.mig_profiles.size() > kMost) return text("mig_profiles: more than {} profiles", kMost);
  for (const MachineMigProfile& one : d.mig_profiles) {
    if (!slices_of(one.profile))
      return text("mig: '{}' is not a profile such as 3g.40gb", one.profile);
    if (one.memory_bytes == 0 || one.memory_bytes > d.memory_bytes)
      return text("mig_profiles: the memory of {} is 0, or more than the device has", one.profile);
    if (one.starts.empty() || one.starts.size() > 8)
      return text("mig_profiles: {} needs 1 to 8 places in 'starts'", one.profile);
    for (const std::int64_t start : one.starts)
      if (start + one.size > 8)
        return text("mig_profiles: a profile needs more than the 8 memory slices of a GPU");
  }
  return std::nullopt;
}

std::optional<std::string> list_problem(const MachineDevices& d) {
  for (const std::string& name : d.unsupported)
    if (!ability_of(name)) return text("unsupported: there is no reading '{}'", name);
  std::uint64_t sum = 0;
  std::uint32_t slices = 0;
  for (const MachinePartition& partition : d.mig) {
    const auto wide = slices_of(partition.profile);
    if (!wide) return text("mig: '{}' is not a profile such as 3g.40gb", partition.profile);
    slices += *wide;
    sum += partition.memory_bytes;
    if (partition.memory_bytes == 0) return text("memory: must be more than 0");
  }
  if (d.mig.size() > 7 || slices > 7)
    return text("mig: the partitions need more than the 7 slices of a GPU");
  if (sum > d.memory_bytes) return text("mig: the partitions have more memory than the device");
  if (!d.mig.empty() && !d.mig_capable) return text("mig: needs mig_capable = true");
  return mig_profile_problem(d);
}

/// Checks the order of the devices in the file. It must be Berth's order. For NVIDIA devices it
/// must also be the driver's, so that Berth and the driver give a device the same number.
std::optional<std::string> order_problem(const Machine& machine) {
  const auto vendor_rank = [](const std::string& vendor) {
    return vendor == "nvidia" ? 0 : vendor == "amd" ? 1 : 2;
  };
  std::pair<int, std::string> last{0, ""};
  for (const MachineDevices& group : machine.groups) {
    for (const std::string& address : group.pci) {
      std::pair<int, std::string> next{vendor_rank(group.vendor), address};
      if (next <= last)
        return text(
            "{}: devices must be ordered: nvidia, amd, intel, and by PCI address within a vendor",
            address);
      last = std::move(next);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PciAddress> parse_pci_address(std::string_view address) {
  if (address.find_first_not_of("0123456789abcdef:.") != std::string_view::npos)
    return std::nullopt;
  if (address.size() != 12 || address[4] != ':' || address[7] != ':' || address.substr(10) != ".0")
    return std::nullopt;
  const auto domain = whole(address.substr(0, 4), 16, 4), bus = whole(address.substr(5, 2), 16, 2),
             slot = whole(address.substr(8, 2), 16, 2);
  if (!domain || !bus || !slot || *slot > 31) return std::nullopt;
  return PciAddress{*domain, *bus, *slot};
}

std::optional<std::uint32_t> parse_pci_id(std::string_view id) {
  if (id.size() != 9 || id[4] != ':') return std::nullopt;
  const auto vendor = whole(id.substr(0, 4), 16, 4), device = whole(id.substr(5), 16, 4);
  if (!vendor || !device) return std::nullopt;
  return *device << 16U | *vendor;
}

std::optional<std::uint32_t> parse_pci_class(std::string_view word) {
  return number_of(kClasses, word);
}
std::optional<std::uint32_t> ability_of(std::string_view name) {
  return number_of(kAbilities, name);
}
std::optional<std::uint32_t> nvidia_architecture(std::string_view name) {
  return number_of(kArchitectures, name);
}
std::optional<std::uint32_t> compute_mode_of(std::string_view name) {
  return number_of(kComputeModes, name);
}
std::optional<std::uint32_t> brand_of(std::string_view name) {
  return number_of(kBrands, name);
}
std::optional<std::uint32_t> use_of(std::string_view word) {
  return number_of(kUses, word);
}

std::optional<std::uint32_t> slices_of(std::string_view profile) {
  if (profile.size() < 6 || profile.size() > 31 || profile.substr(1, 2) != "g.")
    return std::nullopt;
  const auto slices = whole(profile.substr(0, 1), 10, 1);
  return slices && *slices >= 1 && *slices <= 7 ? slices : std::nullopt;
}

std::optional<DriverVersion> parse_driver_version(std::string_view version) {
  const auto parts = split(version, '.');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const auto major = whole(parts[0], 10, 4), minor = whole(parts[1], 10, 4),
             patch = parts.size() == 3 ? whole(parts[2], 10, 4) : std::optional<std::uint32_t>(0);
  if (!major || !minor || !patch) return std::nullopt;
  return DriverVersion{*major, *minor, *patch};
}

std::optional<std::uint32_t> parse_cuda_version(std::string_view version) {
  const auto parts = split(version, '.');
  if (parts.size() != 2) return std::nullopt;
  const auto major = whole(parts[0], 10, 2), minor = whole(parts[1], 10, 1);
  if (!major || !minor) return std::nullopt;
  return *major * 1000 + *minor * 10;
}

std::optional<std::string> problem_of(const MachineDriver& driver) {
  if (driver.version.size() > 31 || !parse_driver_version(driver.version))
    return text("'{}' is not a driver version such as 580.95.05", driver.version);
  if (!parse_cuda_version(driver.cuda))
    return text("'{}' is not a CUDA version such as 13.0", driver.cuda);
  if (!driver.confidential.empty() && driver.confidential != "ready" &&
      driver.confidential != "not ready")
    return text("confidential '{}' is not one of {}", driver.confidential, "ready, not ready");
  return std::nullopt;
}

std::optional<std::string> problem_of(const MachineDevices& d) {
  for (const auto check :
       {identity_problem, place_problem, state_problem, number_problem, list_problem})
    if (auto problem = check(d)) return problem;
  return std::nullopt;
}

std::optional<std::string> problem_of(const MachineProcess& process) {
  if (process.use.empty())
    return text("use: a process needs at least one of {}", "compute, graphics, mps");
  for (const std::string& word : process.use)
    if (!use_of(word)) return text("use: '{}' is not one of {}", word, "compute, graphics, mps");
  if (process.memory_bytes == 0) return text("memory: must be more than 0 for a process");
  if (trim(process.command).empty()) return text("'{}' is missing", "command");
  return std::nullopt;
}

std::optional<std::string> problem_of(const Machine& machine) {
  if (machine.name.empty() || machine.name.size() > 63 ||
      machine.name.find('/') != std::string::npos)
    return text("name: must have 1 to 63 characters and no '/'");
  const std::size_t count = device_count(machine);
  if (count > wire::kMaxDevices)
    return text("{} devices: at most {} can be simulated", count, std::uint32_t{wire::kMaxDevices});
  std::set<std::string> addresses;
  for (const MachineDevices& group : machine.groups) {
    if (group.vendor == "nvidia" && !machine.driver)
      return text("an NVIDIA device needs a [driver]");
    for (const std::int64_t to : group.nvlink_to)
      if (to >= static_cast<std::int64_t>(count))
        return text("nvlink_to {}: the machine has only {} devices", to, count);
    for (const std::string& address : group.pci)
      if (!addresses.insert(address).second) return text("two devices at PCI address {}", address);
  }
  if (auto problem = order_problem(machine)) return problem;
  if (machine.processes.size() > wire::kMaxProcesses)
    return text("{} processes: at most {} can be simulated", machine.processes.size(),
                std::uint32_t{wire::kMaxProcesses});
  std::vector<std::uint64_t> used(count);
  for (const MachineProcess& process : machine.processes) {
    const auto device = static_cast<std::size_t>(process.device);
    if (device >= count)
      return text("a process on device {}: the machine has only {} devices", process.device, count);
    const MachineDevices& group = group_of(machine, device);
    if (process.partition ? static_cast<std::size_t>(*process.partition) >= group.mig.size()
                          : !group.mig.empty())
      return text(
          "a process on device {}: 'partition' must be the index of one of the device's {} "
          "partitions",
          process.device, group.mig.size());
    used[device] += process.memory_bytes;
    if (used[device] > group.memory_bytes - group.memory_reserved_bytes)
      return text("the processes of device {} use more memory than it has", process.device);
  }
  return std::nullopt;
}

void fill_defaults(MachineDevices& d) {
  if (d.power_min_watts == 0)
    d.power_min_watts = std::max<std::int64_t>(1, d.power_limit_watts / 2);
  if (d.power_max_watts == 0) d.power_max_watts = d.power_limit_watts;
  if (d.power_idle_watts == 0) d.power_idle_watts = d.power_limit_watts / 10;
  if (d.pcie_generation_idle == 0) d.pcie_generation_idle = d.pcie_generation;
  if (d.pcie_width_now == 0) d.pcie_width_now = d.pcie_width;
  if (d.clock_video_mhz == 0) d.clock_video_mhz = d.clock_graphics_mhz * 9 / 10;
  if (d.kernel_driver.empty())
    d.kernel_driver = d.vendor == "nvidia" ? "nvidia" : d.vendor == "amd" ? "amdgpu" : "i915";
  if (d.brand.empty()) d.brand = d.name.find("GeForce") != std::string::npos ? "geforce" : "nvidia";
}

std::size_t device_count(const Machine& machine) {
  std::size_t count = 0;
  for (const MachineDevices& group : machine.groups) count += group.pci.size();
  return count;
}

const MachineDevices& group_of(const Machine& machine, std::size_t device) {
  for (const MachineDevices& group : machine.groups) {
    if (device < group.pci.size()) return group;
    device -= group.pci.size();
  }
  BERTH_CHECK(false);
  return machine.groups.front();
}

}  // namespace berth::sim
