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
    {"CUDA_",   "CUDNN_",  "NVIDIA_", "NV_",    "NCCL_",     "GLOO_",    "PYTORCH_",    "XLA_",
     "LD_",     "HIP_",    "ROCR_",   "HSA_",   "ROCM_",     "GPU_MAX_", "GPU_DEVICE_", "ZE_",
     "ONEAPI_", "SYCL_",   "OMP_",    "MKL_",   "OPENBLAS_", "NUMEXPR_", "KMP_",        "GOMP_",
     "BNB_",    "TRITON_", "CUPY_",   "NUMBA_", "NUMBAPRO_", "OLLAMA_"});
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
                                                        "GLIBC_TUNABLES",
                                                        "FLAGS_fraction_of_gpu_memory_to_use",
                                                        "FLASHINFER_DISABLE_VERSION_CHECK",
                                                        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION",
                                                        "DOCKER_CONFIG",
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
                                                        "XDG_CACHE_HOME",
                                                        "CONDA_BUILD_SYSROOT",
                                                        "PIP_CONFIG_FILE",
                                                        "UV_CONFIG_FILE",
                                                        "UV_NO_CONFIG"});
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
// Of variables that only begin as those of drivers and libraries do: machines and addresses.
constexpr auto kMachine = std::to_array<std::string_view>(
    {"SERVER", "NODE", "ORIGIN", "REMOTE", "PEER", "MASTER", "COORDINATOR", "ENDPOINT", "CLUSTER",
     "DOMAIN", "USER", "NAME", "MAIL", "PROJECT", "COMMENT"});
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

template <typename Words>
bool begins_with_any(std::string_view text, const Words& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.starts_with(word); });
}

bool is_told(std::string_view name) {
  if (contains_any(name, kSecret)) return false;
  if (std::find(kTold.begin(), kTold.end(), name) != kTold.end()) return true;
  return name.ends_with("IFNAME") || name == "OLLAMA_ORIGINS" || name == "OLLAMA_REMOTES" ||
         ((name.ends_with("_DEVICE") || begins_with_any(name, kToldPrefixes)) &&
          !contains_any(name, kMachine));
}

/// "10.0.0.7:1234", "gpu7.corp.example": of four numbers, or of words with dots, and no file.
bool is_address(std::string_view word) {
  word = word.substr(0, word.find(':'));
  const auto parts = split(word, '.');
  if (parts.size() < 2 || word.find('/') != std::string_view::npos) return false;
  const auto is_number = [](std::string_view part) {
    return !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == part.npos;
  };
  if (parts.size() == 4 && std::all_of(parts.begin(), parts.end(), is_number)) return true;
  constexpr auto kFiles = std::to_array<std::string_view>(
      {"so", "py", "json", "xml", "txt", "conf", "toml", "yaml", "yml", "bin", "cfg", "log"});
  const std::string_view last = parts.back();
  return word.find(".so.") == word.npos && last.size() > 1 &&
         std::all_of(last.begin(), last.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }) &&
         std::find(kFiles.begin(), kFiles.end(), last) == kFiles.end();
}

/// Ollama's are told as what they are set to where that is a switch, a number or a file; any other
/// one may be a list of hosts.
bool is_plain_setting(std::string_view value) {
  constexpr auto kWords = std::to_array<std::string_view>({"true", "false", "on", "off"});
  return value.starts_with('/') || value.starts_with("cpu") || value.starts_with("cuda") ||
         value.starts_with("rocm") || value.find_first_not_of("0123456789.-hms") == value.npos ||
         std::find(kWords.begin(), kWords.end(), value) != kWords.end();
}

/// Of "name=value:name=value" the one that a rule asks for.
std::string told_tunables(std::string_view value) {
  std::string told;
  for (const std::string_view one : split(value, ':'))
    if (one.starts_with("glibc.rtld.execstack="))
      told += (told.empty() ? "" : ":") + std::string(one.substr(0, one.find('=') + 2));
  return told;
}

