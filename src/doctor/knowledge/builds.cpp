#include "doctor/knowledge/builds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/knowledge/version.hpp"

namespace berth::doctor {
namespace {

struct FrameworkName {
  Framework framework;
  const char *word, *name;
};
constexpr auto kNames = std::to_array<FrameworkName>({
    {Framework::kTorch, "torch", "PyTorch"},
    {Framework::kTensorflow, "tensorflow", "TensorFlow"},
    {Framework::kJax, "jax", "JAX"},
    {Framework::kCupy, "cupy", "CuPy"},
    {Framework::kOnnxruntime, "onnxruntime", "ONNX Runtime"},
});

/// The requirement for pip: "torch==2.14.*", or "torch==2.14.1" if `release` has three parts.
/// Releases that are known to be broken are excluded with "!=".
std::string pinned(const Compatibility& known, const std::string& package,
                   const std::string& release) {
  const bool exact = version_of(release).size() > 2;
  std::string out = package + "==" + release + (exact ? "" : ".*");
  const std::string bare = package.substr(0, package.find('['));
  for (const KnownBad& row : known.known_bad)
    if (row.package == bare && !exact && in_range(row.version, release)) out += ",!=" + row.version;
  return out;
}

std::vector<Build> torch_builds(const Compatibility& known, Platform platform, bool aarch64) {
  std::vector<Build> builds;
  for (const TorchRelease& row : known.torch) {
    const std::string package = pinned(known, "torch", row.version);
    if (platform == Platform::kCpu)
      builds.push_back({row.version, row.python, "", package, "cpu", true});
    if (platform == Platform::kRocm && !row.rocm.empty() && !aarch64)
      builds.push_back({row.version, row.python, "", package, "rocm" + row.rocm, false});
    // PyTorch's own builds for Intel GPUs start with 2.5, and their tag is "xpu" without a number.
    if (platform == Platform::kXpu && !is_older(row.version, "2.5") && !aarch64)
      builds.push_back({row.version, row.python, "", package, "xpu", false});
    if (platform != Platform::kNvidia) continue;
    for (const std::string& cuda : row.cuda)
      builds.push_back({row.version, row.python, cuda, package, tag_of_cuda(cuda),
                        row.pypi == cuda && !aarch64});
  }
  return builds;
}

/// The range of releases whose extra [and-cuda] can be installed: 2.15 and newer. The extra of 2.14
/// requires a TensorRT that is not on PyPI.
constexpr const char* kTensorflowWithCuda = "2.15-";

/// For NVIDIA GPUs, returns only the releases whose GPU code is in the tables. For the CPU, returns
/// all releases.
std::vector<Build> tensorflow_builds(const Compatibility& known, Platform platform) {
  std::vector<Build> builds;
  for (const TensorflowRelease& row : known.tensorflow) {
    if (platform == Platform::kCpu)
      builds.push_back(
          {row.version, row.python, "", pinned(known, "tensorflow", row.version), "", true});
    if (platform != Platform::kNvidia || !in_range(row.version, kTensorflowWithCuda)) continue;
    for (const WheelArch& wheel : known.tensorflow_archs)
      if (wheel.cuda == row.cuda && in_range(row.version, wheel.versions))
        builds.push_back({row.version, row.python, row.cuda,
                          pinned(known, "tensorflow[and-cuda]", row.version), "", true});
  }
  return builds;
}

std::vector<Build> jax_builds(const Compatibility& known, Platform platform) {
  std::vector<Build> builds;
  for (const JaxRelease& row : known.jax_releases) {
    if (platform == Platform::kCpu)
      builds.push_back({row.version, row.python, "", pinned(known, "jax", row.version), "", true});
    if (platform != Platform::kNvidia) continue;
    for (std::size_t i = 0; i < row.majors.size(); ++i)
      builds.push_back({row.version, row.python, row.built[i],
                        pinned(known, fmt::format("jax[cuda{}]", row.majors[i]), row.version), "",
                        true, true});
  }
  return builds;
}

std::vector<Build> cupy_builds(const Compatibility& known, Platform platform) {
  std::vector<Build> builds;
  if (platform == Platform::kNvidia)
    for (const CupyWheel& row : known.cupy)
      builds.push_back({row.version, row.python, row.built,
                        pinned(known, row.package + (row.has_ctk ? "[ctk]" : ""), row.version), "",
                        true, true, !row.has_ctk});
  return builds;
}

std::vector<Build> onnx_builds(const Compatibility& known, Platform platform) {
  std::vector<Build> builds;
  for (const OnnxWheel& row : known.onnx_wheels) {
    if (platform == Platform::kCpu)
      builds.push_back(
          {row.version, row.python, "", pinned(known, "onnxruntime", row.version), "", true});
    if (platform == Platform::kNvidia)
      builds.push_back({row.version, row.python, row.cuda,
                        pinned(known, "onnxruntime-gpu[cuda,cudnn]", row.version), "", true});
  }
  return builds;
}

const JaxPlugin* jax_plugin(const Compatibility& known, const std::string& cuda) {
  for (const JaxPlugin& row : known.jax)
    if (row.cuda_major == version_of(cuda)[0]) return &row;
  return nullptr;
}

Kernels kernels_in(const Compatibility& known, Framework framework, const Build& build,
                   bool aarch64, std::string_view capability) {
  if (framework == Framework::kTorch)
    return torch_kernels(known, build.release, build.cuda, aarch64, capability);
  const Kernels possible = toolkit_compiles(known, build.cuda, capability);
  if (possible != Kernels::kHas || framework == Framework::kCupy) return possible;
  if (framework == Framework::kJax) {
    const JaxPlugin* plugin = jax_plugin(known, build.cuda);
    const bool too_old = plugin != nullptr && !plugin->capability.empty() &&
                         is_older(capability, plugin->capability);
    return too_old ? Kernels::kLacks : possible;
  }
  const auto& wheels =
      framework == Framework::kTensorflow ? known.tensorflow_archs : known.onnx_archs;
  for (const WheelArch& wheel : wheels)
    if (wheel.cuda == build.cuda && in_range(build.release, wheel.versions))
      return kernels_of(wheel, capability);
  return Kernels::kUnknown;
}

std::string newer_of(const std::string& one, const std::string& other) {
  return is_older(one, other) ? other : one;
}

}  // namespace

std::optional<Framework> framework_of(std::string_view word) {
  for (const FrameworkName& row : kNames)
    if (row.word == word) return row.framework;
  return std::nullopt;
}

const char* word_of(Framework framework) {
  return kNames[static_cast<std::size_t>(framework)].word;
}

const char* name_of(Framework framework) {
  return kNames[static_cast<std::size_t>(framework)].name;
}

std::string framework_words() {
  std::string all;
  for (const FrameworkName& row : kNames) all += (all.empty() ? "" : ", ") + std::string(row.word);
  return all;
}

std::vector<Build> builds_of(const Compatibility& known, Framework framework, Platform platform,
                             bool aarch64) {
  if (framework == Framework::kTorch) return torch_builds(known, platform, aarch64);
  // The tables have no aarch64 wheels for GPUs, except those of PyTorch and JAX. JAX's plugins also
  // have wheels for aarch64 servers: https://github.com/jax-ml/jax/issues/23824
  if (aarch64 && platform != Platform::kCpu && framework != Framework::kJax) return {};
  if (framework == Framework::kTensorflow) return tensorflow_builds(known, platform);
  if (framework == Framework::kJax) return jax_builds(known, platform);
  if (framework == Framework::kOnnxruntime) return onnx_builds(known, platform);
  return cupy_builds(known, platform);
}

std::optional<Need> need_of(const Compatibility& known, Framework framework, const Build& build,
                            bool aarch64, std::string_view capability) {
  const Kernels kernels = kernels_in(known, framework, build, aarch64, capability);
  if (kernels != Kernels::kHas && kernels != Kernels::kByPtx) return std::nullopt;
  Need need;
  need.driver = known.driver_for(build.cuda);
  if (need.driver.empty()) return std::nullopt;
  if (framework == Framework::kJax)
    if (const JaxPlugin* plugin = jax_plugin(known, build.cuda))
      need.driver = newer_of(need.driver, plugin->driver);
  if (kernels == Kernels::kByPtx) {
    need.made_for = build.cuda;
    need.driver = newer_of(need.driver, known.driver_made_for(build.cuda));
  }
  if (const ArchToolkits* bounds = known.toolkits_of(capability)) {
    need.last_branch = bounds->last_branch;
    if (!bounds->first.empty()) need.to_exist = known.driver_made_for(bounds->first);
  }
  return need;
}

std::string cudnn_pin(const Compatibility& known, Framework framework, const Build& build,
                      const std::vector<std::string>& capabilities) {
  // No pin is needed: PyTorch's wheels require an exact cuDNN themselves, and CuPy requires no
  // cuDNN.
  if (framework == Framework::kTorch || framework == Framework::kCupy || build.cuda.empty())
    return "";
  bool newest = true;
  for (const Compatibility::CudnnRelease& row : known.cudnn_releases) {
    if (version_of(row.cuda)[0] != version_of(build.cuda)[0]) continue;
    const bool all = std::all_of(
        capabilities.begin(), capabilities.end(),
        [&](const std::string& one) { return one.empty() || sass_serves(row.arch, one); });
    if (all)
      return newest ? ""
                    : fmt::format("nvidia-cudnn-cu{}=={}.*", version_of(build.cuda)[0],
                                  beginning(row.version));
    newest = false;
  }
  return "";
}

}  // namespace berth::doctor
