// The parts of FW03 and FW04 about packages other than PyTorch: whether they were compiled for the
// installed GPUs. The source is the package's files, its build information, or a table of releases.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/cuda_uses.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/stated_build.hpp"

namespace berth::doctor {
namespace {

/// Whether the row is about this build. A package that the user compiled has another local version,
/// and may support other GPUs.
bool is_about(Examination& look, const PackageGpus& row, const Distribution& one) {
  const std::string_view tag = local_part(one.version);
  if (!row.below.empty()) {
    const PackageBuild* build = stated_build(look, row.package);
    if (build == nullptr || build->cuda.empty() || !is_older(build->cuda, row.below)) return false;
  }
  return in_range(one.version, row.versions) &&
         (row.tag.empty() ? tag.empty() : tag.starts_with(row.tag));
}

/// One of the GPUs, if all have the same compute capability; otherwise nullopt. If they differ,
/// perhaps the user runs the package on a GPU that it supports.
std::optional<SeenGpu> alike(Examination& look) {
  const auto gpus = seen_gpus(look);
  if (gpus.empty() || std::any_of(gpus.begin(), gpus.end(), [&](const SeenGpu& one) {
        return one.capability.empty() || one.capability != gpus.front().capability;
      }))
    return std::nullopt;
  return gpus.front();
}

/// Which kernels the package has for a GPU. If it has none, `newer` shows whether the GPU is newer
/// than every GPU that the package supports.
Kernels kernels_of_package(const PackageGpus& row, const std::string& capability, bool& newer) {
  newer = !row.arch.empty() && is_older(row.arch.back(), capability);
  if (!row.arch.empty()) return kernels_of({"", "", false, row.arch, row.ptx}, capability);
  newer = !row.most.empty() && is_older(row.most, capability);
  return newer || is_older(capability, row.capability) ? Kernels::kLacks : Kernels::kHas;
}

/// Reports packages whose files have no kernels for the GPU. All files of a package count together,
/// because some packages have a file for each GPU generation.
void files_without_kernels(Examination& look, const SeenGpu& gpu, bool newer) {
  constexpr auto kComputing =
      std::to_array<std::string_view>({"llama-cpp-python", "faiss", "ctranslate2",
                                       "onnxruntime-gpu", "vllm", "mxnet", "paddlepaddle-gpu"});
  const auto* codes = look.see(look.facts.imports.codes);
  if (codes == nullptr) return;
  std::map<std::string, WheelArch> packages;
  for (const PackageCode& one : *codes) {
    WheelArch& all = packages[one.package];
    all.arch.insert(all.arch.end(), one.sass.begin(), one.sass.end());
    if (!one.ptx.empty() && (all.ptx.empty() || is_older(one.ptx, all.ptx))) all.ptx = one.ptx;
  }
  for (auto& [package, all] : packages) {
    std::sort(all.arch.begin(), all.arch.end(),
              [](const std::string& a, const std::string& b) { return is_older(a, b); });
    all.arch.erase(std::unique(all.arch.begin(), all.arch.end()), all.arch.end());
    const bool is_newer = !all.arch.empty() && is_older(all.arch.back(), gpu.capability);
    if (kernels_of(all, gpu.capability) != Kernels::kLacks || is_newer != newer) continue;
    Finding& finding = look.found(
        text("{} has no kernels for the {} (compute capability {}): it was compiled for {}",
             package, gpu.name, gpu.capability, fmt::format("{}", fmt::join(all.arch, ", "))));
    // Perhaps the user does not need this package on the GPU, because it also works on the CPU or
    // is only a part of the program.
    if (std::find(kComputing.begin(), kComputing.end(), package) == kComputing.end())
      finding.severity = Severity::kWarning;
    for (const PackageCode& one : *codes)
      if (one.package == package) finding.evidence.push_back(one.file + " (.nv_fatbin)");
    finding.fix.push_back({uninstall_command(look.facts.python, {package}),
                           text("then install a release that supports this GPU, or build "
                                "the package from source")});
    return;
  }
}

}  // namespace

/// Reports a TensorFlow that is too old for the GPU. The PTX in its wheels does not work on compute
/// capability 10 and newer: https://github.com/tensorflow/tensorflow/issues/90291. Builds for CUDA
/// before 11 do not support Ampere.
void tensorflow_too_old(Examination& look) {
  const auto package = look.facts.python.distribution("tensorflow");
  const Distribution* tensorflow = look.see(package);
  if (tensorflow == nullptr || is_aarch64(look.facts) || !local_part(tensorflow->version).empty() ||
      conda_package(look, "tensorflow") != nullptr)
    return;
  const Compatibility& known = look.knowledge.compatibility();
  const TensorflowRelease* row = known.tensorflow_of(tensorflow->version);
  if (row == nullptr) return;
  for (const SeenGpu& gpu : seen_gpus(look)) {
    const ArchToolkits* bounds = known.toolkits_of(gpu.capability);
    if (bounds == nullptr || bounds->first.empty() || !is_older(row->cuda, bounds->first)) continue;
    if (is_older(gpu.capability, "10") && !is_older(row->cuda, "11")) continue;
    Finding& finding =
        look.found(text("TensorFlow {} has no kernels for the {} (compute capability {})",
                        tensorflow->version, gpu.name, gpu.capability));
    // Before compute capability 10, it is not certain that all kernels fail.
    if (!torch_cuda(look).empty() || is_older(gpu.capability, "10"))
      finding.severity = Severity::kWarning;
    finding.evidence.push_back(text("{}: built with CUDA {}", tensorflow->path, row->cuda));
    finding.evidence.push_back(text("CUDA {} is the first release that compiles for {}",
                                    bounds->first, bounds->capability));
    finding.fix.push_back(
        {"docker run --gpus all nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
         text("NVIDIA's own build has these kernels; or build TensorFlow from source with CUDA {}",
              bounds->first)});
    return;
  }
}

void packages_without_kernels(Examination& look, bool newer) {
  const auto seen = alike(look);
  if (!seen) return;
  const SeenGpu& gpu = *seen;
  files_without_kernels(look, gpu, newer);
  if (!look.findings().empty()) return;
  for (const PackageGpus& row : look.knowledge.compatibility().package_gpus) {
    const auto package = look.facts.python.distribution(row.package);
    const Distribution* one = look.see(package);
    bool is_newer = false;
    if (one == nullptr || !is_about(look, row, *one) ||
        kernels_of_package(row, gpu.capability, is_newer) != Kernels::kLacks || is_newer != newer)
      continue;
    Finding& finding = look.found(
        row.arch.empty() && newer ? text("{} supports compute capability up to {}; the {} has {}",
                                         named(*one), row.most, gpu.name, gpu.capability)
        : row.arch.empty()
            ? text("{} supports compute capability {} and newer; the {} has {}", named(*one),
                   row.capability, gpu.name, gpu.capability)
            : text("{} has no kernels for the {} (compute capability {}): it was compiled for {}",
                   named(*one), gpu.name, gpu.capability,
                   fmt::format("{}", fmt::join(row.arch, ", "))));
    if (row.warn) finding.severity = Severity::kWarning;
    finding.evidence = {one->path, row.source};
    if (!row.what.empty())
      finding.evidence.insert(finding.evidence.begin(), std::string(tr(row.what.c_str())));
    if (const std::size_t blank = std::min(row.use.find(' '), row.use.size()); blank > 0)
      finding.fix.push_back({install_command(look.facts.python, {row.use.substr(0, blank)},
                                             std::string(trim(row.use.substr(blank)))),
                             text("installs a release that supports this GPU")});
    else if (row.package.starts_with("nvidia-cudnn"))
      finding.fix.push_back({install_command(look.facts.python, {"nvidia-cudnn-cu12==9.10.2.21"}),
                             text("installs a release that supports this GPU")});
    else
      finding.fix.push_back({uninstall_command(look.facts.python, {row.package}),
                             newer ? text("then install a release that supports this GPU, "
                                          "or build the package from source")
                                   : text("programs then use another implementation if they have "
                                          "one; or use a newer GPU")});
    return;
  }
}

/// Reports a TensorFlow that is too new for the GPU. Uses the list of capabilities in the package's
/// build information. Without it, uses the list for the release's wheels. These have PTX, so newer
/// GPUs are not reported here.
void tensorflow_without_code(Examination& look) {
  const auto package = cuda_tensorflow(look);
  const Distribution* one = look.see(package);
  const auto seen = alike(look);
  if (one == nullptr || !seen) return;
  const SeenGpu& gpu = *seen;
  WheelArch row;
  const PackageBuild* build = stated_build(look, "tensorflow");
  const bool own = build != nullptr && !build->sass.empty();
  if (own) {
    row = {"", "", false, build->sass, build->ptx};
  } else if ((look.see_whole(look.facts.builds) != nullptr || look.facts.builds.is_absent()) &&
             !is_aarch64(look.facts) && local_part(one->version).empty() &&
             conda_package(look, "tensorflow") == nullptr &&
             conda_package(look, "tensorflow-gpu") == nullptr) {
    for (const WheelArch& wheel : look.knowledge.compatibility().tensorflow_archs)
      if (row.arch.empty() && in_range(one->version, wheel.versions)) row = wheel;
  }
  const bool is_newer = !row.arch.empty() && is_older(row.arch.back(), gpu.capability);
  if (row.arch.empty() || is_newer || kernels_of(row, gpu.capability) != Kernels::kLacks) return;
  Finding& finding =
      look.found(text("TensorFlow {} has no kernels for the {} (compute capability {})",
                      one->version, gpu.name, gpu.capability));
  if (!torch_cuda(look).empty()) finding.severity = Severity::kWarning;
  finding.evidence.push_back(
      own ? text("{} was compiled for {}", build->path,
                 fmt::format("{}", fmt::join(build->sass, ", ")))
          : text("this wheel was compiled for {}",
                 fmt::format("{}{}", fmt::join(row.arch, ", "),
                             row.ptx.empty() ? "" : ", " + row.ptx + "+PTX")));
  finding.fix.push_back(
      {"", text("use an older release, or build TensorFlow from source for this GPU")});
}

/// Reports packages for a CUDA major version from before the GPU's release. Their machine code does
/// not run on this GPU, but perhaps their PTX does.
void cuda_too_old_for_gpu(Examination& look) {
  const auto gpu = alike(look);
  if (!gpu) return;
  const Compatibility& known = look.knowledge.compatibility();
  const ArchToolkits* bounds = known.toolkits_of(gpu->capability);
  if (bounds == nullptr || bounds->first.empty()) return;
  for (const CudaUse& use : framework_uses(look)) {
    if (use.framework == Framework::kTorch || use.what.starts_with("jax-") ||
        use.what.starts_with("TensorFlow") || version_of(use.cuda).empty() ||
        version_of(use.cuda)[0] >= version_of(bounds->first)[0] ||
        toolkit_compiles(known, use.cuda, gpu->capability) != Kernels::kLacks)
      continue;
    Finding& finding = look.found(
        text("{} is built for CUDA {}, which is too old for the {} (compute capability {})",
             use.what, use.cuda, gpu->name, gpu->capability));
    if (!torch_cuda(look).empty()) finding.severity = Severity::kWarning;
    finding.evidence.push_back(use.path);
    finding.evidence.push_back(text("CUDA {} is the first release that compiles for {}",
                                    bounds->first, bounds->capability));
    finding.fix.push_back(
        {"", text("install the package's build for CUDA {}", beginning(bounds->first, 1))});
    return;
  }
}

void cuda_too_new_for_gpu(Examination& look) {
  const auto gpu = alike(look);
  if (!gpu) return;
  const ArchToolkits* bounds = look.knowledge.compatibility().toolkits_of(gpu->capability);
  if (bounds == nullptr || bounds->last.empty()) return;
  for (const CudaUse& use : framework_uses(look)) {
    // Skip PyTorch and JAX: other checks know what each of their builds contains.
    if (use.framework == Framework::kTorch || use.what.starts_with("jax-") ||
        version_of(use.cuda)[0] <= version_of(bounds->last)[0])
      continue;
    Finding& finding = look.found(
        text("{} is built for CUDA {}, which has no code for the {} (compute capability {})",
             use.what, use.cuda, gpu->name, gpu->capability));
    finding.evidence.push_back(use.path);
    finding.evidence.push_back(
        text("CUDA {} is the last release that compiles for {}", bounds->last, bounds->capability));
    finding.fix.push_back(
        {"", text("install the package's build for CUDA {}", beginning(bounds->last, 1))});
    return;
  }
}

}  // namespace berth::doctor
