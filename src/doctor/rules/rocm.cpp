// Rules AMD09, AMD11, WSL05 and FW29: memory, firmware, kernel and runtime of AMD GPUs, and GPU
// detection in inference servers.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

constexpr std::uint64_t kGib = 1ULL << 30;

/// Reports the parameter gtt_size of amdgpu. The right name is gttsize, and amdgpu ignores unknown
/// parameters.
bool misspelt_size(Examination& look) {
  std::string where;
  const std::string given = look.facts.platform.command_line.value_or("");
  for (const std::string_view word : split(given, ' '))
    if (word.starts_with("amdgpu.gtt_size=")) where = "/proc/cmdline: " + printable(word);
  for (const ModprobeLine& line : look.facts.nvidia.modprobe.value_or({}))
    if (line.text.starts_with("options amdgpu") && contains(line.text, "gtt_size="))
      where = line.file + ": " + printable(line.text);
  if (where.empty() || gpus_on_bus(look, kVendorAmd).empty()) return false;
  Finding& finding =
      look.found(text("amdgpu ignores gtt_size: the parameter's name is gttsize, and newer kernels "
                      "take ttm.pages_limit"));
  finding.evidence = {where, "https://docs.kernel.org/gpu/amdgpu/module-parameters.html"};
  finding.fix.push_back(on_system(
      look, "kernel_argument",
      text("a number of 4 KiB pages: 25165824 pages are 96 GiB; remove the parameter gtt_size"),
      "ttm.pages_limit=25165824"));
  return true;
}

/// Whether a program that can compute on AMD GPUs is installed.
bool wants_rocm(Examination& look) {
  const auto& torch = look.facts.python.torch;
  return (torch && torch->hip) || look.see(look.facts.rocm.folder) != nullptr ||
         look.see(look.facts.platform.ollama) != nullptr ||
         look.see(look.facts.platform.ggml) != nullptr;
}

/// Reports a Strix Halo with a kernel before 6.16.9: ROCm can then use only 15.5 GiB of the memory
/// that the firmware reserves for the GPU.
bool kernel_sees_little(Examination& look, const std::vector<KfdNode>& nodes,
                        const std::vector<AmdMemory>& memory) {
  const auto* kernel = look.see(look.facts.machine.kernel);
  const auto large = std::find_if(memory.begin(), memory.end(),
                                  [](const AmdMemory& one) { return one.own > 16 * kGib; });
  if (kernel == nullptr || large == memory.end() || look.facts.rocm.driver_release ||
      !is_older(*kernel, "6.16.9") ||
      std::none_of(nodes.begin(), nodes.end(),
                   [](const KfdNode& node) { return node.gfx() == "gfx1151"; }))
    return false;
  Finding& finding =
      look.found(text("ROCm programs see 15.5 GiB of the {} GiB of this integrated GPU: kernel {} "
                      "does not report more",
                      large->own / kGib, *kernel));
  finding.evidence = {
      fmt::format("/sys/bus/pci/devices/{}: mem_info_vram_total {}", large->address, large->own),
      "/proc/sys/kernel/osrelease: " + *kernel,
      "https://github.com/ROCm/legacy-rocm-build/issues/5444"};
  finding.fix.push_back({"", text("install kernel 6.16.9 or later; or give the GPU less memory in "
                                  "the firmware setup, and set ttm.pages_limit for the rest")});
  return true;
}

/// Reports that programs can use only half of the host's memory for an integrated GPU, which is the
/// kernel's default.
void half_of_memory(Examination& look) {
  if (misspelt_size(look)) return;
  const auto* nodes = look.see(look.facts.rocm.nodes);
  const auto* all = look.see(look.facts.machine.memory_bytes);
  const auto* line = look.see(look.facts.platform.command_line);
  if (nodes == nullptr || nodes->empty() || all == nullptr || line == nullptr ||
      std::any_of(nodes->begin(), nodes->end(),
                  [](const KfdNode& node) { return !node.integrated(); }))
    return;
  const bool wanted = wants_rocm(look);
  const auto* memory = look.see(look.facts.rocm.memory);
  if (wanted && memory != nullptr && kernel_sees_little(look, *nodes, *memory)) return;
  if (!wanted || memory == nullptr || contains(*line, "ttm.pages_limit=") ||
      contains(*line, "amdgpu.gttsize="))
    return;
  for (const AmdMemory& one : *memory) {
    // Skip a machine with little memory, because it needs the rest itself. Skip a GPU with much
    // memory of its own. Skip a limit that the user has raised above the default of one half.
    if (*all < 32 * kGib || one.own > *all / 8 || one.machines > *all / 16 * 9) continue;
    Finding& finding = look.found(
        text("programs get at most {} GiB of this machine's {} GiB for the integrated GPU",
             (one.own + one.machines) / kGib, (*all + kGib - 1) / kGib));
    finding.evidence = {
        fmt::format("/sys/bus/pci/devices/{}: mem_info_vram_total {}, mem_info_gtt_total {}",
                    one.address, one.own, one.machines),
        fmt::format("/proc/meminfo: MemTotal {} KiB", *all >> 10),
        "https://github.com/ROCm/legacy-rocm-build/issues/5595"};
    finding.severity = Severity::kInfo;
    finding.fix.push_back(on_system(look, "kernel_argument",
                                    text("a number of 4 KiB pages, here four fifths of the memory; "
                                         "AMD's tool sets the same parameter: amd-ttm --set GIB"),
                                    fmt::format("ttm.pages_limit={}", *all / 4096 / 5 * 4)));
    return;
  }
}

