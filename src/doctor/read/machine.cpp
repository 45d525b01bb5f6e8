#include "doctor/facts/machine.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

/// For files that every Linux has. If such a file is missing, the files of the kernel are not
/// visible, so the fact is unreadable and not absent.
template <typename T>
Fact<T> expected(Fact<T> fact, const std::string& path) {
  if (fact.is_absent()) return Unreadable{path, ENOENT};
  return fact;
}

Fact<std::vector<std::string>> read_modules(const Tree& tree) {
  return expected(tree.read("/proc/modules", 1 << 20), "/proc/modules")
      .map([](const std::string& text) {
        std::vector<std::string> names;
        for (const std::string_view line : split(text, '\n'))
          if (!line.empty()) names.emplace_back(line.substr(0, line.find(' ')));
        return names;
      });
}

Fact<std::vector<std::string>> relevant_lines(const Fact<std::string>& log) {
  constexpr auto kWords = std::to_array<std::string_view>({"NVRM",
                                                           "nvidia",
                                                           "nouveau",
                                                           "PM: suspend",
                                                           "hibernation",
                                                           "aer_uncor_status",
                                                           "PCIe Bus Error",
                                                           "BERT",
                                                           "Lockdown:",
                                                           "rejected",
                                                           "CmpltTO",
                                                           ": BAR ",
                                                           "blocked for more than",
                                                           "kfd",
                                                           "force_probe",
                                                           "graphics device",
                                                           "amdgpu",
                                                           "i915",
                                                           " xe ",
                                                           "atombios",
                                                           "bbswitch",
                                                           "oom-kill:",
                                                           "Out of memory: Killed",
                                                           "D3cold to D0",
                                                           "IO_PAGE_FAULT",
                                                           "DMAR: [DMA"});
  constexpr std::size_t kMost = 20'000;
  return log.map([&](const std::string& text) {
    std::vector<std::string> lines;
    for (const std::string_view line : split(text, '\n')) {
      const bool speaks = std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
        return line.find(word) != std::string_view::npos;
      });
      if (speaks) lines.emplace_back(line.substr(0, 1000));
    }
    if (lines.size() > kMost) lines.erase(lines.begin(), lines.end() - kMost);
    return lines;
  });
}

Fact<std::vector<std::string>> read_processes(const Tree& tree) {
  return expected(tree.list("/proc"), "/proc").map([&](const std::vector<std::string>& entries) {
    std::vector<std::string> names;
    for (const std::string& entry : entries) {
      if (entry.find_first_not_of("0123456789") != std::string::npos) continue;
      if (const auto name = tree.line("/proc/" + entry + "/comm")) names.push_back(*name);
    }
    return names;
  });
}

/// Reads an EFI variable: four bytes of attributes, followed by the value.
Fact<bool> read_secure_boot(const Tree& tree) {
  const std::string file =
      "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
  const auto bytes = tree.read(file, 16);
  if (bytes.is_unreadable()) return bytes.why();
  if (!bytes || bytes->size() < 5) return {};
  return (*bytes)[4] == 1;
}

Fact<int> read_suspends(const Tree& tree) {
  const auto line = tree.line("/sys/power/suspend_stats/success");
  if (line.is_unreadable()) return line.why();
  const auto count = line ? to_number(*line) : std::nullopt;
  return count ? Fact<int>(static_cast<int>(*count)) : Fact<int>();
}

Fact<std::string> read_host_address(const Tree& tree, const Fact<std::string>& name) {
  const auto hosts = tree.read("/etc/hosts");
  if (hosts.is_unreadable()) return hosts.why();
  if (!hosts || !name) return {};
  for (const std::string_view line : split(*hosts, '\n')) {
    const std::string_view row = trim(line.substr(0, line.find('#')));
    std::string spaced(row);
    std::replace(spaced.begin(), spaced.end(), '\t', ' ');
    const auto words = split(spaced, ' ');
    if (std::find(words.begin() + 1, words.end(), *name) != words.end())
      return std::string(words.front());
  }
  return {};
}

bool is_laptop(const Tree& tree) {
  const std::string type = tree.line("/sys/class/dmi/id/chassis_type").value_or("");
  constexpr auto kPortable = std::to_array<std::string_view>({"8", "9", "10", "14", "31", "32"});
  return std::find(kPortable.begin(), kPortable.end(), type) != kPortable.end();
}

bool is_virtual(const Tree& tree) {
  const std::string vendor = tree.line("/sys/class/dmi/id/sys_vendor").value_or("");
  const std::string product = tree.line("/sys/class/dmi/id/product_name").value_or("");
  constexpr auto kNames = std::to_array<std::string_view>(
      {"QEMU", "KVM", "VMware", "Xen", "VirtualBox", "Virtual Machine", "Google Compute Engine",
       "Amazon EC2", "OpenStack", "Cloud Hypervisor", "Alibaba Cloud ECS", "Bochs"});
  const bool metal = product.find(".metal") != std::string::npos;
  return !metal && std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) {
    return vendor.find(name) != std::string::npos || product.find(name) != std::string::npos;
  });
}

