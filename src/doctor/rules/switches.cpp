// Rules ENV19 to ENV21: variables that make programs use the CPU, that name missing files, or that
// PyTorch's allocator cannot read.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/spelling.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/memory.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

Fix unset(const std::string& name) {
  return {"unset " + name, ""};
}

bool has_gpu(Examination& look) {
  return machine_has_nvidia(look) || !cards_on_bus(look, kVendorAmd).empty();
}

void off_by(Examination& look, const char* name) {
  Finding& finding =
      look.found(text("{} keeps this program on the CPU", shown_variable(look, name)));
  finding.evidence.push_back(shown_variable(look, name));
  finding.fix.push_back(unset(name));
}

/// Reports a JAX_PLATFORMS without CUDA, such as "tpu", which was copied from another machine. JAX
/// then finds no platform.
void other_platform(Examination& look) {
  const std::string value = variable_or_empty(look, "JAX_PLATFORMS");
  if (value.empty() || value == "cpu" || !machine_has_nvidia(look)) return;
  for (std::string_view one : split(value, ',')) {
    one = trim(one);
    if (one.starts_with("cuda") || one == "gpu" || one == "cpu" || one.empty()) return;
  }
  Finding& finding = look.found(
      text("JAX_PLATFORMS={} names no platform of this machine, and JAX tries no other platforms",
           value));
  finding.evidence.push_back("JAX_PLATFORMS=" + value);
  finding.fix.push_back(unset("JAX_PLATFORMS"));
}

/// Reports variables of any program that choose the CPU, such as WHISPER__INFERENCE_DEVICE=cpu. The
/// user may intend this.
void any_device(Examination& look) {
  const auto* variables = look.see(look.facts.process.environment);
  if (variables == nullptr) return;
  for (const auto& [name, value] : *variables) {
    if (!name.ends_with("DEVICE") || value != "cpu") continue;
    off_by(look, name.c_str());
    look.findings().back().severity = Severity::kInfo;
  }
}

void platform_off(Examination& look) {
  struct Switch {
    const char* name;
    bool off;
  };
  const auto says_cpu = [&](const char* name) { return variable_or_empty(look, name) == "cpu"; };
  const auto switches = std::to_array<Switch>({
      {"JAX_PLATFORMS", says_cpu("JAX_PLATFORMS")},
      {"JAX_PLATFORM_NAME", says_cpu("JAX_PLATFORM_NAME")},
      {"ACCELERATE_USE_CPU", is_on(variable_or_empty(look, "ACCELERATE_USE_CPU"))},
      {"OLLAMA_LLM_LIBRARY", variable_or_empty(look, "OLLAMA_LLM_LIBRARY").starts_with("cpu")},
      {"LLAMA_ARG_N_GPU_LAYERS", variable_or_empty(look, "LLAMA_ARG_N_GPU_LAYERS") == "0"},
      {"VLLM_TARGET_DEVICE", says_cpu("VLLM_TARGET_DEVICE")},
      {"DS_ACCELERATOR", says_cpu("DS_ACCELERATOR")},
      {"NUMBA_DISABLE_CUDA", is_on(variable_or_empty(look, "NUMBA_DISABLE_CUDA"))},
      {"NUMBA_ENABLE_CUDASIM", is_on(variable_or_empty(look, "NUMBA_ENABLE_CUDASIM"))},
  });
  if (!has_gpu(look)) return;
  for (const Switch& one : switches)
    if (one.off) off_by(look, one.name);
  for (const char* name : {"COMMANDLINE_ARGS", "CLI_ARGS"})
    if (const std::string words = " " + variable_or_empty(look, name) + " ";
        contains(words, " --use-cpu all ") || contains(words, " --cpu "))
      off_by(look, name);
  other_platform(look);
  if (look.findings().empty()) any_device(look);
}

void missing_files(Examination& look) {
  const auto* missing = look.see(look.facts.platform.named.missing_files);
  if (missing == nullptr || !has_gpu(look)) return;
  const auto numba = look.facts.python.distribution("numba");
  for (const std::string& one : *missing) {
    const std::string name = one.substr(0, one.find('='));
    // Numba 0.46 and newer ignore these variables.
    if (name.starts_with("NUMBAPRO_") && (!numba || !is_older(numba->version, "0.46"))) continue;
    Finding& finding = look.found(text("{} names a missing file", one));
    // If these files are missing, programs log it and continue.
    constexpr auto kMilder = std::to_array<std::string_view>(
        {"NCCL_TOPO_FILE", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "HSA_TOOLS_LIB",
         "ROCM_PATH", "HIP_PATH", "VK_ICD_FILENAMES", "VK_DRIVER_FILES",
         "__EGL_VENDOR_LIBRARY_FILENAMES"});
    if (std::find(kMilder.begin(), kMilder.end(), name) != kMilder.end())
      finding.severity = Severity::kWarning;
    finding.evidence.push_back(one);
    finding.fix.push_back(unset(name));
  }
}

/// Reports expandable segments in a training program that frees the memory of its inference server
/// between steps. The server then allocates from a separate pool, in which torch-memory-saver, and
/// vLLM before 0.20.1, cannot use expandable segments.
void pools_in_segments(Examination& look, const char* name, const std::string& value) {
  const auto has = [&](const char* package) { return look.facts.python.distribution(package); };
  const auto saver = has("torch-memory-saver"), vllm = has("vllm");
  const bool sleeps = has("verl").has_value();  // verl frees the memory of its server by default
  const bool trains = sleeps || has("openrlhf") || has("trl");
  const Distribution* who = look.see(saver);
  if (who == nullptr && trains && vllm && is_older(vllm->version, "0.20.1")) who = look.see(vllm);
  if (who == nullptr) return;
  Finding& finding =
      look.found(text("{} enables expandable segments, but {} frees its memory pools between "
                      "steps, which does not work with such segments",
                      name, fmt::format("{} {}", who->name, who->version)));
  // OpenRLHF and TRL free the server's memory only with the option vllm_enable_sleep_mode, which is
  // off by default.
  finding.severity = who->name == "vllm" && !sleeps ? Severity::kInfo : Severity::kWarning;
  finding.evidence = {fmt::format("{}={}", name, value), who->path,
                      who->name == "vllm"
                          ? "https://github.com/vllm-project/vllm/pull/14189"
                          : "https://github.com/fzyzcjy/torch_memory_saver/issues/24"};
  finding.fix.push_back(unset(name));
}

