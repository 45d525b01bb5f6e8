#include "doctor/redact.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/contains_any.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/facts/package_index.hpp"

namespace berth::doctor {
namespace {

// A variable is told only when its name says that it is about GPUs, libraries or Python: a token
// may hide in any other. Of programs and schedulers, which keep words, hosts and passwords in
// theirs, only those that a rule asks for.
constexpr auto kToldPrefixes = std::to_array<std::string_view>(
    {"CUDA_",   "CUDNN_", "NVIDIA_", "NV_",       "NCCL_",    "GLOO_", "PYTORCH_", "XLA_",
     "LD_",     "HIP_",   "ROCR_",   "HSA_",      "ROCM_",    "GPU_",  "ZE_",      "ONEAPI_",
     "SYCL_",   "OMP_",   "MKL_",    "OPENBLAS_", "NUMEXPR_", "KMP_",  "GOMP_",    "BNB_",
     "TRITON_", "CUPY_",  "NUMBA_",  "NUMBAPRO_", "OLLAMA_"});
constexpr auto kTold = std::to_array<std::string_view>({"PATH",
                                                        "VIRTUAL_ENV",
                                                        "CONDA_PREFIX",
                                                        "CONDA_DEFAULT_ENV",
                                                        "PYTHONPATH",
                                                        "PYTHONHOME",
                                                        "PYTHONNOUSERSITE",
                                                        "HOME",
                                                        "LANG",
                                                        "LC_ALL",
                                                        "WORLD_SIZE",
                                                        "RANK",
                                                        "LOCAL_RANK",
                                                        "LOCAL_WORLD_SIZE",
                                                        "container",
                                                        "MASTER_PORT",
                                                        "OCL_ICD_VENDORS",
                                                        "OCL_ICD_FILENAMES",
                                                        "ACCELERATE_USE_CPU",
                                                        "AMD_LOG_LEVEL",
                                                        "CUBLAS_WORKSPACE_CONFIG",
                                                        "DS_ACCELERATOR",
                                                        "DS_SKIP_CUDA_CHECK",
                                                        "JUPYTER_DATA_DIR",
                                                        "JAX_CUDA_VISIBLE_DEVICES",
                                                        "JAX_DEBUG_NANS",
                                                        "JAX_DISABLE_JIT",
                                                        "JAX_ENABLE_X64",
                                                        "JAX_PLATFORMS",
                                                        "JAX_PLATFORM_NAME",
                                                        "LLAMA_ARG_DEVICE",
                                                        "LLAMA_ARG_N_GPU_LAYERS",
                                                        "MIOPEN_DISABLE_CACHE",
                                                        "MXNET_ENGINE_TYPE",
                                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                                        "OMPI_COMM_WORLD_RANK",
                                                        "OMPI_COMM_WORLD_SIZE",
                                                        "SLURM_CPUS_ON_NODE",
                                                        "SLURM_GPUS_PER_TASK",
                                                        "SLURM_GPU_BIND",
                                                        "SLURM_GPUS_ON_NODE",
                                                        "SLURM_JOB_GPUS",
                                                        "SLURM_JOB_ID",
                                                        "SLURM_JOB_NUM_NODES",
                                                        "SLURM_LOCALID",
                                                        "SLURM_NNODES",
                                                        "SLURM_NTASKS",
                                                        "SLURM_PROCID",
                                                        "SLURM_STEP_GPUS",
                                                        "SLURM_STEP_ID",
                                                        "TF_CPP_MIN_LOG_LEVEL",
                                                        "TF_CUDNN_USE_AUTOTUNE",
                                                        "TF_ENABLE_ONEDNN_OPTS",
                                                        "TF_FORCE_GPU_ALLOW_GROWTH",
                                                        "TF_FORCE_UNIFIED_MEMORY",
                                                        "TF_GPU_ALLOCATOR",
                                                        "TF_USE_LEGACY_KERAS",
                                                        "TF_XLA_FLAGS",
                                                        "TORCHDYNAMO_DISABLE",
                                                        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
                                                        "TORCH_COMPILE_DISABLE",
                                                        "TORCH_CUDA_ARCH_LIST",
                                                        "TORCH_EXTENSIONS_DIR",
                                                        "TORCH_DISTRIBUTED_DEBUG",
                                                        "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL",
                                                        "UCX_TLS",
                                                        "VLLM_ATTENTION_BACKEND",
                                                        "VLLM_CACHE_ROOT",
                                                        "VLLM_CUDART_SO_PATH",
                                                        "VLLM_NCCL_SO_PATH",
                                                        "VLLM_PORT",
                                                        "VLLM_TARGET_DEVICE",
                                                        "AMD_SERIALIZE_KERNEL",
                                                        "CC",
                                                        "CONDARC",
                                                        "CONDA_EXE",
                                                        "CONDA_ENVS_PATH",
                                                        "CONDA_ENVS_DIRS",
                                                        "CONDA_ROOT",
                                                        "FLAGS_check_nan_inf",
                                                        "FLAGS_fraction_of_gpu_memory_to_use",
                                                        "HF_HOME",
                                                        "MAMBA_ROOT_PREFIX",
                                                        "NVCC_APPEND_FLAGS",
                                                        "NVCC_CCBIN",
                                                        "NVCC_PREPEND_FLAGS",
                                                        "PYTHONUSERBASE",
                                                        "TMPDIR",
                                                        "TORCHINDUCTOR_CACHE_DIR",
                                                        "WSL_DISTRO_NAME",
                                                        "XDG_CONFIG_DIRS",
                                                        "XDG_CONFIG_HOME",
                                                        "VLLM_WORKER_MULTIPROC_METHOD",
                                                        "XDG_CACHE_HOME"});
// That they are set matters; what they say is a host, or a job's own affair.
constexpr auto kToldAsSet = std::to_array<std::string_view>(
    {"KUBERNETES_SERVICE_HOST", "MASTER_ADDR", "USER", "LOGNAME", "LNAME", "USERNAME"});
// Where packages come from: that somebody said so, without the place.
constexpr auto kIndices = std::to_array<std::string_view>(
    {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "UV_INDEX_URL", "UV_DEFAULT_INDEX",
     "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_NO_INDEX", "CONDA_CHANNELS"});
constexpr auto kSecret = std::to_array<std::string_view>(
    {"TOKEN", "SECRET", "PASS", "PWD", "KEY", "CRED", "AUTH", "JWT", "COOKIE", "HOST", "ADDR",
     "COMM_ID", "ARGV", "_ARGS", "URL", "URI", "PROXY"});
// Of the kernel's command line: passwords of disks and addresses stand there, too.
constexpr auto kToldParameters =
    std::to_array<std::string_view>({"nvidia",
                                     "nouveau",
                                     "amdgpu",
                                     "ttm.",
                                     "radeon",
                                     "i915",
                                     "xe.",
                                     "iommu",
                                     "intel_iommu",
                                     "amd_iommu",
                                     "pci",
                                     "nomodeset",
                                     "modprobe.blacklist",
                                     "module_blacklist",
                                     "rd.driver.blacklist",
                                     "rdblacklist",
                                     "initcall_blacklist",
                                     "vfio",
                                     "lockdown",
                                     "module.sig_enforce",
                                     "cgroup",
                                     "systemd.unified_cgroup_hierarchy",
                                     "hugepages",
                                     "default_hugepages",
                                     "video",
                                     "acpi",
                                     "efi",
                                     "ro",
                                     "rw",
                                     "quiet",
                                     "splash",
                                     "mitigations",
                                     "numa"});
constexpr auto kLogWords = std::to_array<std::string_view>({"NVRM",
                                                            "nvidia",
                                                            "nvlink",
                                                            "nouveau",
                                                            "SXid",
                                                            "amdgpu",
                                                            "kfd",
                                                            "drm",
                                                            "i915",
                                                            " xe ",
                                                            "AER",
                                                            "pcieport",
                                                            "PCIe",
                                                            "IOMMU",
                                                            "iommu",
                                                            "DMAR",
                                                            "BAR ",
                                                            "secureboot",
                                                            "Secure boot",
                                                            "Lockdown",
                                                            "lockdown",
                                                            "module verification",
                                                            "Loading of",
                                                            "PM: suspend",
                                                            "hmm",
                                                            "devmem",
                                                            "bbswitch",
                                                            "atombios",
                                                            "D3cold to D0",
                                                            "blocked for more than",
                                                            "hibernation",
                                                            "aer_uncor_status",
                                                            "BERT",
                                                            "rejected",
                                                            "CmpltTO",
                                                            "force_probe",
                                                            "graphics device",
                                                            "oom-kill:",
                                                            "Out of memory: Killed",
                                                            "IO_PAGE_FAULT"});
// What ended for want of memory is told where everybody has such a program.
constexpr auto kPrograms = std::to_array<std::string_view>(
    {"python", "pt_main_thread", "ollama", "llama-", "vllm", "VLLM", "triton", "ray::", "torchrun",
     "jupyter", "ipykernel", "text-generation", "whisper", "sglang"});
constexpr auto kCompiles = std::to_array<std::string_view>(
    {"ninja", "nvcc", "cicc", "cudafe++", "ptxas", "fatbinary", "cc1plus"});

// Whether something is being installed is asked.
constexpr auto kInstalls =
    std::to_array<std::string_view>({"dpkg", "apt", "apt-get", "unattended-upgr"});

template <typename Words>
bool begins_with_any(std::string_view text, const Words& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.starts_with(word); });
}

