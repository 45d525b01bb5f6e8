// Rule FW24: programs that are not written in Python and lack their GPU backends.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

bool begins_with_any(std::string_view name, std::initializer_list<std::string_view> begins) {
  constexpr std::string_view kRunners = "runners/";
  if (name.starts_with(kRunners)) name.remove_prefix(kRunners.size());
  return std::any_of(begins.begin(), begins.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

/// Whether an Ollama library supports NVIDIA GPUs. `name` is a folder such as "cuda_v12", or a
/// file. "vulkan" counts because it supports the GPUs of all vendors. "libcudart.so" counts because
/// releases 0.3.7 to 0.3.14 have their backends inside the program, and only CUDA's libraries as
/// files.
bool is_for_nvidia(std::string_view name) {
  return begins_with_any(
      name, {"cuda_", "libggml-cuda", "mlx_cuda", "libcudart.so", "vulkan", "libggml-vulkan"});
}
bool is_for_amd(std::string_view name) {
  return begins_with_any(
      name, {"rocm", "libggml-hip", "libamdhip64.so", "librocblas.so", "vulkan", "libggml-vulkan"});
}

/// Reports an Ollama without its backend for AMD GPUs, which is a separate archive, package and
/// image.
void ollama_without_rocm(Examination& look, const OllamaFiles& ollama) {
  Finding& finding = look.found(
      text("Ollama has libraries for NVIDIA's GPUs but none for AMD's, and the GPU is from AMD"));
  finding.evidence = {fmt::format("{}: {}", ollama.folder, fmt::join(ollama.libraries, " ")),
                      "https://github.com/ollama/ollama/issues/3446"};
  if (!container_kind(look).empty()) {
    finding.fix.push_back({"docker run --device /dev/kfd --device /dev/dri ollama/ollama:rocm",
                           text("AMD's GPUs need this image")});
    return;
  }
  finding.fix.push_back(
      {"curl -fsSL https://ollama.com/install.sh | sh",
       text("Ollama's installer, run on this machine, installs the libraries for its GPU")});
  finding.fix.push_back(
      {"sudo pacman -S ollama-rocm",
       text("on Arch Linux and similar systems, where AMD's libraries are a separate package")});
}

/// Reports an Ollama without GPU libraries: a distribution's package for the CPU, an incomplete
/// installation, or only the copied program.
void ollama_without_gpu(Examination& look) {
  const OllamaFiles* ollama = look.see(look.facts.platform.ollama);
  if (ollama == nullptr) return;
  const bool amd = !cards_on_bus(look, kVendorAmd).empty();
  const bool nvidia = machine_has_nvidia(look);
  const auto has = [&](bool (*serves)(std::string_view)) {
    return std::any_of(ollama->libraries.begin(), ollama->libraries.end(), serves);
  };
  if ((!amd && !nvidia) || (nvidia && has(is_for_nvidia)) || (amd && has(is_for_amd))) return;
  if (amd && has(is_for_nvidia)) return ollama_without_rocm(look, *ollama);
  // Up to 0.3.6, the installer provided one file that contained all libraries
  // (https://github.com/ollama/ollama/commit/88bb9e332). A program without libraries has a tenth of
  // its size.
  constexpr std::uint64_t kWithLibraries = 100'000'000;
  const bool is_old_or_alone = ollama->libraries.empty();
  if (is_old_or_alone && (ollama->size == 0 || ollama->size >= kWithLibraries)) return;
  Finding& finding = look.found(
      is_old_or_alone ? text("Ollama is installed without its libraries, so it computes on the CPU")
                      : text("Ollama only has CPU libraries, so it does not use the GPU"));
  // The finding is only information if the program is from a distribution, which may put the
  // libraries into a folder that Berth does not know.
  if (is_old_or_alone)
    finding.severity =
        ollama->program.starts_with("/usr/bin/") ? Severity::kInfo : Severity::kWarning;
  finding.evidence.push_back(
      is_old_or_alone ? fmt::format("{}; {}: {}", ollama->program, ollama->folder, tr("missing"))
                      : fmt::format("{}: {}", ollama->folder, fmt::join(ollama->libraries, " ")));
  if (is_old_or_alone)
    finding.evidence.push_back(
        text("Ollama releases before 0.3.7 contain the libraries in the program itself"));
  finding.fix.push_back(
      {"curl -fsSL https://ollama.com/install.sh | sh",
       text("Ollama's installer, run on this machine, installs the libraries for its GPU")});
  finding.fix.push_back({amd ? "sudo pacman -S ollama-rocm" : "sudo pacman -S ollama-cuda",
                         text("on Arch Linux and similar systems the package ollama is CPU-only; "
                              "on NixOS: services.ollama.acceleration")});
}

constexpr auto kProgramsRules = std::to_array<Rule>({
    {"FW24", Layer::kFramework, Severity::kError, true,
     msgid("an Ollama without its libraries for the GPU"), "", ollama_without_gpu},
});

}  // namespace

std::span<const Rule> program_rules() {
  return kProgramsRules;
}

}  // namespace berth::doctor
