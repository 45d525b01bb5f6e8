#include "doctor/facts/platform.hpp"
#include "doctor/read/collectors.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text_parts.hpp"
#include "doctor/read/place.hpp"
#include "doctor/read/rocm.hpp"
#include "model/cpu_list.hpp"

namespace berth::doctor {
namespace {

/// The number in the line "KEY NUMBER"; 0 if there is no such line.
std::int64_t property(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n'))
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return to_number(trim(line.substr(key.size()))).value_or(0);
  return 0;
}

KfdNode kfd_node(const std::string& number, const std::string& text) {
  KfdNode node;
  node.number = number;
  node.target = static_cast<unsigned>(property(text, "gfx_target_version"));
  node.with_processor = property(text, "cpu_cores_count") > 0;
  const auto place = static_cast<unsigned>(property(text, "location_id"));
  if (place != 0)
    node.address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", property(text, "domain"),
                               (place >> 8) & 0xff, (place >> 3) & 0x1f, place & 7);
  return node;
}

Fact<std::vector<KfdNode>> kfd_nodes(const Tree& tree) {
  const std::string folder = "/sys/class/kfd/kfd/topology/nodes";
  const auto numbers = tree.list(folder, 1000);
  if (numbers.is_unreadable()) return numbers.why();
  if (!numbers) return {};
  std::vector<KfdNode> nodes;
  for (const std::string& number : *numbers) {
    const auto text = tree.read(folder + "/" + number + "/properties");
    if (text.is_unreadable()) return text.why();
    if (text && property(*text, "simd_count") > 0) nodes.push_back(kfd_node(number, *text));
  }
  return nodes;
}

/// Adds the target in a file name: gfx1030 for "TensileLibrary_Type_HH_…_gfx1030.co".
void add_target(std::vector<std::string>& targets, const std::string& name) {
  const auto at = name.rfind("gfx");
  if (at == std::string::npos) return;
  const auto end = name.find_first_not_of("0123456789abcdef", at + 3);
  const std::string target =
      name.substr(at, end == std::string::npos ? std::string::npos : end - at);
  if (target.size() < 6) return;
  if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
}

/// Folders in which rocBLAS may be, in order of priority: PyTorch's wheel, AMD's wheels, the
/// system.
std::vector<std::string> rocblas_folders(const Tree& tree, const PythonFacts& python) {
  std::vector<std::string> folders;
  if (python.path && python.torch && python.torch->hip) {
    folders.push_back((*python.path)[python.torch->entry].folder + "/torch/lib");
    for (const PathEntry& entry : *python.path)
      for (const std::string& name : tree.list(entry.folder).value_or({}))
        if (name.starts_with("_rocm_sdk_")) folders.push_back(entry.folder + "/" + name + "/lib");
  }
  for (const char* folder :
       {"/opt/rocm/lib", "/opt/rocm/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"})
    folders.emplace_back(folder);
  for (std::string& folder : folders) folder += "/rocblas/library";
  return folders;
}

/// Reads the targets in the first folder that exists. AMD's wheels count as one folder, because
/// each may have only one target.
void read_rocblas(const Tree& tree, const PythonFacts& python, RocmFacts& facts) {
  std::vector<std::string> targets;
  for (const std::string& folder : rocblas_folders(tree, python)) {
    const bool is_wheel = folder.find("/_rocm_sdk_") != std::string::npos;
    if (!facts.rocblas_folder.empty() &&
        !(is_wheel && facts.rocblas_folder.find("/_rocm_sdk_") != std::string::npos))
      continue;
    const auto names = tree.list(folder);
    if (names.is_unreadable()) {
      facts.rocblas_targets = names.why();
      return;
    }
    if (!names) continue;
    if (facts.rocblas_folder.empty()) facts.rocblas_folder = folder;
    for (const std::string& name : *names) add_target(targets, name);
  }
  if (!facts.rocblas_folder.empty()) facts.rocblas_targets = std::move(targets);
  // If PyTorch is unreadable, it is unknown which rocBLAS PyTorch loads.
  if (python.interpreter && python.torch.is_unreadable())
    facts.rocblas_targets = python.torch.why();
}

Fact<std::vector<std::string>> iommu_types(const Tree& tree) {
  std::vector<std::string> types;
  const std::string bus = "/sys/bus/pci/devices/";
  for (const std::string& address : tree.list(bus).value_or({})) {
    if (tree.line(bus + address + "/vendor").value_or("") != "0x1002") continue;
    const auto type = tree.line(bus + address + "/iommu_group/type");
    if (type.is_unreadable()) return type.why();
    if (type) types.push_back(*type);
  }
  return types.empty() ? Fact<std::vector<std::string>>() : types;
}

Fact<bool> there(const Tree& tree, const std::string& path) {
  const auto node = tree.node(path);
  if (node.is_unreadable()) return node.why();
  return node.has_value();
}

/// The flags in the first line "flags\t\t: fpu vme de …", which are those of the first CPU.
Fact<std::set<std::string, std::less<>>> cpu_flags(const Tree& tree) {
  constexpr const char* kPath = "/proc/cpuinfo";
  const auto text = tree.read(kPath, 1 << 16);
  if (text.is_unreadable()) return text.why();
  const std::string all = text.value_or("");
  for (const std::string_view line : split(all, '\n')) {
    if (!line.starts_with("flags")) continue;
    std::set<std::string, std::less<>> flags;
    for (const std::string_view word : split(line.substr(line.find(':') + 1), ' '))
      if (!word.empty()) flags.emplace(word);
    return flags;
  }
  return Unreadable{kPath, 0};
}

CpuFacts cpu_facts(const Tree& tree) {
  CpuFacts facts;
  const std::string folder = "/sys/devices/system/cpu";
  const auto online = tree.line(folder + "/online");
  if (online.is_unreadable()) facts.online = online.why();
  if (online) {
    if (const auto cpus = model::parse_cpu_list(*online)) facts.online = *cpus;
  } else if (online.is_absent()) {
    facts.online = Unreadable{folder + "/online", ENOENT};
  }
  facts.flags = cpu_flags(tree);
  facts.governor = tree.line(folder + "/cpu0/cpufreq/scaling_governor");
  facts.frequency_driver = tree.line(folder + "/cpu0/cpufreq/scaling_driver");
  return facts;
}

Fact<std::string> cuda_home(const ProcessFacts& process) {
  auto home = process.variable("CUDA_HOME");
  return home.is_absent() || (home && home->empty()) ? process.variable("CUDA_PATH") : home;
}

void look_at_toolkits(const Tree& tree, const ProcessFacts& process, NamedPaths& named) {
  const auto home = cuda_home(process);
  if (home.is_unreadable())
    named.cuda_home_there = named.cuda_home_nvcc = home.why();
  else if (home && home->starts_with('/')) {
    named.cuda_home_there = there(tree, *home);
    named.cuda_home_nvcc = there(tree, *home + "/bin/nvcc");
    named.cuda_home_nvcc_target = tree.resolve(*home + "/bin/nvcc");
  }
  named.usual_nvcc = tree.resolve("/usr/local/cuda/bin/nvcc");
  const auto path = process.variable("PATH");
  if (path.is_unreadable()) named.nvcc = path.why();
  const std::string folders = path.value_or("");
  for (const std::string_view folder : split(folders, ':')) {
    if (!folder.starts_with('/')) continue;
    named.nvcc = tree.resolve(std::string(folder) + "/nvcc");
    if (!named.nvcc.is_absent()) break;
  }
}

Fact<std::vector<std::string>> stubs_in(const Tree& tree, const std::string& folders) {
  std::vector<std::string> stubs;
  for (const std::string_view folder : split(folders, ':')) {
    if (!folder.ends_with("/stubs") && !folder.ends_with("/stubs/")) continue;
    for (const char* name : {"libcuda.so", "libcuda.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1"})
      if (const std::string file = std::string(folder) + "/" + name; tree.exists(file))
        stubs.push_back(file);
  }
  return stubs;
}

Fact<std::vector<std::string>> missing_files(const Tree& tree, const ProcessFacts& process) {
  std::vector<std::string> missing;
  for (const char* name :
       {"TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "VLLM_NCCL_SO_PATH",
        "TRITON_LIBCUDA_PATH", "NCCL_TOPO_FILE", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
        "NUMBA_CUDA_DRIVER", "NUMBAPRO_NVVM", "NUMBAPRO_LIBDEVICE", "NUMBAPRO_CUDALIB",
        "VLLM_CUDART_SO_PATH", "HSA_TOOLS_LIB", "ROCM_PATH", "HIP_PATH", "VK_ICD_FILENAMES",
        "VK_DRIVER_FILES", "__EGL_VENDOR_LIBRARY_FILENAMES"}) {
    const auto value = process.variable(name);
    if (value.is_unreadable()) return value.why();
    if (!value || !value->starts_with('/')) continue;
    // If access is denied, the file may exist, so it does not count as missing.
    if (const auto seen = there(tree, *value); seen && !*seen)
      missing.push_back(std::string(name) + "=" + *value);
  }
  return missing;
}

/// Parses lines "NAME=value"; "#" starts a comment.
Fact<NcclSettings> nccl_settings(const Tree& tree, const ProcessFacts& process) {
  NcclSettings found;
  std::string own = process.variable("NCCL_CONF_FILE").value_or("");
  if (own.empty()) own = process.variable("HOME").value_or("") + "/.nccl.conf";
  for (const std::string& path : {own, std::string("/etc/nccl.conf")}) {
    const auto text = path.starts_with('/') ? tree.read(path, 1 << 16) : Fact<std::string>();
    if (text.is_unreadable()) return text.why();
    const std::string all = text.value_or("");
    for (const std::string_view line : split(all, '\n')) {
      const std::string_view row = trim(line.substr(0, line.find('#')));
      const std::size_t equals = row.find('=');
      if (equals == std::string_view::npos) continue;
      if (found.path.empty()) found.path = path;
      found.values.emplace(trim(row.substr(0, equals)), trim(row.substr(equals + 1)));
    }
  }
  return found.path.empty() ? Fact<NcclSettings>() : Fact<NcclSettings>(std::move(found));
}

void look_at_xla(const Tree& tree, const ProcessFacts& process, NamedPaths& named) {
  const auto flags = process.variable("XLA_FLAGS");
  if (flags.is_unreadable()) named.xla_folder = flags.why();
  const std::string words = flags.value_or("");
  constexpr std::string_view kOption = "--xla_gpu_cuda_data_dir=";
  for (const std::string_view flag : split(words, ' ')) {
    if (!flag.starts_with(kOption)) continue;
    const std::string folder(flag.substr(kOption.size()));
    named.xla_folder = folder;
    // A relative path depends on the working directory of the program, which is unknown.
    named.xla_libdevice = folder.starts_with('/')
                              ? there(tree, folder + "/nvvm/libdevice/libdevice.10.bc")
                              : Fact<bool>(Unreadable{folder, 0});
  }
}

}  // namespace

