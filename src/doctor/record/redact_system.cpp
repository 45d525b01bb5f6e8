// What a recording keeps of the kernel's and the system's files: only what rules read.
#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/knowledge/contains_any.hpp"
#include "doctor/read/cache.hpp"
#include "doctor/record/kept.hpp"
#include "doctor/record/redact.hpp"
#include "doctor/record/shareable_names.hpp"

namespace berth::doctor {
namespace {

// Parameters of the kernel's command line that may be kept. Others may contain passwords, disk ids
// and addresses.
constexpr auto kShareableParameters =
    std::to_array<std::string_view>({"nvidia",
                                     "nouveau",
                                     "amdgpu",
                                     "ttm",
                                     "radeon",
                                     "i915",
                                     "xe",
                                     "iommu",
                                     "intel_iommu",
                                     "amd_iommu",
                                     "pci",
                                     "pcie_aspm",
                                     "pcie_ports",
                                     "pcie_port_pm",
                                     "nomodeset",
                                     "modprobe.blacklist",
                                     "module_blacklist",
                                     "rd.driver.blacklist",
                                     "rdblacklist",
                                     "initcall_blacklist",
                                     "vfio",
                                     "vfio-pci",
                                     "vfio_pci",
                                     "lockdown",
                                     "module.sig_enforce",
                                     "cgroup_no_v1",
                                     "cgroup_enable",
                                     "cgroup_disable",
                                     "systemd.unified_cgroup_hierarchy",
                                     "hugepages",
                                     "default_hugepagesz",
                                     "video",
                                     "acpi",
                                     "acpi_osi",
                                     "efi",
                                     "ro",
                                     "rw",
                                     "quiet",
                                     "splash",
                                     "mitigations",
                                     "numa",
                                     "numa_balancing"});
constexpr auto kCompiles = std::to_array<std::string_view>(
    {"ninja", "nvcc", "cicc", "cudafe++", "ptxas", "fatbinary", "cc1plus"});
// Names of installers, which show whether an installation is running.
constexpr auto kInstalls =
    std::to_array<std::string_view>({"dpkg", "apt", "apt-get", "unattended-upgr"});

template <typename Words>
bool is_one_of(std::string_view word, const Words& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Whether a parameter of the kernel may be kept: "nvidia-drm.modeset=1", "ro". The whole name must
/// match, so "root=UUID=…" is not "ro".
bool is_shareable_parameter(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  return name.starts_with("nvidia") || is_one_of(name, kShareableParameters) ||
         is_one_of(name.substr(0, name.find('.')), kShareableParameters);
}

/// Replaces uncommon words in a parameter's value: "modprobe.blacklist=nouveau,mine" →
/// "modprobe.blacklist=nouveau,…". Numbers are kept.
std::string redacted_parameter(std::string_view word) {
  const std::size_t equals = word.find('=');
  std::string redacted(word.substr(0, equals));
  if (equals == std::string_view::npos) return redacted;
  for (const std::string_view part : split(word.substr(equals + 1), ',')) {
    const bool is_number = part.find_first_not_of("0123456789abcdefABCDEFxKMG:.!-@") == part.npos;
    redacted += (redacted.size() > equals ? "," : "=") +
                (is_number || is_common(part) ? std::string(part) : "…");
  }
  return redacted;
}

std::string command_line(std::string_view text) {
  std::string redacted;
  for (const std::string_view word : split(trim(text), ' ')) {
    if (word.empty()) continue;
    if (!redacted.empty()) redacted += ' ';
    redacted += is_shareable_parameter(word) ? redacted_parameter(word) : "…";
  }
  return redacted + "\n";
}

/// Keeps mount point, options and type of each mount in /proc/PID/mountinfo. The other fields may
/// contain servers, folders and passwords. For a mount of a container engine, the field "root"
/// becomes the engine's folder, which rules read.
std::string mounts(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() < 6) continue;
    std::string_view root = "/";
    for (const std::string_view place :
         {"/kubelet/pods/", "/docker/containers/", "/overlay-containers/", "/containers/"})
      if (root == "/" && line.find(place) != std::string_view::npos) root = place;
    const bool is_private = root != "/" && !is_common(words[4]);
    const bool forbids = words[5].find("noexec") != std::string_view::npos;
    if (!is_private && !forbids && !is_common(words[4])) continue;
    const auto dash = std::find(words.begin(), words.end(), "-");
    redacted +=
        fmt::format("{} {} {} {} {} {} - {} … …\n", words[0], words[1], words[2], root,
                    is_private ? "/…" : words[4], words[5], words.end() - dash > 1 ? dash[1] : "…");
  }
  return redacted;
}

/// Keeps only the container engine in the path of a cgroup. The rest of the path contains users and
/// names.
std::string groups(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(":/");
    if (colon == std::string_view::npos ||
        line.substr(0, colon).find_first_not_of("0123456789:abcdefghijklmnopqrstuvwxyz_,=") !=
            std::string_view::npos)
      continue;
    std::string_view kind = line.size() == colon + 2 ? "/" : "/…";
    for (const std::string_view place :
         {"/kubepods", "/libpod-", "libpod_", "/docker/", "/docker-", "/lxc/", "/lxc.payload"})
      if (line.find(place) != std::string_view::npos) kind = place;
    redacted += std::string(line.substr(0, colon + 1)) + (kind.starts_with('/') ? "" : "/") +
                std::string(kind) + "\n";
  }
  return redacted;
}

