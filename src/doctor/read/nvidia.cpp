#include "doctor/facts/nvidia.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

/// Returns the version: "570.124.06" of "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
/// 570.124.06  Release Build …".
std::string version_in(std::string_view line) {
  for (const std::string_view word : split(line, ' '))
    if (word.size() >= 5 && word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos)
      return std::string(word);
  return "";
}

void read_loaded(const Tree& tree, NvidiaFacts& facts) {
  const auto line = tree.line("/proc/driver/nvidia/version");
  facts.open_module = line.map(
      [](const std::string& text) { return text.find("Open Kernel Module") != std::string::npos; });
  facts.module_version = tree.line("/sys/module/nvidia/version");
  if (!facts.module_version && line) {
    const std::string version = version_in(*line);
    if (!version.empty()) facts.module_version = version;
  }
  facts.parameters = tree.read("/proc/driver/nvidia/params").map([](const std::string& text) {
    std::map<std::string, std::string> found;
    for (const std::string_view row : split(text, '\n'))
      if (const auto colon = row.find(':'); colon != std::string_view::npos)
        found.emplace(row.substr(0, colon), trim(row.substr(colon + 1)));
    return found;
  });
}

Fact<std::vector<ModprobeLine>> read_modprobe(const Tree& tree) {
  std::vector<ModprobeLine> found;
  bool any = false;
  for (const std::string folder :
       {"/etc/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d", "/run/modprobe.d"}) {
    const auto files = tree.list(folder, 500);
    if (files.is_unreadable()) return files.why();
    any = any || files;
    for (const std::string& file : files.value_or({})) {
      const auto text = tree.read(folder + "/" + file);
      if (!text) continue;
      for (const std::string_view line : split(*text, '\n')) {
        const std::string_view row = trim(line);
        if (row.starts_with('#')) continue;
        constexpr auto kModules =
            std::to_array<std::string_view>({"nvidia", "nouveau", "amdgpu", "i915", "xe", "vfio"});
        if (std::any_of(kModules.begin(), kModules.end(), [&](std::string_view module) {
              return row.find(module) != std::string_view::npos;
            }))
          found.push_back({folder + "/" + file, std::string(row)});
      }
    }
  }
  return any ? Fact<std::vector<ModprobeLine>>(std::move(found))
             : Fact<std::vector<ModprobeLine>>();
}

/// Path of a file with a udev rule that removes the GPU, as EnvyControl and similar tools write it:
/// ATTR{vendor}=="0x10de", …, ATTR{remove}="1".
Fact<std::string> read_remover(const Tree& tree) {
  for (const std::string folder :
       {"/etc/udev/rules.d", "/lib/udev/rules.d", "/usr/lib/udev/rules.d"})
    for (const std::string& name : tree.list(folder, 1000).value_or({})) {
      // A system has hundreds of files with udev rules. Only read those whose names suggest such a
      // rule.
      if (name.find("nvidia") == std::string::npos && name.find("remove") == std::string::npos)
        continue;
      const std::string text = tree.read(folder + "/" + name).value_or("");
      for (const std::string_view line : split(text, '\n'))
        if (!trim(line).starts_with('#') && line.find("0x10de") != std::string_view::npos &&
            line.find("ATTR{remove}=\"1\"") != std::string_view::npos &&
            line.find("0x03") != std::string_view::npos)
          return folder + "/" + name;
    }
  return {};
}