bool is_told(std::string_view name) {
  if (contains_any(name, kSecret)) return false;
  return std::find(kTold.begin(), kTold.end(), name) != kTold.end() || name.ends_with("_DEVICE") ||
         begins_with_any(name, kToldPrefixes);
}

/// "python3[4711]: segfault …" → "…[4711]: segfault …"
std::string without_word_before_pid(std::string_view line) {
  for (auto at = line.find('['); at != std::string_view::npos; at = line.find('[', at + 1)) {
    const auto end = line.find_first_not_of("0123456789", at + 1);
    if (end == at + 1 || end == std::string_view::npos || !line.substr(end).starts_with("]:"))
      continue;
    const auto blank = line.substr(0, at).find_last_of(" \t");
    const std::size_t begin = blank == std::string_view::npos ? 0 : blank + 1;
    return std::string(line.substr(0, begin)) + "…" + std::string(line.substr(at));
  }
  return std::string(line);
}

/// Only what rules ask of it, and that something else stood there.
std::string redacted_command_line(std::string_view text) {
  std::string told;
  for (const std::string_view word : split(trim(text), ' ')) {
    if (word.empty()) continue;
    if (!told.empty()) told += ' ';
    told += begins_with_any(word, kToldParameters) ? std::string(word) : "…";
  }
  return told + "\n";
}