/// Whether a program's name may be kept: NVIDIA's programs, Python, compilers and installers.
bool is_shareable_program(std::string_view name) {
  const std::string_view word = name.substr(0, name.find_first_of(")\n"));
  return name.starts_with("nv-") || name.starts_with("nvidia-") || is_one_of(word, kCompiles) ||
         is_one_of(word, kInstalls) ||
         (word.starts_with("python") && word.find_first_not_of("0123456789.", 6) == word.npos);
}

std::string process_state(std::string_view text) {
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  if (is_shareable_program(text.substr(open + 1))) return std::string(text);
  return std::string(text.substr(0, open + 1)) + "…" + std::string(text.substr(close));
}

/// Keeps the names of modules, without their memory addresses.
std::string modules(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view name = line.substr(0, line.find(' '));
    if (!name.empty() && is_common(name)) redacted += std::string(name) + " 1 0 - Live 0x0\n";
  }
  return redacted;
}

/// Removes the user and machine that built a module: "… Release Build  (root@gpu7)  Mon …" → "…
/// Release Build  Mon …".
std::string without_builder(std::string_view text) {
  std::string redacted(text);
  for (auto mark = redacted.find('@'); mark != std::string::npos; mark = redacted.find('@', mark)) {
    const auto open = redacted.rfind('(', mark), close = redacted.find(')', mark);
    if (open == std::string::npos || close == std::string::npos) {
      redacted.erase(mark, 1);
      continue;
    }
    redacted.erase(open, close + 1 - open);
    mark = open;
  }
  return redacted;
}

/// The name of a process if it may be kept; otherwise "…".
std::string process_name(std::string_view text) {
  return is_shareable_program(text) ? std::string(text) : "…\n";
}

/// Keeps the container manager that the variable `container` of the first process names.
std::string container_manager(std::string_view text) {
  for (const std::string_view row : split(text, '\0'))
    if (row.starts_with("container=") && row.size() < 30 &&
        row.find_first_not_of("abcdefghijklmnopqrstuvwxyz-=") == row.npos)
      return std::string(row) + std::string(1, '\0');
  return "";
}

std::string device_numbers(std::string_view text) {
  return lines_of(text, [](std::string_view line) {
    const std::string_view name = line.substr(line.find(' ') + 1);
    return line.ends_with(" devices:") || (name.starts_with("nvidia") && is_common(name));
  });
}

std::string processor(std::string_view text) {
  return lines_of(text, [](std::string_view line) {
    return contains_any(line.substr(0, line.find(':')),
                        std::to_array<std::string_view>(
                            {"flags", "Features", "vendor_id", "CPU implementer", "model name"}));
  });
}

/// Keeps the SELinux type if rules know it.
std::string security_label(std::string_view text) {
  return text.find(":container_t:") != text.npos       ? "…:…:container_t:…\n"
         : text.find(":svirt_lxc_net_t:") != text.npos ? "…:…:svirt_lxc_net_t:…\n"
                                                       : "…\n";
}