std::string told_value(std::string_view name, const std::string& value) {
  if (name == "GLIBC_TUNABLES") return told_tunables(value);
  if (value.find("://") != std::string::npos ||
      (name.starts_with("OLLAMA_") && !is_plain_setting(value)) ||
      (name.ends_with("_DEVICE") && value.find('/') != std::string::npos))
    return "…";
  if (std::find(kTold.begin(), kTold.end(), name) != kTold.end()) return value;
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t end = std::min(value.find_first_of(" ,;=", at), value.size());
    if (is_address(std::string_view(value).substr(at, end - at)) || value.find('@') < end)
      return "…";
    at = end + 1;
  }
  return value;
}

/// "python3[4711]: segfault …" → "…[4711]: segfault …"; also "traps: python3[4711] general …".
std::string without_word_before_pid(std::string_view line) {
  for (auto at = line.find('['); at != std::string_view::npos; at = line.find('[', at + 1)) {
    const auto end = line.find_first_not_of("0123456789", at + 1);
    if (end == at + 1 || end == std::string_view::npos ||
        !(line.substr(end).starts_with("]:") || line.substr(end).starts_with("] ") ||
          line.substr(end) == "]"))
      continue;
    const std::size_t last = line.substr(0, at).find_last_not_of(' ');
    if (last == std::string_view::npos) continue;
    const auto blank = line.substr(0, last).find_last_of(" \t");
    const std::size_t begin = blank == std::string_view::npos ? 0 : blank + 1;
    return std::string(line.substr(0, begin)) + "…" + std::string(line.substr(at));
  }
  return std::string(line);
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
  if (line.find("blocked for more than") != std::string_view::npos)
    return replaced(line, "task ", ':');
  std::string told = without_word_before_pid(line);
  // A name may have a comma; what follows it in an Xid begins with a blank.
  if (const auto at = told.find(", name="); at != std::string::npos) {
    const auto stop = told.find(", ", at + 7);
    told.replace(at + 7, (stop == std::string::npos ? told.size() : stop) - at - 7, "…");
  } else {
    told = replaced(told, "name=", ',');
  }
  // amdgpu's, i915's and the kernel's own ways to say who it was.
  for (const auto& [begin, end] :
       {std::pair("rocess ", " pid"), std::pair("thread ", " pid"), std::pair("Comm: ", " "),
        std::pair("comm=\"", "\""), std::pair("Lockdown: ", ":"), std::pair(", in ", " […")}) {
    for (auto at = told.find(begin); at != std::string::npos; at = told.find(begin, at)) {
      at += std::string_view(begin).size();
      const auto stop = told.find(end, at);
      if (stop != std::string::npos && stop > at) told.replace(at, stop - at, "…");
    }
  }
  return told;
}

}  // namespace

Environment redacted_environment(const Environment& environment, std::set<std::string>& dropped) {
  Environment told;
  for (const auto& [name, value] : environment) {
    if (std::find(kToldAsSet.begin(), kToldAsSet.end(), name) != kToldAsSet.end())
      told.emplace(
          name, value.empty() || value == "localhost" || value.starts_with("127.") ? value : "…");
    // Of a Docker without root it is a socket in this user's own folder.
    else if (name == "DOCKER_HOST")
      told.emplace(name, value.starts_with("unix:///run/user/") ? "unix:///run/user/…" : "…");
    else if (name == "DOCKER_CONTEXT")
      told.emplace(name, value == "desktop-linux" || value == "default" ? value : "…");
    else if (std::find(kIndices.begin(), kIndices.end(), name) != kIndices.end())
      told.emplace(name, without_hosts(value));
    else if (is_told(name))
      told.emplace(name, told_value(name, value));
    else
      dropped.insert(name);
  }
  return told;
}

std::string redacted_log(std::string_view log) {
  std::string told;
  for (const std::string_view line : split(log, '\n'))
    if (contains_any(line, kLogWords) && line.find("ommand line:") == line.npos &&
        line.find("audit") == line.npos && line.find("apparmor=") == line.npos) {
      // "Nov 23 01:28:19 gpu7 kernel: NVRM: …"
      const auto kernel = line.find(" kernel: ");
      const bool is_told_by_host = kernel < 64 && !line.starts_with('[');
      told += without_process_name(is_told_by_host ? line.substr(kernel + 9) : line) + "\n";
    }
  return told;
}

}  // namespace berth::doctor