std::string KfdNode::gfx() const {
  return fmt::format("gfx{}{:x}{:x}", target / 10000, target / 100 % 100, target % 100);
}

bool KfdNode::integrated() const {
  // The integrated GPUs of Raven, Renoir, Van Gogh, Rembrandt, Raphael, Phoenix, Strix and Strix
  // Halo. Since 6.x, the kernel lists them without a CPU, like graphics cards, so its list does not
  // show that they are integrated.
  constexpr auto kTargets = std::to_array<unsigned>(
      {90002, 90009, 90012, 100303, 100305, 100306, 110003, 110500, 110501, 110502, 110503});
  return with_processor || std::find(kTargets.begin(), kTargets.end(), target) != kTargets.end();
}

/// The ROCm release of AMD's driver: version "1:6.8.5.60204-2070768.22.04" of the package
/// amdgpu-dkms belongs to ROCm 6.2.4.
Fact<std::string> rocm_of_driver(const Tree& tree) {
  const auto status = tree.read("/var/lib/dpkg/status", 16 << 20);
  if (!status) return Unreadable{"/var/lib/dpkg/status", ENOENT};
  const auto at = status->find("Package: amdgpu-dkms\n");
  if (at == std::string::npos) return {};
  const std::string_view paragraph =
      std::string_view(*status).substr(at, status->find("\n\n", at) - at);
  const auto version = paragraph.find("\nVersion: ");
  const auto dash = paragraph.find('-', version);
  const auto dot = paragraph.rfind('.', dash);
  if (version == std::string_view::npos || dash == std::string_view::npos || dot < version)
    return {};
  const auto number = to_number(paragraph.substr(dot + 1, dash - dot - 1)).value_or(0);
  if (number < 50'000 || number > 99'999) return {};
  return fmt::format("{}.{}.{}", number / 10'000, number / 100 % 100, number % 100);
}

/// ROCm's library in a folder of LD_LIBRARY_PATH, as in llama.cpp's archives and other programs
/// that have all their files in one folder.
Fact<std::string> rocm_library(const Tree& tree, const Fact<Environment>& environment) {
  const std::string folders = variable(environment, "LD_LIBRARY_PATH");
  for (const std::string_view folder : split(folders, ':')) {
    if (!folder.starts_with('/')) continue;
    for (const std::string& name : tree.list(std::string(folder), 5000).value_or({}))
      if (name.starts_with("libamdhip64.so")) return std::string(folder) + "/" + name;
  }
  return {};
}

RocmFacts collect_rocm(const Tree& tree, const Fact<Environment>& environment,
                       const PythonFacts& python) {
  RocmFacts facts;
  facts.version = tree.line("/opt/rocm/.info/version").map([](const std::string& line) {
    return line.substr(0, line.find('-'));
  });
  facts.driver_release = rocm_of_driver(tree);
  facts.nodes = kfd_nodes(tree);
  facts.folder = tree.watched([&]() -> Fact<std::string> {
    for (const char* path :
         {"/opt/rocm", "/usr/lib/x86_64-linux-gnu/libamdhip64.so", "/usr/lib64/libamdhip64.so"})
      if (tree.exists(path)) return std::string(path);
    return {};
  });
  facts.library = tree.watched([&] { return rocm_library(tree, environment); });
  if (environment.is_unreadable()) facts.library.doubt(environment.why());
  read_rocblas(tree, python, facts);
  facts.iommu_types = iommu_types(tree);
  facts.memory = tree.watched([&] { return collect_amd_memory(tree); });
  // Firmware only matters if the machine has an AMD GPU.
  if (!facts.nodes.is_absent())
    facts.linux_firmware = tree.watched([&] { return collect_linux_firmware(tree); });
  facts.wsl_runtime = collect_wsl_runtime(tree);
  facts.own_runtime = tree.watched([&] { return collect_own_runtime(tree, python); });
  return facts;
}

/// Whether WSL's settings disable the GPU: "[gpu]" followed by "enabled=false".
Fact<bool> told_no_gpu(const Tree& tree) {
  return tree.read("/etc/wsl.conf").map([](const std::string& text) {
    bool inside = false;
    for (const std::string_view line : split(text, '\n')) {
      std::string dense;
      for (const char c : line)
        if (c != ' ' && c != '\t' && c != '\r')
          dense += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      if (dense.starts_with('[')) inside = dense == "[gpu]";
      if (inside && dense == "enabled=false") return true;
    }
    return false;
  });
}

WslFacts collect_wsl(const Tree& tree, const Fact<std::vector<std::string>>& searched) {
  WslFacts facts;
  facts.folder =
      tree.node("/usr/lib/wsl").map([](const Node&) -> std::string { return "/usr/lib/wsl"; });
  facts.told_no_gpu = told_no_gpu(tree);
  facts.driver_library = there(tree, "/usr/lib/wsl/lib/libcuda.so.1");
  facts.folder_is_searched = searched.map([](const std::vector<std::string>& folders) {
    return std::find(folders.begin(), folders.end(), "/usr/lib/wsl/lib") != folders.end();
  });
  return facts;
}

PlatformFacts collect_platform(const Tree& tree, const ProcessFacts& process) {
  PlatformFacts facts;
  facts.interfaces = tree.list("/sys/class/net");
  facts.ollama = tree.watched([&] { return collect_ollama(tree); });
  facts.ollama_service = tree.watched([&] { return collect_ollama_service(tree); });
  facts.ggml = tree.watched([&] { return collect_ggml(tree, process); });
  if (facts.interfaces.is_absent()) facts.interfaces = Unreadable{"/sys/class/net", ENOENT};
  facts.command_line = tree.line("/proc/cmdline");
  if (facts.command_line.is_absent()) facts.command_line = Unreadable{"/proc/cmdline", ENOENT};
  facts.cpu = cpu_facts(tree);
  look_at_toolkits(tree, process, facts.named);
  const std::string folders = process.variable("LD_LIBRARY_PATH").value_or("");
  facts.named.stubs = tree.watched([&] { return stubs_in(tree, folders); });
  look_at_xla(tree, process, facts.named);
  facts.nccl = tree.watched([&] { return nccl_settings(tree, process); });
  facts.named.missing_files = tree.watched([&] { return missing_files(tree, process); });
  return facts;
}

}  // namespace berth::doctor