/// Removes the Device Serial Number from the extended capabilities of a PCI function, because a
/// network card's number contains its MAC address.
std::string without_serial(std::string_view config) {
  std::string redacted(config);
  const auto byte = [&](std::size_t at) -> std::uint32_t {
    return at < redacted.size() ? static_cast<unsigned char>(redacted[at]) : 0;
  };
  std::size_t at = 0x100;
  for (int hops = 0; hops < 64 && at >= 0x100; ++hops) {
    constexpr std::uint32_t kSerial = 0x0003;
    if ((byte(at) | byte(at + 1) << 8) == kSerial)
      for (std::size_t i = at + 4; i < std::min(at + 12, redacted.size()); ++i) redacted[i] = '\0';
    at = byte(at + 2) >> 4 | byte(at + 3) << 4;
  }
  return redacted;
}

std::string system_of(std::string_view text) {
  constexpr auto kKeys = std::to_array<std::string_view>(
      {"ID", "VERSION_ID", "NAME", "PRETTY_NAME", "ID_LIKE", "OSTREE_VERSION"});
  return lines_of(text, [&](std::string_view line) {
    return is_one_of(trim(line.substr(0, line.find('='))), kKeys);
  });
}

/// Keeps whether accounts and groups are looked up in local files or in a directory service.
std::string name_services(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view database = trim(line.substr(0, line.find(':')));
    if (database != "passwd" && database != "group") continue;
    redacted += std::string(database) + ":";
    const std::string_view rest = line.substr(0, line.find('#')).substr(line.find(':') + 1);
    std::string spaced(rest);
    std::replace(spaced.begin(), spaced.end(), '\t', ' ');
    for (const std::string_view word : split(spaced, ' ')) {
      if (word.empty() || word.find_first_of("[]=") != word.npos) continue;
      const bool is_own = word == "files" || word == "compat" || word == "systemd";
      redacted += " " + (is_own ? std::string(word) : "directory");
    }
    redacted += "\n";
  }
  return redacted;
}

/// Keeps the lines about GPU drivers, without the commands that they run.
std::string module_settings(std::string_view text) {
  std::string redacted;
  for (const std::string_view whole : split(text, '\n')) {
    std::string_view line = trim(whole);
    line = trim(line.substr(0, line.find(" #")));
    if (line.starts_with('#') ||
        !contains_any(line, std::to_array<std::string_view>(
                                {"nvidia", "nouveau", "amdgpu", "i915", "xe", "vfio"})))
      continue;
    const auto words = split(line, ' ');
    const bool starts = words[0] == "install" || words[0] == "remove";
    std::string kept;
    for (const std::string_view word : words) {
      if (word.empty()) continue;
      const std::size_t equals = word.find('=');
      const bool is_name = equals == word.npos ? is_common(word) : !starts;
      kept += (kept.empty() ? "" : " ") +
              (is_name ? equals == word.npos ? std::string(word) : redacted_parameter(word) : "…");
    }
    redacted += kept + "\n";
  }
  return redacted;
}

/// Keeps udev rules that remove GPUs from the bus, and those that create links to their nodes.
std::string device_rules(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n'))
    if (!trim(line).starts_with('#') && line.find("0x10de") != line.npos &&
        line.find("ATTR{remove}=\"1\"") != line.npos && line.find("0x03") != line.npos)
      redacted += "ATTR{vendor}==\"0x10de\", ATTR{class}==\"0x03*\", ATTR{remove}=\"1\"\n";
  if (text.find("create-dev-char-symlinks") != text.npos)
    redacted += "RUN+=\"/usr/bin/nvidia-ctk system create-dev-char-symlinks\"\n";
  return redacted;
}

/// Keeps the kernel release of a module build, and the lines about its failure.
std::string build_log(std::string_view text) {
  std::string redacted = "for kernel";
  std::string head(text.substr(0, 256));
  std::replace(head.begin(), head.end(), '\n', ' ');
  for (const std::string_view word : split(head, ' '))
    if (word.size() < 64 &&
        std::isdigit(static_cast<unsigned char>(word.empty() ? 'x' : word[0])) &&
        std::count(word.begin(), word.end(), '.') >= 2)
      redacted += " " + std::string(word);
  constexpr auto kWords = std::to_array<std::string_view>(
      {"PREEMPT_RT", "CC version check", "unrecognized command", "No space left on device",
       "Killed signal", "implicit declaration", "arguments to function", "has no member named",
       "incompatible pointer", "GPL-incompatible", ": error:", ": fatal error:"});
  redacted += "\n";
  for (const std::string_view line : split(text, '\n')) {
    if (!contains_any(line, kWords)) continue;
    // The text from "error:" on is kept. The file position before it contains a private path.
    const std::size_t at = line.find("error:");
    redacted += std::string(at == line.npos ? line : line.substr(at)).substr(0, 400) + "\n";
  }
  return redacted;
}