bool in_container(const Tree& tree) {
  for (const char* sign :
       {"/.dockerenv", "/run/.containerenv", "/.singularity.d", "/run/secrets/kubernetes.io",
        "/var/run/secrets/kubernetes.io", "/dev/.lxc", "/run/systemd/container", "/.flatpak-info"})
    if (tree.exists(sign)) return true;
  return false;
}

/// ASUS laptops have a firmware setting that turns the GPU off, also for other operating systems.
/// asusctl and supergfxctl change it. Returns the path of its file if it is active.
Fact<std::string> read_switched_off(const Tree& tree) {
  for (const char* path :
       {"/sys/class/firmware-attributes/asus-armoury/attributes/dgpu_disable/current_value",
        "/sys/devices/platform/asus-nb-wmi/dgpu_disable"})
    if (tree.line(path).value_or("") == "1") return std::string(path);
  return {};
}

Fact<std::vector<std::string>> read_locked_out(const Tree& tree) {
  const std::string folder = "/sys/bus/thunderbolt/devices/";
  return tree.list(folder, 500).map([&](const std::vector<std::string>& devices) {
    std::vector<std::string> names;
    for (const std::string& one : devices)
      if (tree.line(folder + one + "/authorized").value_or("") == "0")
        names.push_back(printable(trim(tree.line(folder + one + "/vendor_name").value_or("") + " " +
                                       tree.line(folder + one + "/device_name").value_or(""))));
    return names;
  });
}

/// Parses lines NAME="value" as a shell would parse them.
Fact<OsRelease> read_system(const Tree& tree) {
  auto text = tree.read("/etc/os-release");
  if (!text)
    if (auto other = tree.read("/usr/lib/os-release"); other || text.is_absent())
      text = std::move(other);
  return text.map([&](const std::string& all) {
    OsRelease system;
    for (const std::string_view line : split(all, '\n')) {
      const std::size_t equals = line.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = trim(line.substr(0, equals));
      std::string_view value = trim(line.substr(equals + 1));
      if (value.size() >= 2 && (value.front() == '"' || value.front() == '\''))
        value = value.substr(1, value.size() - 2);
      if (key == "ID") system.id = value;
      if (key == "VERSION_ID") system.version = value;
      if (key == "PRETTY_NAME" || (key == "NAME" && system.name.empty())) system.name = value;
      if (key == "OSTREE_VERSION") system.is_image = true;
      if (key != "ID_LIKE") continue;
      for (const std::string_view one : split(value, ' '))
        if (!one.empty()) system.like.emplace_back(one);
    }
    system.is_image = system.is_image || tree.exists("/run/ostree-booted");
    return system;
  });
}

/// The chip in the device tree: "tegra234" of "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0".
Fact<std::string> read_tegra(const Tree& tree) {
  const auto compatible = tree.read("/proc/device-tree/compatible", 4096);
  if (compatible.is_unreadable()) return compatible.why();
  // If the device tree is missing, the release may determine the chip: JetPack 6 supports only one.
  if (!compatible)
    return tree.line("/etc/nv_tegra_release").value_or("").starts_with("# R36 ")
               ? Fact<std::string>("tegra234")
               : Fact<std::string>();
  constexpr std::string_view kBegin = "nvidia,tegra";
  for (const std::string_view one : split(*compatible, '\0'))
    if (one.starts_with(kBegin)) return printable(one.substr(kBegin.find('t')));
  return {};
}

/// The major version of Jetson Linux: 36 for "# R36 (release), REVISION: 4.0, …".
Fact<int> read_l4t(const Tree& tree) {
  const auto line = tree.line("/etc/nv_tegra_release");
  if (line.is_unreadable()) return line.why();
  constexpr std::string_view kBegin = "# R";
  if (!line || !line->starts_with(kBegin)) return {};
  const auto number =
      to_number(std::string_view(*line).substr(kBegin.size(), line->find(' ', kBegin.size()) - 3));
  return number ? Fact<int>(static_cast<int>(*number)) : Fact<int>();
}

/// Whether the machine runs on battery: it has an external power supply, but none is online.
/// Batteries are skipped, because they can also be "online": the machine's own, and those of a
/// mouse or headphones (scope: Device). https://docs.kernel.org/power/power_supply_class.html
Fact<bool> read_battery(const Tree& tree) {
  const std::string folder = "/sys/class/power_supply";
  const auto names = tree.list(folder, 100);
  if (names.is_unreadable()) return names.why();
  Fact<bool> on_battery;
  for (const std::string& name : names.value_or({})) {
    const auto says = [&](const char* file) {
      return tree.line(folder + "/" + name + file).value_or("");
    };
    if (says("/scope") == "Device" || says("/type") == "Battery") continue;
    const std::string online = says("/online");
    if (online == "1") return false;
    if (online == "0") on_battery = true;
  }
  return on_battery;
}

