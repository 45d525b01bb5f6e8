#include "doctor/redact.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// A variable is told only when its name says that it is about GPUs, libraries or Python: a token
// may hide in any other.
constexpr auto kToldPrefixes = std::to_array<std::string_view>(
    {"CUDA_",  "NVIDIA_", "NV_",         "NCCL_",   "GLOO_", "TORCH_",    "PYTORCH_", "TF_",
     "XLA_",   "JAX_",    "LD_",         "HIP_",    "ROCR_", "HSA_",      "ROCM_",    "GPU_",
     "ZE_",    "ONEAPI_", "SYCL_",       "OMP_",    "MKL_",  "OPENBLAS_", "NUMEXPR_", "KMP_",
     "GOMP_",  "BNB_",    "ACCELERATE_", "TRITON_", "CUPY_", "NUMBA_",    "TPU_",     "MASTER_",
     "SLURM_", "OMPI_",   "OLLAMA_",     "VLLM_",   "DS_",   "LLAMA_ARG_"});
constexpr auto kTold = std::to_array<std::string_view>(
    {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "PYTHONHOME",
     "PYTHONNOUSERSITE", "HOME", "LANG", "LC_ALL", "WORLD_SIZE", "RANK", "LOCAL_RANK", "container",
     "KUBERNETES_SERVICE_HOST"});
constexpr auto kSecret =
    std::to_array<std::string_view>({"TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL"});
constexpr auto kLogWords =
    std::to_array<std::string_view>({"NVRM",         "nvidia",
                                     "nvlink",       "nouveau",
                                     "SXid",         "amdgpu",
                                     "kfd",          "drm",
                                     "i915",         " xe ",
                                     "AER",          "pcieport",
                                     "PCIe",         "IOMMU",
                                     "iommu",        "DMAR",
                                     "BAR ",         "secureboot",
                                     "Secure boot",  "Lockdown",
                                     "lockdown",     "module verification",
                                     "Loading of",   "PM: suspend",
                                     "hmm",          "devmem",
                                     "bbswitch",     "atombios",
                                     "D3cold to D0", "blocked for more than"});

template <typename Words>
bool any_in(std::string_view text, const Words& words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

bool is_told(std::string_view name) {
  if (any_in(name, kSecret)) return false;
  return std::find(kTold.begin(), kTold.end(), name) != kTold.end() || name.ends_with("_DEVICE") ||
         std::any_of(kToldPrefixes.begin(), kToldPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
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

/// "Xid …: 31, pid=4711, name=python, Ch 8" → "… pid=4711, name=…, Ch 8"; "INFO: task python:4711
/// blocked …" → "INFO: task …:4711 blocked …".
std::string without_process_name(std::string_view line) {
  return line.find("blocked for more than") == std::string_view::npos
             ? replaced(line, "name=", ',')
             : replaced(line, "task ", ':');
}

}  // namespace

std::string redacted_process(std::string_view path, std::string_view text) {
  const auto parts = split(path, '/');  // "", "proc", "4711", "stat"
  if (parts.size() != 4 || parts[1] != "proc" || parts[2].empty() ||
      parts[2].find_first_not_of("0123456789") != std::string_view::npos)
    return std::string(text);
  // Which of NVIDIA's daemons run is what a rule asks.
  const auto told = [](std::string_view name) {
    return name.starts_with("nv-") || name.starts_with("nvidia-");
  };
  if (parts[3] == "comm") return told(text) ? std::string(text) : "…\n";
  if (parts[3] != "stat") return std::string(text);
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  if (told(text.substr(open + 1))) return std::string(text);
  return std::string(text.substr(0, open + 1)) + "…" + std::string(text.substr(close));
}

void Redaction::hide(const std::string& name, const std::string& by) {
  constexpr auto kPlain =
      std::to_array<std::string_view>({"root", "nobody", "localhost", "user", "home", "nvidia"});
  if (name.size() < 3 || std::find(kPlain.begin(), kPlain.end(), name) != kPlain.end()) return;
  for (const Name& one : names_)
    if (one.name == name) return;
  names_.push_back({name, by, 0});
}

std::string Redaction::apply(std::string_view text) {
  std::string out(text);
  for (Name& one : names_) {
    for (auto at = out.find(one.name); at != std::string::npos; at = out.find(one.name, at)) {
      const std::size_t end = at + one.name.size();
      if ((at > 0 && in_word(out[at - 1])) || (end < out.size() && in_word(out[end]))) {
        at = end;
        continue;
      }
      out.replace(at, one.name.size(), one.by);
      at += one.by.size();
      ++one.times;
    }
  }
  return out;
}

std::vector<std::string> Redaction::report() const {
  std::vector<std::string> lines;
  for (const Name& one : names_)
    if (one.times > 0)
      lines.push_back(text_n("{1}: {0} time", "{1}: {0} times", one.times, one.times, one.by));
  return lines;
}

Environment redacted_environment(const Environment& environment, std::set<std::string>& dropped) {
  Environment told;
  for (const auto& [name, value] : environment) {
    if (is_told(name))
      told.emplace(name, value);
    else
      dropped.insert(name);
  }
  return told;
}

std::string redacted_log(std::string_view log) {
  std::string told;
  for (const std::string_view line : split(log, '\n'))
    if (any_in(line, kLogWords) && line.find("Command line:") == std::string_view::npos)
      told += without_process_name(line) + "\n";
  return told;
}

}  // namespace berth::doctor