/// Whether the kernel has the fix of `mended`, the first fixed kernel of a series. Only kernels of
/// that series are compared: "6.14.0-1020-oem" has the fix of "6.14.0-1018-oem".
bool is_mended(std::string_view kernel, std::string_view mended) {
  const auto one = split(kernel, '-'), first = split(mended, '-');
  return one.size() == 3 && first.size() == 3 && one[2] == first[2] &&
         !is_older(one[0], first[0]) &&
         to_number(one[1]).value_or(0) >= to_number(first[1]).value_or(0);
}

/// Reports kernel releases whose amdgpu has a known bug on a GPU. AMD's own driver replaces this
/// amdgpu.
void bad_kernel(Examination& look) {
  const auto* nodes = look.see(look.facts.rocm.nodes);
  const auto* kernel = look.see(look.facts.machine.kernel);
  if (nodes == nullptr || kernel == nullptr || look.facts.rocm.driver_release || !wants_rocm(look))
    return;
  std::string set = look.facts.platform.command_line.value_or("");
  for (const ModprobeLine& line : look.facts.nvidia.modprobe.value_or({})) set += " " + line.text;
  for (const AmdKernelFault& row : look.knowledge.compatibility().amd_kernel_faults)
    for (const KfdNode& node : *nodes) {
      const std::string word = row.set.substr(row.set.find('.') + 1);
      if (!in_range(*kernel, row.kernel) || is_mended(*kernel, row.mended) ||
          (!word.empty() && contains(set, word)) ||
          std::find(row.targets.begin(), row.targets.end(), node.gfx()) == row.targets.end())
        continue;
      Finding& finding = look.found(text("the kernel {} has a known fault with {}: {}", *kernel,
                                         node.gfx(), tr(row.what.c_str())));
      if (row.info) finding.severity = Severity::kInfo;
      finding.evidence = {
          "/proc/sys/kernel/osrelease: " + *kernel,
          fmt::format("/sys/class/kfd/kfd/topology/nodes/{}: {}", node.number, node.gfx()),
          row.source};
      if (!row.set.empty())
        finding.fix.push_back(on_system(
            look, "kernel_argument",
            text("this parameter avoids the fault until a newer kernel is installed"), row.set));
      else
        finding.fix.push_back(
            {"", text("boot a kernel that is newer or older than {}", row.kernel)});
      return;
    }
}

/// Reports releases of linux-firmware with a known bug on a GPU.
void bad_firmware(Examination& look) {
  bad_kernel(look);
  const auto* nodes = look.see(look.facts.rocm.nodes);
  const auto* release = look.see(look.facts.rocm.linux_firmware);
  if (nodes == nullptr || release == nullptr) return;
  for (const AmdFirmware& row : look.knowledge.compatibility().amd_firmware)
    for (const KfdNode& node : *nodes) {
      if (*release != row.release ||
          std::find(row.targets.begin(), row.targets.end(), node.gfx()) == row.targets.end())
        continue;
      Finding& finding = look.found(text("the firmware files of {} have a known fault with {}: {}",
                                         *release, node.gfx(), tr(row.what.c_str())));
      finding.evidence = {
          "linux-firmware " + *release,
          fmt::format("/sys/class/kfd/kfd/topology/nodes/{}: {}", node.number, node.gfx()),
          row.source};
      finding.fix.push_back(on_system(look, "gpu_firmware",
                                      text("install a later release, which fixes the fault, or the "
                                           "previous one, which does not have it")));
      return;
    }
}