/// Reports expandable segments on a GPU without support for them: they need ranges of virtual
/// memory, which not every kind of GPU supports.
void expandable_segments(Examination& look, const char* name, const std::string& value) {
  std::string small;
  for (const char c : value)
    if (c != ' ') small += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (!contains(small, "expandable_segments:true")) return;
  const ManagedMemory memory = managed_memory(look);
  if (memory.kind == MemoryKind::kOrdinary) return pools_in_segments(look, name, value);
  Finding& finding = look.found(
      text("{} enables expandable segments, which {} may not support: the first allocation fails",
           name, memory.what));
  if (memory.kind != MemoryKind::kJetson) finding.severity = Severity::kWarning;
  finding.evidence = {fmt::format("{}={}", name, value), memory.what};
  finding.fix.push_back(unset(name));
}

/// An option that PyTorch does not know and that is similar to a known one: "max_split_size"; "" if
/// there is none. Other unknown options may be those of newer releases.
std::string misspelled_option(const std::string& value) {
  static const std::vector<std::string> known{"max_split_size_mb",
                                              "max_non_split_rounding_mb",
                                              "garbage_collection_threshold",
                                              "roundup_power2_divisions",
                                              "backend",
                                              "expandable_segments",
                                              "release_lock_on_cudamalloc",
                                              "pinned_use_cuda_host_register",
                                              "pinned_num_register_threads",
                                              "pinned_use_background_threads",
                                              "pinned_reserve_segment_size_mb",
                                              "graph_capture_record_stream_reuse",
                                              "per_process_memory_fraction",
                                              "pinned_max_round_threshold_mb",
                                              "pinned_max_power2_size_mb",
                                              "pinned_max_cached_size_mb",
                                              "throw_on_cudamalloc_oom",
                                              "roundup_bypass_threshold_mb",
                                              "release_lock_on_hipmalloc",
                                              "pinned_use_hip_host_register"};
  if (value.find('[') != std::string::npos) return "";
  for (const std::string_view item : split(value, ',')) {
    const std::string name(trim(item.substr(0, item.find(':'))));
    if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const bool is_cut = std::any_of(known.begin(), known.end(), [&](const std::string& one) {
      return name.size() > 5 && one.starts_with(name);
    });
    if (is_cut || !nearest(name, known).empty()) return name;
  }
  return "";
}

/// Reports values that PyTorch cannot read, such as "max_split_size_mb=128" or a value with quotes
/// from an env file. The first allocation then fails.
void allocator_settings(Examination& look) {
  for (const char* name :
       {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}) {
    const std::string value = variable_or_empty(look, name);
    if (value.empty() || !has_gpu(look) || !look.facts.python.torch) continue;
    bool readable = value.find_first_of("\"'") == std::string::npos;
    // A list of divisions in brackets contains commas, so such a value is not split.
    if (value.find('[') == std::string::npos)
      for (const std::string_view item : split(value, ','))
        readable = readable && (trim(item).empty() || item.find(':') != std::string_view::npos);
    // The option expandable_segments exists since PyTorch 2.1. Older releases either ignore unknown
    // options or reject them.
    const bool unknown = value.find("expandable_segments") != std::string::npos &&
                         is_older(look.facts.python.torch->version, "2.1");
    if (readable && unknown) {
      Finding& finding =
          look.found(text("PyTorch {} does not support expandable_segments, which {} sets: the "
                          "first allocation fails",
                          look.facts.python.torch->version, name));
      finding.evidence = {fmt::format("{}={}", name, value), look.facts.python.torch->path};
      finding.fix.push_back(unset(name));
      continue;
    }
    const std::string misspelled = readable ? misspelled_option(value) : "";
    if (readable && misspelled.empty()) {
      expandable_segments(look, name, value);
      continue;
    }
    Finding& finding =
        look.found(misspelled.empty()
                       ? text("PyTorch cannot read {}={}: the first allocation fails", name, value)
                       : text("PyTorch has no option {}, which {} sets: the first allocation fails",
                              printable(misspelled), name));
    finding.evidence.push_back(fmt::format("{}={}", name, value));
    finding.fix.push_back(
        {fmt::format("export {}=expandable_segments:True", name),
         text("write NAME:VALUE pairs, separated by commas, with no quotes in the value")});
    finding.fix.push_back(unset(name));
  }
}

constexpr auto kLayer = Layer::kEnvironment;
constexpr auto kSwitchesRules = std::to_array<Rule>({
    {"ENV19", kLayer, Severity::kError, false, msgid("variables that switch the GPU off"), "",
     platform_off},
    {"ENV20", kLayer, Severity::kError, true, msgid("variables that name missing files"), "",
     missing_files},
    {"ENV21", kLayer, Severity::kError, true,
     msgid("settings of PyTorch's allocator that it cannot read or use"), "", allocator_settings},
});

}  // namespace

std::span<const Rule> switch_rules() {
  return kSwitchesRules;
}

}  // namespace berth::doctor