constexpr auto kLibraryFolders = std::to_array<std::string_view>(
    {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
     "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib64", "/usr/lib64/nvidia", "/usr/lib",
     "/usr/lib/nvidia", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64"});

/// Adds a library once, by its real path, because it may be visible under several names (/usr/lib64
/// → lib).
void add_library(const Tree& tree, std::vector<DriverLibrary>& found, const std::string& folder,
                 const std::string& file, std::string_view name) {
  const std::string version = file.substr(name.size() + 1);
  if (version.find('.') == std::string::npos ||
      version.find_first_not_of("0123456789.") != std::string::npos)
    return;
  const auto real = tree.resolve(folder + "/" + file);
  if (!real) return;
  const bool known = std::any_of(found.begin(), found.end(),
                                 [&](const DriverLibrary& other) { return other.path == *real; });
  if (!known) found.push_back({std::string(name), version, *real});
}

/// Whether the folder has libraries for 32-bit programs: /usr/lib has them on Fedora. On Arch,
/// /usr/lib has the 64-bit libraries.
bool is_other_width(const Tree& tree, std::string_view folder) {
  return folder == "/usr/lib" && tree.exists("/usr/lib64/libc.so.6") &&
         tree.resolve("/usr/lib64").value_or("") != "/usr/lib";
}

void read_libraries(const Tree& tree, NvidiaFacts& facts) {
  constexpr auto kNames = std::to_array<std::string_view>({"libnvidia-ml.so", "libcuda.so"});
  std::vector<DriverLibrary> found;
  for (const std::string_view place : kLibraryFolders) {
    const std::string folder(place);
    const auto files = tree.list(folder);
    if (files.is_unreadable()) {
      facts.libraries = files.why();
      facts.library_version = files.why();
      return;
    }
    if (!files || is_other_width(tree, place)) continue;
    for (const std::string& file : *files)
      for (const std::string_view name : kNames)
        if (file.starts_with(name) && file.size() > name.size() + 1)
          add_library(tree, found, folder, file, name);
    if (facts.library_version) continue;
    // Only a file name that contains the version counts.
    const std::string real = tree.resolve(folder + "/libnvidia-ml.so.1").value_or("");
    const auto so = real.rfind(".so.");
    if (so != std::string::npos && real.size() > so + 6)
      facts.library_version = real.substr(so + 4);
  }
  if (!facts.library_version)
    for (const DriverLibrary& one : found)
      if (one.name == kNames[0]) facts.library_version = one.version;
  facts.libraries = std::move(found);
}

Fact<std::vector<std::string>> read_installers(const Tree& tree) {
  std::vector<std::string> found;
  if (tree.exists("/usr/bin/nvidia-installer") || tree.exists("/usr/bin/nvidia-uninstall"))
    found.emplace_back("nvidia-installer");
  for (const std::string& file : tree.list("/var/lib/dpkg/info").value_or({})) {
    if (!file.ends_with(".list")) continue;
    if (file.starts_with("nvidia-driver-") || file.starts_with("libnvidia-compute-") ||
        file.starts_with("libcuda1")) {
      found.emplace_back("dpkg");
      break;
    }
  }
  return found;
}

Fact<std::vector<std::string>> read_firmware(const Tree& tree) {
  return tree.list("/lib/firmware/nvidia").map([&](const std::vector<std::string>& folders) {
    std::vector<std::string> versions;
    for (const std::string& folder : folders) {
      if (folder.find('.') == std::string::npos) continue;
      const auto files = tree.list("/lib/firmware/nvidia/" + folder).value_or({});
      const bool gsp = std::any_of(files.begin(), files.end(),
                                   [](const std::string& file) { return file.starts_with("gsp"); });
      if (gsp) versions.push_back(folder);
    }
    return versions;
  });
}

Fact<std::vector<DeviceNode>> read_nodes(const Tree& tree) {
  const auto names = tree.list("/dev");
  if (names.is_unreadable()) return names.why();
  if (!names) return Unreadable{"/dev", ENOENT};
  std::vector<DeviceNode> found;
  for (const std::string& name : *names) {
    if (!name.starts_with("nvidia")) continue;
    const auto node = tree.node("/dev/" + name, true);
    if (node && node->type == NodeType::kCharacter) found.push_back({"/dev/" + name, *node});
  }
  return found;
}

/// Reads lines such as "510 nvidia-uvm" in the list of character devices. The list of block devices
/// follows.
Fact<std::multimap<std::string, unsigned>> read_majors(const Tree& tree) {
  return tree.read("/proc/devices").map([](const std::string& text) {
    std::multimap<std::string, unsigned> found;
    const std::string_view characters =
        std::string_view(text).substr(0, text.find("Block devices"));
    for (const std::string_view line : split(characters, '\n')) {
      const std::string_view row = trim(line);
      const std::size_t blank = row.find(' ');
      if (blank == std::string_view::npos) continue;
      if (const auto number = to_number(row.substr(0, blank)))
        found.emplace(trim(row.substr(blank)), static_cast<unsigned>(*number));
    }
    return found;
  });
}

/// Whether nvidia-modprobe can create device nodes. It runs as root for any user who may execute
/// it, and CUDA starts it automatically.
Fact<bool> read_helper(const Tree& tree) {
  constexpr mode_t kSetUserId = 04000;
  const auto node = tree.node("/usr/bin/nvidia-modprobe");
  if (node.is_unreadable()) return node.why();
  return node && (node->mode & kSetUserId) != 0;
}

/// The version of a package from dpkg, without the revision: "535.183.06" for "535.183.06-1".
std::string packaged_version(const Tree& tree, std::string_view package) {
  const std::string status = tree.read("/var/lib/dpkg/status", 16 << 20).value_or("");
  const auto at = status.find("Package: " + std::string(package));
  if (at == std::string::npos) return "";
  const auto end = status.find("\n\n", at);
  const std::string_view paragraph = std::string_view(status).substr(at, end - at);
  const auto version = paragraph.find("\nVersion: ");
  if (version == std::string_view::npos) return "";
  const std::string_view rest = paragraph.substr(version + 10);
  return std::string(rest.substr(0, rest.find_first_of("-\n")));
}

void read_fabric_manager(const Tree& tree, NvidiaFacts& facts) {
  const auto binary = tree.node("/usr/bin/nv-fabricmanager");
  if (binary.is_unreadable()) facts.fabric_manager = binary.why();
  if (!binary) return;
  facts.fabric_manager = packaged_version(tree, "nvidia-fabricmanager");
}

/// The folder of the driver's source code from which DKMS builds modules:
/// /usr/src/nvidia-535.129.03.
Fact<std::string> read_source(const Tree& tree) {
  const auto names = tree.list("/usr/src");
  if (names.is_unreadable()) return names.why();
  for (const std::string& name : names.value_or({}))
    if (name.starts_with("nvidia-") && !version_in(name.substr(name.rfind('-') + 1)).empty())
      return "/usr/src/" + name;
  return {};
}

Fact<std::string> read_variant(const Tree& tree) {
  constexpr std::string_view kKey = "MODULE_VARIANT=";
  return tree.read("/etc/nvidia/kernel.conf", 4096).map([&](const std::string& text) {
    for (const std::string_view line : split(text, '\n'))
      if (trim(line).starts_with(kKey)) {
        const std::string_view value = trim(trim(line).substr(kKey.size()));
        if (value == "kernel" || value == "kernel-open") return std::string(value);
      }
    return std::string();
  });
}

}  // namespace

Fact<DeviceNode> NvidiaFacts::node(std::string_view path) const {
  if (nodes.is_unreadable()) return nodes.why();
  for (const DeviceNode& one : nodes.value_or({}))
    if (one.path == path) return one;
  return {};
}

NvidiaFacts collect_nvidia(const Tree& tree, const ProcessFacts& process) {
  NvidiaFacts facts;
  read_loaded(tree, facts);
  facts.kernels_on_disk = tree.list("/lib/modules", 64);
  facts.modules_on_disk = collect_module_files(tree, facts.kernels_on_disk);
  facts.source = read_source(tree);
  facts.module_variant = read_variant(tree);
  facts.build_log = collect_build_log(tree);
  facts.modprobe = read_modprobe(tree);
  facts.remover = tree.watched([&] { return read_remover(tree); });
  read_libraries(tree, facts);
  facts.installers = read_installers(tree);
  facts.firmware = tree.watched([&] { return read_firmware(tree); });
  facts.nodes = read_nodes(tree);
  facts.majors = read_majors(tree);
  facts.imex_channels = tree.list("/dev/nvidia-caps-imex-channels");
  facts.modprobe_helper = read_helper(tree);
  read_fabric_manager(tree, facts);
  facts.gridd = tree.watched([&]() -> Fact<std::string> {
    for (const char* path : {"/usr/bin/nvidia-gridd", "/usr/sbin/nvidia-gridd"})
      if (tree.exists(path)) return std::string(path);
    return {};
  });
  facts.reboot_wanted_by = tree.read("/run/reboot-required.pkgs");
  facts.unfinished = collect_unfinished(tree);
  const auto akmods = tree.node("/usr/sbin/akmods");
  facts.akmods = akmods.is_unreadable() ? Fact<bool>(akmods.why()) : akmods.has_value();
  facts.mps_control =
      process.variable("CUDA_MPS_PIPE_DIRECTORY").is_unreadable()
          ? Fact<Node>(process.variable("CUDA_MPS_PIPE_DIRECTORY").why())
          : tree.node(process.variable("CUDA_MPS_PIPE_DIRECTORY").value_or("/tmp/nvidia-mps") +
                      "/control");
  return facts;
}

}  // namespace berth::doctor