/// Reports the ROCm runtime in PyTorch's wheel on WSL. It needs /dev/kfd, which WSL does not have.
/// WSL has its own runtime.
void runtime_for_wsl(Examination& look) {
  if (!in_wsl(look) || !look.missing(look.facts.container.kind)) return;
  const std::string* runtime = look.see(look.facts.rocm.wsl_runtime);
  const std::string* own = look.see(look.facts.rocm.own_runtime);
  if (runtime == nullptr || runtime->empty() || own == nullptr || !look.facts.nodes.dxg) return;
  Finding& finding = look.found(
      text("PyTorch uses its own ROCm runtime, which does not support WSL: it sees no GPU"));
  finding.evidence = {*own, fmt::format("hsa-runtime-rocr4wsl-amdgpu {}", printable(*runtime)),
                      "https://github.com/ROCm/legacy-rocm-build/issues/3571"};
  finding.fix.push_back({fmt::format("rm {}*", pasted(*own)),
                         text("PyTorch then uses the machine's runtime, which supports WSL; repeat "
                              "this command after every installation of PyTorch")});
}

const Distribution* package_named(Examination& look, std::string_view name) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return nullptr;
  const auto found = std::find_if(all->begin(), all->end(),
                                  [&](const Distribution& one) { return one.name == name; });
  return found == all->end() ? nullptr : &*found;
}

/// Reports a missing package amdsmi, with which vLLM detects AMD GPUs. Without it, vLLM finds none.
void server_without_amdsmi(Examination& look, const Distribution& server) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  const bool* there = look.see(look.facts.parts.amdsmi);
  if (torch == nullptr || !torch->hip || !has_rocm_gpu(look) || there == nullptr || *there) return;
  Finding& finding =
      look.found(text("{} detects AMD's GPUs with the package amdsmi, which is missing: Failed to "
                      "infer device type",
                      named(server)));
  finding.evidence = {server.path, torch->path,
                      "https://github.com/vllm-project/vllm/issues/24576"};
  finding.fix.push_back({install_command(look.facts.python, {"/opt/rocm/share/amd_smi"}),
                         text("amdsmi is part of ROCm and must match ROCm's library; if that "
                              "folder is not writable, install from a copy of it")});
}

/// Reports two packages that both contain pynvml.py. The package that was installed last has
/// overwritten the file.
void two_pynvml(Examination& look, const Distribution& server) {
  const Distribution* old = package_named(look, "pynvml");
  const Distribution* nvidia = package_named(look, "nvidia-ml-py");
  // vLLM 0.7.3 and newer contain a copy of pynvml.py
  // (https://github.com/vllm-project/vllm/pull/12963).
  if (old == nullptr || nvidia == nullptr || !is_older(old->version, "12") ||
      !is_older(server.version, "0.7.3") || !machine_has_nvidia(look))
    return;
  Finding& finding = look.found(text(
      "{} and {} contain a module of the same name, and {} needs the module of the second package",
      named(*old), named(*nvidia), named(server)));
  finding.severity = Severity::kWarning;
  finding.evidence = {old->path, nvidia->path, "https://github.com/vllm-project/vllm/issues/9319"};
  finding.fix.push_back(
      {uninstall_command(look.facts.python, {"pynvml"}) + "\n" +
           install_command(look.facts.python, {"--force-reinstall", "--no-deps", "nvidia-ml-py"}),
       text("programs that import pynvml still work: nvidia-ml-py contains that module too")});
}

void servers_gpus(Examination& look) {
  const Distribution* server = package_named(look, "vllm");
  if (server == nullptr) return;
  server_without_amdsmi(look, *server);
  two_pynvml(look, *server);
}

constexpr auto kRocmRules = std::to_array<Rule>({
    {"WSL05", Layer::kLibraries, Severity::kError, true,
     msgid("in WSL, a PyTorch that uses its own ROCm runtime"), "", runtime_for_wsl},
    {"AMD09", Layer::kRuntime, Severity::kWarning, true,
     msgid("an integrated GPU that gets less memory than possible"), "", half_of_memory},
    {"AMD11", Layer::kDriver, Severity::kWarning, true,
     msgid("firmware files or a kernel with a known fault"), "", bad_firmware},
    {"FW29", Layer::kFramework, Severity::kError, true,
     msgid("a server without the package that detects its GPUs"), "", servers_gpus},
});

}  // namespace

std::span<const Rule> rocm_rules() {
  return kRocmRules;
}

}  // namespace berth::doctor