/// Keeps where depmod found NVIDIA's modules and whether iptables' tables are modules, which
/// matters for Docker on a Jetson.
std::string driver_modules(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view file = line.substr(0, line.find(':'));
    const std::string_view name = file.substr(file.rfind('/') + 1);
    if (name.starts_with("nvidia") && is_common(file)) redacted += std::string(file) + ":\n";
  }
  for (const std::string table : {"/iptable_raw.ko", "/iptable_filter.ko"})
    if (text.find(table) != text.npos) redacted += "kernel/net/ipv4/netfilter" + table + ":\n";
  return redacted;
}

/// Keeps a section "[gpu]" with "enabled=false".
std::string wsl_settings(std::string_view text) {
  std::string redacted;
  bool inside = false;
  for (const std::string_view line : split(text, '\n')) {
    std::string dense;
    for (const char c : line)
      if (c != ' ' && c != '\t' && c != '\r')
        dense += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (dense.starts_with('[')) inside = dense == "[gpu]";
    if (inside && (dense == "[gpu]" || dense == "enabled=false" || dense == "enabled=true"))
      redacted += dense + "\n";
  }
  return redacted;
}

/// Keeps lines such as "< POWER_MODEL ID=1 NAME=15W >".
std::string power_modes(std::string_view text) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    const auto id = line.find("POWER_MODEL ID="), name = line.find(" NAME=");
    if (trim(line).starts_with('#') || id == line.npos || name == line.npos || name < id) continue;
    const std::string_view rest = line.substr(name + 6);
    const std::string_view mode = rest.substr(0, rest.find_first_of(" >"));
    constexpr std::string_view kLetters = "MAXNSUPERCOREW_0123456789DESKTOP";
    redacted += fmt::format("< {} NAME={} >\n", line.substr(id, name - id),
                            mode.find_first_not_of(kLetters) == mode.npos ? mode : "mode");
  }
  return redacted;
}

std::string jetson_release(std::string_view text) {
  const auto release = text.substr(0, std::min(text.find(", GCID"), text.find('\n')));
  const bool is_shareable = release.starts_with("# R") &&
                            release.substr(3, 2).find_first_not_of("0123456789") == release.npos;
  return is_shareable ? std::string(release.substr(0, 60)) + "\n" : "";
}

constexpr char kBootTime[] = "btime ", kMemory[] = "MemTotal:", kModel[] = "Model:";

constexpr auto kKept = std::to_array<Kept>({
    {"/proc/cmdline", kept<command_line>},
    {"/proc/stat", kept<lines_that_begin<kBootTime>>},
    // The user and machine that built the kernel are removed.
    {"/proc/version",
     [](std::string_view text) -> std::optional<std::string> {
       return fmt::format("Linux version ({})\n", kernel_compiler(text));
     }},
    {"/proc/modules", kept<modules>},
    {"/proc/devices", kept<device_numbers>},
    {"/proc/meminfo", kept<lines_that_begin<kMemory>>},
    {"/proc/cpuinfo", kept<processor>},
    {"/proc/sys/kernel/hostname",
     [](std::string_view) -> std::optional<std::string> { return "HOST\n"; }},
    {"/proc/driver/nvidia/version",
     [](std::string_view text) -> std::optional<std::string> {
       return without_builder(text.substr(0, text.find('\n'))) + "\n";
     }},
    {"/proc/driver/nvidia/gpus/**", kept<lines_that_begin<kModel>>},
    {"/proc/driver/nvidia/params", all_of_it},
    {"/proc/self/attr/current", kept<security_label>},
    {"/proc/sys/kernel/osrelease", all_of_it},
    {"/proc/device-tree/compatible", all_of_it},
    {"/proc/*/comm", kept<process_name>},
    {"/proc/*/stat", kept<process_state>},
    {"/proc/*/mountinfo", kept<mounts>},
    {"/proc/*/cgroup", kept<groups>},
    {"/proc/*/uid_map", all_of_it},
    {"/proc/*/environ", kept<container_manager>},
    {"/sys/**/config", kept<without_serial>},
    {"/sys/**", all_of_it},
    {"/etc/os-release", kept<system_of>},
    {"/usr/lib/os-release", kept<system_of>},
    {"/etc/nsswitch.conf", kept<name_services>},
    {"/etc/wsl.conf", kept<wsl_settings>},
    {"/run/systemd/container",
     [](std::string_view text)
         -> std::optional<
             std::string> { return is_common(trim(text)) ? std::string(text) : "container\n"; }},
    {"**/modprobe.d/**", kept<module_settings>},
    {"**/udev/rules.d/**", kept<device_rules>},
    {"/etc/nvpmodel.conf", kept<power_modes>},
    {"/var/lib/nvpmodel/status",
     [](std::string_view text)
         -> std::optional<std::string> { return std::string(text.substr(0, 10)) + "\n"; }},
    {"/etc/nv_tegra_release", kept<jetson_release>},
    {"**/make.log", kept<build_log>},
    {"**.failed.log", kept<build_log>},
    {"**/modules.dep", kept<driver_modules>},
});

}  // namespace