std::string replaced(std::string_view line, std::string_view begin, char end) {
  const auto at = line.find(begin);
  if (at == std::string_view::npos) return std::string(line);
  const auto stop = line.find(end, at);
  std::string told(line.substr(0, at + begin.size()));
  told += "…";
  if (stop != std::string_view::npos) told += line.substr(stop);
  return told;
}

/// "oom-kill:…,task_memcg=/user.slice/…,task=train.py,pid=4711" and "Killed process 4711
/// (train.py)".
std::string without_ended_name(std::string_view line) {
  std::string told = replaced(line, "task_memcg=", ',');
  for (const auto& [begin, end] : {std::pair(",task=", ','), std::pair("Killed process ", ')')}) {
    auto at = told.find(begin);
    if (at == std::string::npos) continue;
    at = end == ')' ? told.find('(', at) + 1 : at + std::string_view(begin).size();
    const auto stop = told.find(end, at);
    if (at == 0 || stop == std::string::npos) continue;
    if (!begins_with_any(std::string_view(told).substr(at), kPrograms) &&
        !begins_with_any(std::string_view(told).substr(at), kCompiles))
      told.replace(at, stop - at, "…");
  }
  return told;
}

/// "Xid …: 31, pid=4711, name=python, Ch 8" → "… pid=4711, name=…, Ch 8"; "INFO: task python:4711
/// blocked …" → "INFO: task …:4711 blocked …".
std::string without_process_name(std::string_view line) {
  if (contains_any(line, std::to_array<std::string_view>({"oom-kill:", "Out of memory: Killed"})))
    return without_ended_name(line);
  return line.find("blocked for more than") == std::string_view::npos
             ? replaced(without_word_before_pid(line), "name=", ',')
             : replaced(line, "task ", ':');
}

}  // namespace