/// Reads the number of the current mode ("pmode:0001") that nvpmodel stores, and its name from the
/// table "< POWER_MODEL ID=1 NAME=15W >".
void read_jetson_mode(const Tree& tree, MachineFacts& facts) {
  const auto status = tree.line("/var/lib/nvpmodel/status");
  const auto table = tree.read("/etc/nvpmodel.conf", 1 << 20);
  if (status.is_unreadable()) facts.jetson_mode = status.why();
  if (!status || !table || !status->starts_with("pmode:")) return;
  const auto current = to_number(trim(std::string_view(*status).substr(6, 4)));
  for (const std::string_view line : split(*table, '\n')) {
    constexpr std::string_view kId = "POWER_MODEL ID=", kName = " NAME=";
    const auto id = line.find(kId), name = line.find(kName);
    if (trim(line).starts_with('#') || id == line.npos || name == line.npos) continue;
    const auto number = to_number(line.substr(id + kId.size(), name - id - kId.size()));
    const std::string_view rest = line.substr(name + kName.size());
    const std::string mode(rest.substr(0, rest.find_first_of(" >")));
    if (number && current && *number == *current) facts.jetson_mode = mode;
    if (mode.starts_with("MAXN")) facts.jetson_full_mode = mode;
  }
}

/// Reads "MemTotal:       131072000 kB".
Fact<std::uint64_t> read_memory(const Tree& tree) {
  const auto line = tree.line("/proc/meminfo");
  if (line.is_unreadable()) return line.why();
  constexpr std::string_view kBegin = "MemTotal:";
  if (!line || !line->starts_with(kBegin)) return {};
  const std::string_view rest = trim(std::string_view(*line).substr(kBegin.size()));
  const auto kib = to_number(rest.substr(0, rest.find(' ')));
  return kib && *kib > 0 ? Fact<std::uint64_t>(static_cast<std::uint64_t>(*kib) << 10)
                         : Fact<std::uint64_t>();
}

/// Reads the boot time: "btime 1763827200" in /proc/stat.
Fact<std::int64_t> read_started(const Tree& tree) {
  const auto text = tree.read("/proc/stat", 1 << 20);
  if (text.is_unreadable()) return text.why();
  const std::string all = text.value_or("");
  for (const std::string_view line : split(all, '\n'))
    if (line.starts_with("btime "))
      if (const auto seconds = to_number(trim(line.substr(6)))) return *seconds;
  return {};
}

}  // namespace

Fact<bool> MachineFacts::has_module(std::string_view name) const {
  return modules.map([&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
}

MachineFacts collect_machine(const Tree& tree, const Fact<std::string>& kernel_log) {
  MachineFacts facts;
  const std::string release = "/proc/sys/kernel/osrelease";
  facts.kernel = expected(tree.line(release), release);
  facts.system = read_system(tree);
  facts.locked_out = tree.watched([&] { return read_locked_out(tree); });
  facts.pci = collect_pci(tree);
  facts.modules = read_modules(tree);
  facts.kernel_log = relevant_lines(kernel_log);
  facts.processes = read_processes(tree);
  facts.stuck = collect_stuck(tree);
  facts.secure_boot = read_secure_boot(tree);
  facts.memory_bytes = read_memory(tree);
  facts.started = read_started(tree);
  facts.suspends = read_suspends(tree);
  facts.machine_maker = tree.line("/sys/class/dmi/id/sys_vendor");
  facts.machine_kind = tree.line("/sys/class/dmi/id/product_name");
  facts.aspm_policy = tree.line("/sys/module/pcie_aspm/parameters/policy");
  facts.host_name = tree.line("/proc/sys/kernel/hostname");
  facts.host_name_address = read_host_address(tree, facts.host_name);
  const std::string kernel = facts.kernel.value_or("");
  facts.is_wsl = kernel.find("icrosoft") != std::string::npos || tree.exists("/dev/dxg");
  facts.is_jetson = tree.exists("/etc/nv_tegra_release") || kernel.ends_with("-tegra");
  if (facts.is_jetson) {
    facts.tegra = read_tegra(tree);
    facts.l4t = read_l4t(tree);
    read_jetson_mode(tree, facts);
    facts.sbsa_source = tree.watched([&]() -> Fact<std::string> {
      const std::string folder = "/etc/apt/sources.list.d";
      for (const std::string& name : tree.list(folder, 200).value_or({}))
        if (name.find("sbsa") != std::string::npos) return folder + "/" + name;
      return {};
    });
  }
  facts.is_virtual = is_virtual(tree);
  facts.is_laptop = is_laptop(tree);
  if (const auto chassis = tree.line("/sys/class/dmi/id/chassis_type"); chassis.is_unreadable())
    facts.on_battery = chassis.why();
  if (facts.is_laptop) {
    facts.switched_off = read_switched_off(tree);
    facts.on_battery = read_battery(tree);
    facts.power_profile = tree.line("/sys/firmware/acpi/platform_profile");
  }
  facts.in_container = in_container(tree);
  return facts;
}

}  // namespace berth::doctor