std::span<const Kept> kept_of_system() {
  return kKept;
}

std::string redacted_hosts(std::string_view text, std::string_view own) {
  constexpr auto kEverybodys = std::to_array<std::string_view>(
      {"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6",
       "localhost6.localdomain6", "ip6-localhost", "ip6-loopback"});
  std::string redacted;
  for (const std::string_view line : split(text, '\n')) {
    std::string row(line.substr(0, line.find('#'))), kept;
    std::replace(row.begin(), row.end(), '\t', ' ');
    bool is_wanted = false;
    for (const std::string_view word : split(row, ' ')) {
      if (word.empty()) continue;
      if (kept.empty()) {  // the first word is the address; only loopback addresses are kept
        const bool is_here = word.starts_with("127.") || word == "::1";
        kept = is_here ? word : "192.0.2.1";
        continue;
      }
      const bool is_own = word == own, is_plain = is_own || is_one_of(word, kEverybodys);
      is_wanted = is_wanted || is_plain;
      kept += " " + (is_own ? "HOST" : is_plain ? std::string(word) : "…");
    }
    if (is_wanted) redacted += kept + "\n";
  }
  return redacted;
}

std::string redacted_folders(std::string_view text,
                             const std::function<bool(const std::string&)>& matters) {
  std::string redacted;
  for (const std::string_view row : split(text, '\n')) {
    const std::string folder(trim(row.substr(0, row.find('#'))));
    const bool is_code = folder.starts_with("import ") || folder.starts_with("import\t");
    if (!folder.empty() && !is_code && folder.find('\0') == folder.npos && matters(folder))
      redacted += folder + "\n";
  }
  return redacted;
}

std::string redacted_loader_cache(std::string_view bytes,
                                  const std::function<bool(const std::string&)>& matters) {
  std::string redacted(bytes);
  std::set<std::string, std::less<>> names;  // names of the files that matter
  const auto each = [&](auto see) {
    for (std::size_t at = 0; at < redacted.size();) {
      const std::size_t end = std::min(redacted.find('\0', at), redacted.size());
      // Skips the binary table that precedes the names.
      if (end - at > 3 && std::all_of(redacted.begin() + static_cast<std::ptrdiff_t>(at),
                                      redacted.begin() + static_cast<std::ptrdiff_t>(end),
                                      [](char c) { return c >= ' ' && c <= '~'; }))
        see(at, end);
      at = end + 1;
    }
  };
  const auto last = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  each([&](std::size_t at, std::size_t end) {
    const std::string word = redacted.substr(at, end - at);
    if (word[0] == '/' && matters(word)) names.insert(last(word));
  });
  each([&](std::size_t at, std::size_t end) {
    const std::string word = redacted.substr(at, end - at);
    if (at < 0x30 || word.starts_with("glibc-ld.so.cache") || word.starts_with("ld.so-")) return;
    // The cache may store a name as the end of another path. If this path is removed, the name at
    // its end must stay.
    const std::size_t kept = names.contains(last(word)) ? last(word).size() : 0;
    if (word[0] == '/' ? !matters(word) : kept == 0)
      std::fill(redacted.begin() + static_cast<std::ptrdiff_t>(at),
                redacted.begin() + static_cast<std::ptrdiff_t>(end - kept), 'x');
  });
  return redacted;
}

}  // namespace berth::doctor
