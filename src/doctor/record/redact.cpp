#include "doctor/record/redact.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/facts/package_index.hpp"
#include "doctor/knowledge/contains_any.hpp"
#include "doctor/record/shareable_names.hpp"

namespace berth::doctor {
namespace {

// Variables are kept only if their name shows that they are about GPUs, libraries or Python,
// because any other could contain a token. Variables of programs and schedulers can contain words,
// hosts and passwords, so only those that a rule reads are kept.
constexpr auto kShareablePrefixes = std::to_array<std::string_view>(
    {"CUDA_",   "CUDNN_",  "NVIDIA_", "NV_",    "NCCL_",     "GLOO_",    "PYTORCH_",    "XLA_",
     "LD_",     "HIP_",    "ROCR_",   "HSA_",   "ROCM_",     "GPU_MAX_", "GPU_DEVICE_", "ZE_",
     "ONEAPI_", "SYCL_",   "OMP_",    "MKL_",   "OPENBLAS_", "NUMEXPR_", "KMP_",        "GOMP_",
     "BNB_",    "TRITON_", "CUPY_",   "NUMBA_", "NUMBAPRO_", "OLLAMA_"});
constexpr auto kShareable =
    std::to_array<std::string_view>({"PATH",
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
// For these, only whether they are set is kept. Their values are hosts or private.
constexpr auto kShareableAsSet = std::to_array<std::string_view>(
    {"KUBERNETES_SERVICE_HOST", "MASTER_ADDR", "USER", "LOGNAME", "LNAME", "USERNAME"});
// Variables for package sources. The bundle says that one is configured, without its address.
constexpr auto kIndices = std::to_array<std::string_view>(
    {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "UV_INDEX_URL", "UV_DEFAULT_INDEX",
     "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_NO_INDEX", "CONDA_CHANNELS"});
// Prefixes of variables whose values rules read completely. From the values of all others, only
// numbers, paths and common words are kept.
constexpr std::string_view kAsked =
    "BNB_CUDA_VERSION CUDA_CACHE_DISABLE CUDA_CACHE_MAXSIZE CUDA_DEVICE_MAX_CONNECTIONS "
    "CUDA_DEVICE_MEMORY_LIMIT CUDA_DEVICE_ORDER CUDA_DISABLE_PTX_JIT "
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION CUDA_FORCE_PTX_JIT CUDA_HOME CUDA_INJECTION64_PATH "
    "CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_MPS_ACTIVE_THREAD_PERCENTAGE "
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT CUDA_MPS_PIPE_DIRECTORY CUDA_PATH CUDA_VERSION "
    "CUDA_VISIBLE_DEVICES CUDNN_LOGINFO_DBG CUPY_ACCELERATORS CUPY_CACHE_IN_MEMORY "
    "GPU_DEVICE_ORDINAL HIP_LAUNCH_BLOCKING HIP_PATH HIP_PLATFORM HIP_VISIBLE_DEVICES "
    "HSA_DISABLE_CACHE HSA_ENABLE_SDMA HSA_OVERRIDE_GFX_VERSION HSA_TOOLS_LIB "
    "KMP_DUPLICATE_LIB_OK LD_LIBRARY_PATH LD_PRELOAD MKL_NUM_THREADS MKL_SERVICE_FORCE_INTEL "
    "MKL_THREADING_LAYER NCCL_ALGO NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT NCCL_BUFFSIZE "
    "NCCL_DEBUG NCCL_GRAPH_FILE NCCL_IB_DISABLE NCCL_IB_HCA NCCL_IB_TIMEOUT NCCL_MNNVL_ENABLE "
    "NCCL_NET NCCL_NET_GDR_LEVEL NCCL_NET_PLUGIN NCCL_NTHREADS NCCL_P2P_DISABLE NCCL_P2P_LEVEL "
    "NCCL_PROTO NCCL_SHM_DISABLE NCCL_TOPO_FILE NUMBAPRO_CUDALIB NUMBAPRO_LIBDEVICE NUMBAPRO_NVVM "
    "NUMBA_CUDA_DRIVER NUMBA_CUDA_USE_NVIDIA_BINDING NUMBA_DISABLE_CUDA NUMBA_DISABLE_JIT "
    "NUMBA_ENABLE_CUDASIM NUMBA_FORCE_CUDA_CC NVIDIA_DISABLE_REQUIRE NVIDIA_DRIVER_CAPABILITIES "
    "NVIDIA_REQUIRE_CUDA NVIDIA_TF32_OVERRIDE NVIDIA_VISIBLE_DEVICES NV_CUDA_LIB_VERSION "
    "NV_CUDNN_VERSION OMP_NUM_THREADS ONEAPI_DEVICE_SELECTOR OPENBLAS_NUM_THREADS "
    "PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF "
    "PYTORCH_NO_CUDA_MEMORY_CACHING PYTORCH_ROCM_ARCH ROCM_HOME ROCM_PATH ROCM_VERSION "
    "ROCR_VISIBLE_DEVICES SYCL_DEVICE_FILTER TRITON_ALWAYS_COMPILE TRITON_CACHE_DIR TRITON_HOME "
    "TRITON_INTERPRET TRITON_LIBCUDA_PATH TRITON_PTXAS_BLACKWELL_PATH TRITON_PTXAS_PATH XLA_FLAGS "
    "XLA_PYTHON_CLIENT_ALLOCATOR XLA_PYTHON_CLIENT_MEM_FRACTION XLA_PYTHON_CLIENT_PREALLOCATE "
    "ZE_AFFINITY_MASK ZE_ENABLE_NULL_DRIVER";
// In values of these variables, a number follows a word and a dot does not mean a host.
constexpr auto kOptions = std::to_array<std::string_view>(
    {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
     "CUBLAS_WORKSPACE_CONFIG", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "CONDA_DEFAULT_ENV",
     "WSL_DISTRO_NAME", "LANG", "LC_ALL"});
constexpr auto kSecret = std::to_array<std::string_view>(
    {"TOKEN", "SECRET", "PASS", "PWD", "KEY", "CRED", "AUTH", "JWT", "COOKIE", "HOST", "ADDR",
     "COMM_ID", "ARGV", "_ARGS", "URL", "URI", "PROXY"});
// Variables of drivers and libraries whose values are machines and addresses.
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
// Names of programs that were killed for lack of memory. These common names are kept.
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

bool is_shareable(std::string_view name) {
  if (contains_any(name, kSecret)) return false;
  if (std::find(kShareable.begin(), kShareable.end(), name) != kShareable.end()) return true;
  return name.ends_with("IFNAME") || name == "OLLAMA_ORIGINS" || name == "OLLAMA_REMOTES" ||
         ((name.ends_with("_DEVICE") || begins_with_any(name, kShareablePrefixes)) &&
          !contains_any(name, kMachine));
}

/// Whether the word is a name with a port, or an address with colons: "gpu8:1234", "fe80::1",
/// "[fe80::1]:80".
bool is_address_with_colons(std::string_view word) {
  const std::size_t last = word.rfind(':');
  if (last == std::string_view::npos || word.find('/') != std::string_view::npos) return false;
  constexpr std::string_view kDigits = "0123456789", kLetters = "abcdefABCDEF";
  const bool has_port =
      word.size() - last > 2 && word.find_first_not_of(kDigits, last + 1) == word.npos;
  if (has_port && std::any_of(word.begin(), word.end(),
                              [](unsigned char c) { return std::isalpha(c) != 0 || c == ']'; }))
    return true;
  return word.find(':') != last &&
         (word.find("::") != word.npos || word.find_first_of(kLetters) != word.npos ||
          std::count(word.begin(), word.end(), ':') > 4) &&
         word.find_first_not_of("0123456789abcdefABCDEF:[]%") == word.npos;
}

/// Whether the word is an address: "10.0.0.7:1234", "gpu7.corp.example", "//fs/x". That is four
/// numbers, or words with dots that are not a file name.
bool is_address(std::string_view word) {
  if (word.starts_with("//") || is_address_with_colons(word)) return true;
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

/// Whether a value of Ollama's variables is kept: a switch, a number or a file. Others may list
/// hosts.
bool is_plain_setting(std::string_view value) {
  constexpr auto kWords = std::to_array<std::string_view>({"true", "false", "on", "off"});
  return value.starts_with('/') || value.starts_with("cpu") || value.starts_with("cuda") ||
         value.starts_with("rocm") || value.find_first_not_of("0123456789.-hms") == value.npos ||
         std::find(kWords.begin(), kWords.end(), value) != kWords.end();
}

/// Whether the word says nothing about the user: a number, a path, a GPU, or common words. "gpu8"
/// is the name of a machine.
bool is_everybodys(std::string_view word) {
  constexpr std::string_view kDigits = "0123456789";
  return word.starts_with('/') || word.starts_with("GPU-") || word.starts_with("MIG-") ||
         word.find_first_not_of("0123456789.+-") == word.npos ||
         (word.find_first_of(kDigits) == word.npos && is_common(word)) ||
         (word.starts_with("cuda:") && word.find_first_not_of(kDigits, 5) == word.npos);
}

bool is_asked(std::string_view name) {
  const auto names = split(kAsked, ' ');
  return name.ends_with("IFNAME") || name.starts_with("OLLAMA_") ||
         std::find(names.begin(), names.end(), name) != names.end();
}

/// Keeps the entry of "name=value:name=value" that a rule reads.
std::string redacted_tunables(std::string_view value) {
  std::string redacted;
  for (const std::string_view one : split(value, ':'))
    if (one.starts_with("glibc.rtld.execstack="))
      redacted += (redacted.empty() ? "" : ":") + std::string(one.substr(0, one.find('=') + 2));
  return redacted;
}

std::string redacted_value(std::string_view name, const std::string& value) {
  if (name == "GLIBC_TUNABLES") return redacted_tunables(value);
  if (value.find("://") != std::string::npos ||
      (name.starts_with("OLLAMA_") && !is_plain_setting(value)) ||
      (name.ends_with("_DEVICE") && value.find('/') != std::string::npos))
    return "…";
  // Rules only need to know whether a compiler is selected. The rest contains paths and
  // definitions.
  if (name.starts_with("NVCC_") && name.ends_with("_FLAGS"))
    return value.find("ccbin") != std::string::npos ? "-ccbin …" : value.empty() ? "" : "…";
  if (std::find(kOptions.begin(), kOptions.end(), name) != kOptions.end())
    return value.find('@') == std::string::npos ? value : "…";
  const bool is_kept_whole =
      std::find(kShareable.begin(), kShareable.end(), name) != kShareable.end();
  const bool is_known = is_kept_whole || is_asked(name);
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t end = std::min(value.find_first_of(" ,;=", at), value.size());
    const std::string_view word = std::string_view(value).substr(at, end - at);
    const bool is_path = is_kept_whole && word.starts_with('/');  // "/opt/python@3.12/bin"
    if (is_address(word) || word.starts_with("-D") || (!is_known && !is_everybodys(word)) ||
        (!is_path && word.find('@') != word.npos))
      return "…";
    at = end + 1;
  }
  return value;
}

/// Replaces the program's name before a pid: "python3[4711]: segfault …" → "…[4711]: segfault …";
/// also in "traps: python3[4711] general …".
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
  std::string redacted(line.substr(0, at + begin.size()));
  redacted += "…";
  if (stop != std::string_view::npos) redacted += line.substr(stop);
  return redacted;
}

/// Replaces the program's name in "oom-kill:…,task_memcg=/user.slice/…,task=train.py,pid=4711" and
/// in "Killed process 4711 (train.py)".
std::string without_ended_name(std::string_view line) {
  std::string redacted = replaced(line, "task_memcg=", ',');
  for (const auto& [begin, end] : {std::pair(",task=", ','), std::pair("Killed process ", ')')}) {
    auto at = redacted.find(begin);
    if (at == std::string::npos) continue;
    at = end == ')' ? redacted.find('(', at) + 1 : at + std::string_view(begin).size();
    const auto stop = redacted.find(end, at);
    if (at == 0 || stop == std::string::npos) continue;
    if (!begins_with_any(std::string_view(redacted).substr(at), kPrograms) &&
        !begins_with_any(std::string_view(redacted).substr(at), kCompiles))
      redacted.replace(at, stop - at, "…");
  }
  return redacted;
}

/// Replaces the program's name: "Xid …: 31, pid=4711, name=python, Ch 8" → "… pid=4711, name=…, Ch
/// 8"; "INFO: task python:4711 blocked …" → "INFO: task …:4711 blocked …".
std::string without_process_name(std::string_view line) {
  if (contains_any(line, std::to_array<std::string_view>({"oom-kill:", "Out of memory: Killed"})))
    return without_ended_name(line);
  if (line.find("blocked for more than") != std::string_view::npos)
    return replaced(line, "task ", ':');
  std::string redacted = without_word_before_pid(line);
  // A name may contain a comma. In an Xid line, the text after the name begins with a space.
  if (const auto at = redacted.find(", name="); at != std::string::npos) {
    const auto stop = redacted.find(", ", at + 7);
    redacted.replace(at + 7, (stop == std::string::npos ? redacted.size() : stop) - at - 7, "…");
  } else {
    redacted = replaced(redacted, "name=", ',');
  }
  // The formats that amdgpu, i915 and the kernel use.
  for (const auto& [begin, end] :
       {std::pair("rocess ", " pid"), std::pair("thread ", " pid"), std::pair("Comm: ", " "),
        std::pair("comm=\"", "\""), std::pair("Lockdown: ", ":"), std::pair(", in ", " […")}) {
    for (auto at = redacted.find(begin); at != std::string::npos; at = redacted.find(begin, at)) {
      at += std::string_view(begin).size();
      const auto stop = redacted.find(end, at);
      if (stop != std::string::npos && stop > at) redacted.replace(at, stop - at, "…");
    }
  }
  return redacted;
}

}  // namespace

Environment redacted_environment(const Environment& environment, std::set<std::string>& dropped) {
  Environment redacted;
  for (const auto& [name, value] : environment) {
    if (std::find(kShareableAsSet.begin(), kShareableAsSet.end(), name) != kShareableAsSet.end())
      redacted.emplace(
          name, value.empty() || value == "localhost" || value.starts_with("127.") ? value : "…");
    // For rootless Docker, DOCKER_HOST is a socket in this user's folder.
    else if (name == "DOCKER_HOST")
      redacted.emplace(name, value.starts_with("unix:///run/user/") ? "unix:///run/user/…" : "…");
    else if (name == "DOCKER_CONTEXT")
      redacted.emplace(name, value == "desktop-linux" || value == "default" ? value : "…");
    else if (std::find(kIndices.begin(), kIndices.end(), name) != kIndices.end())
      redacted.emplace(name, without_hosts(value));
    else if (is_shareable(name))
      redacted.emplace(name, redacted_value(name, value));
    else
      dropped.insert(name);
  }
  return redacted;
}

std::string redacted_log(std::string_view log) {
  std::string redacted;
  for (const std::string_view line : split(log, '\n'))
    if (contains_any(line, kLogWords) && line.find("ommand line:") == line.npos &&
        line.find("audit") == line.npos && line.find("apparmor=") == line.npos) {
      // A line has the form "Nov 23 01:28:19 gpu7 kernel: NVRM: …".
      const auto kernel = line.find(" kernel: ");
      const bool is_of_host_kernel = kernel < 64 && !line.starts_with('[');
      redacted += without_process_name(is_of_host_kernel ? line.substr(kernel + 9) : line) + "\n";
    }
  return redacted;
}

}  // namespace berth::doctor