std::string redacted_hosts(std::string_view text, std::string_view own) {
  std::string told;
  for (const std::string_view line : split(text, '\n')) {
    std::string row(line.substr(0, line.find('#'))), kept;
    std::replace(row.begin(), row.end(), '\t', ' ');
    bool is_wanted = false;
    for (const std::string_view word : split(row, ' ')) {
      if (word.empty()) continue;
      const bool is_own = !kept.empty() && word == own;
      const bool is_plain =
          is_own || kept.empty() || word.starts_with("localhost") || word.starts_with("ip6-");
      is_wanted = is_wanted || (!kept.empty() && is_plain);
      kept += (kept.empty() ? "" : " ") + (is_own ? "HOST" : is_plain ? std::string(word) : "…");
    }
    if (is_wanted) told += kept + "\n";
  }
  return told;
}

std::string redacted_file(std::string_view path, std::string_view text) {
  if (path == "/proc/cmdline") return redacted_command_line(text);
  if (path == "/proc/stat") {
    const auto at = text.find("btime ");
    return at == std::string_view::npos
               ? ""
               : std::string(text.substr(at, text.find('\n', at) - at)) + "\n";
  }
  // Not who built it, and where.
  if (path == "/proc/version") return fmt::format("Linux version ({})\n", kernel_compiler(text));
  const auto parts = split(path, '/');  // "", "proc", "4711", "stat"
  if (parts.size() != 4 || parts[1] != "proc" || parts[2].empty() ||
      parts[2].find_first_not_of("0123456789") != std::string_view::npos)
    return redacted_settings(path, text);
  // Which of NVIDIA's daemons run is what a rule asks, and whether something compiles.
  const auto told = [](std::string_view name) {
    const std::string_view word = name.substr(0, name.find_first_of(")\n"));
    return name.starts_with("nv-") || name.starts_with("nvidia-") ||
           std::find(kCompiles.begin(), kCompiles.end(), word) != kCompiles.end() ||
           std::find(kInstalls.begin(), kInstalls.end(), word) != kInstalls.end() ||
           (word.starts_with("python") &&
            word.find_first_not_of("0123456789.", 6) == std::string_view::npos);
  };
  if (parts[3] == "comm") return told(text) ? std::string(text) : "…\n";
  if (parts[3] != "stat") return std::string(text);
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  if (told(text.substr(open + 1))) return std::string(text);
  return std::string(text.substr(0, open + 1)) + "…" + std::string(text.substr(close));
}

Environment redacted_environment(const Environment& environment, std::set<std::string>& dropped) {
  Environment told;
  for (const auto& [name, value] : environment) {
    if (std::find(kToldAsSet.begin(), kToldAsSet.end(), name) != kToldAsSet.end())
      told.emplace(
          name, value.empty() || value == "localhost" || value.starts_with("127.") ? value : "…");
    else if (std::find(kIndices.begin(), kIndices.end(), name) != kIndices.end())
      told.emplace(name, without_hosts(value));
    else if (is_told(name))
      told.emplace(name, value.find("://") == std::string::npos ? value : "…");
    else
      dropped.insert(name);
  }
  return told;
}

std::string redacted_log(std::string_view log) {
  std::string told;
  for (const std::string_view line : split(log, '\n'))
    if (contains_any(line, kLogWords) && line.find("Command line:") == std::string_view::npos)
      told += without_process_name(line) + "\n";
  return told;
}

}  // namespace berth::doctor
