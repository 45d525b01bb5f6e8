// Rule FW24: programs beside Python that have lost, or never got, what they compute with.
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

/// "cuda_v12", "cuda_jetpack6", "rocm", "vulkan", or the library itself beside those for
/// processors. Vulkan serves every vendor's. Of 0.3.7 to 0.3.14, which have what computes in the
/// program, the vendor's libraries alone.
bool is_for_nvidia(std::string_view name) {
  return begins_with_any(
      name, {"cuda_", "libggml-cuda", "mlx_cuda", "libcudart.so", "vulkan", "libggml-vulkan"});
}
bool is_for_amd(std::string_view name) {
  return begins_with_any(
      name, {"rocm", "libggml-hip", "libamdhip64.so", "librocblas.so", "vulkan", "libggml-vulkan"});
}

/// Its parts for AMD's GPUs are an archive, a package and an image of their own.
void ollama_without_rocm(Examination& look, const OllamaFiles& ollama) {
  Finding& finding = look.found(
      text("Ollama has its libraries for NVIDIA's GPUs and none for AMD's, and the GPU is AMD's"));
  finding.evidence = {fmt::format("{}: {}", ollama.folder, fmt::join(ollama.libraries, " ")),
                      "https://github.com/ollama/ollama/issues/3446"};
  if (!container_kind(look).empty()) {
    finding.fix.push_back({"docker run --device /dev/kfd --device /dev/dri ollama/ollama:rocm",
                           text("the image for AMD's GPUs is another one")});
    return;
  }
  finding.fix.push_back({"curl -fsSL https://ollama.com/install.sh | sh",
                         text("its own installer, run on this machine, brings them for its GPU")});
  finding.fix.push_back({"sudo pacman -S ollama-rocm",
                         text("Arch Linux and its like, where they are a package of their own")});
}

/// Ollama without its libraries for GPUs: a distribution's package for the processor, an
/// installation that was cut short, or the program alone, copied from elsewhere.
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
  // Up to 0.3.6 its installer brought one file with all of them inside
  // (https://github.com/ollama/ollama/commit/88bb9e332); without them the program is a tenth of it.
  constexpr std::uint64_t kWithLibraries = 100'000'000;
  const bool is_old_or_alone = ollama->libraries.empty();
  if (is_old_or_alone && (ollama->size == 0 || ollama->size >= kWithLibraries)) return;
  Finding& finding = look.found(
      is_old_or_alone
          ? text("Ollama is installed without its libraries, so it computes on the processor")
          : text("Ollama has libraries for the processor only, and leaves the GPU alone"));
  // A distribution may have put them where nobody here looks; its installer, and whoever copies
  // the program alone, have not.
  if (is_old_or_alone)
    finding.severity =
        ollama->program.starts_with("/usr/bin/") ? Severity::kInfo : Severity::kWarning;
  finding.evidence.push_back(
      is_old_or_alone ? fmt::format("{}; {}: {}", ollama->program, ollama->folder, tr("not there"))
                      : fmt::format("{}: {}", ollama->folder, fmt::join(ollama->libraries, " ")));
  if (is_old_or_alone)
    finding.evidence.push_back(text("releases before 0.3.7 have them in the program itself"));
  finding.fix.push_back({"curl -fsSL https://ollama.com/install.sh | sh",
                         text("its own installer, run on this machine, brings them for its GPU")});
  finding.fix.push_back(
      {amd ? "sudo pacman -S ollama-rocm" : "sudo pacman -S ollama-cuda",
       text("Arch Linux and its like, whose package ollama is for the processor; NixOS: "
            "services.ollama.acceleration")});
}

constexpr auto kRules = std::to_array<Rule>({
    {"FW24", Layer::kFramework, Severity::kError, true,
     msgid("an Ollama without its libraries for the GPU"), "", ollama_without_gpu},
});

}  // namespace

std::span<const Rule> program_rules() {
  return kRules;
}

}  // namespace berth::doctor
