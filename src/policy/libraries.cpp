#include "policy/libraries.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"

namespace berth::policy {
namespace {

using model::Vendor;

enum class Build : unsigned char { kNone, kCpu, kCuda, kRocm, kXpu };

/// A row of the table. `files`: parts of paths; any of them identifies the library. `cuda`, `rocm`,
/// `xpu`: parts of paths; a program that has loaded such a file has a build for these devices. "":
/// no file shows this. `on_VENDOR_…`: advice for a GPU of that vendor, …`cpu` for a build that
/// cannot use the GPU, …`gpu` for a build that can but did not. Each advice is a msgid; "": no
/// advice.
struct Row {
  const char* name;
  std::array<std::string_view, 3> files;
  std::string_view cuda, rocm, xpu;
  bool builds_differ;
  bool beneath_others;  // most programs load it (numpy): report it only if alone
  const char* on_nvidia_cpu;
  const char* on_nvidia_gpu;
  const char* on_amd_cpu;
  const char* on_intel_cpu;
};

// The most important library is first. The facts are from the projects' installation pages, 2024 to
// 2026.
constexpr std::array<Row, 18> kRows{{
    {"torch",
     {"/libtorch_cpu.so", "", ""},
     "/libtorch_cuda",
     "/libtorch_hip.so",
     "/libtorch_xpu.so",
     true,
     false,
     msgid("this PyTorch is a CPU build: install a CUDA build (pip install torch --index-url "
           "https://download.pytorch.org/whl/cu126)"),
     msgid("this PyTorch can use CUDA, but the program gave it no work: call model.to(\"cuda\"), "
           "and move the inputs too"),
     msgid("this PyTorch is a CPU build: install a ROCm build (pip install torch --index-url "
           "https://download.pytorch.org/whl/rocm6.4)"),
     msgid("this PyTorch is a CPU build: install an XPU build (pip install torch --index-url "
           "https://download.pytorch.org/whl/xpu)")},
    {"tensorflow",
     {"/libtensorflow_framework.so", "/libtensorflow_cc.so", "/_pywrap_tensorflow_internal.so"},
     "/libcudart.so",
     "/libamdhip64.so",
     "",
     true,
     false,
     msgid("TensorFlow found no CUDA libraries: pip install 'tensorflow[and-cuda]'"),
     msgid("TensorFlow had CUDA, but the program gave it no work: see "
           "tf.config.list_physical_devices(\"GPU\")"),
     msgid("this TensorFlow has no ROCm: pip install tensorflow-rocm"),
     ""},
    {"jax",
     {"/jaxlib/", "", ""},
     "cuda_plugin",
     "rocm_plugin",
     "",
     true,
     false,
     msgid("JAX has no GPU plugin here: pip install 'jax[cuda12]'"),
     msgid("JAX had its CUDA plugin, but ran nothing on the GPU: see jax.devices() and "
           "JAX_PLATFORMS"),
     msgid("JAX has no GPU plugin here: pip install 'jax[rocm]'"),
     ""},
    {"xgboost",
     {"/libxgboost.so", "", ""},
     "",
     "",
     "",
     false,
     false,
     msgid("XGBoost trains on the GPU with device=\"cuda\""),
     "",
     "",
     ""},
    {"lightgbm",
     {"/lib_lightgbm.so", "", ""},
     "",
     "",
     "",
     false,
     false,
     msgid("LightGBM trains on the GPU with device=\"cuda\", if it was built with USE_CUDA"),
     "",
     msgid("LightGBM trains on the GPU with device=\"gpu\" (OpenCL)"),
     msgid("LightGBM trains on the GPU with device=\"gpu\" (OpenCL)")},
    {"catboost",
     {"/_catboost.so", "/_catboost.cpython", ""},
     "",
     "",
     "",
     false,
     false,
     msgid("CatBoost trains on the GPU with task_type=\"GPU\""),
     "",
     "",
     ""},
    {"cudf", {"/libcudf.so", "", ""}, "/libcudf.so", "", "", false, false, "", "", "", ""},
    {"cuml",
     {"/libcuml++.so", "/libcuml.so", ""},
     "/libcuml",
     "",
     "",
     false,
     false,
     "",
     "",
     "",
     ""},
    {"cupy",
     {"/cupy/_core/", "/cupy_backends/", ""},
     "/cupy",
     "",
     "",
     false,
     false,
     "",
     msgid("CuPy was loaded, but did not use the GPU: create arrays with cupy, not numpy"),
     "",
     ""},
    {"scikit-learn",
     {"/sklearn/", "", ""},
     "",
     "",
     "",
     false,
     false,
     msgid("scikit-learn runs on the CPU: cuML speeds it up without changes to the "
           "script (python -m cuml.accel script.py)"),
     "",
     "",
     ""},
    {"pandas",
     {"/pandas/_libs/", "", ""},
     "",
     "",
     "",
     false,
     false,
     msgid("pandas runs on the CPU: cuDF speeds it up without changes to the script (python -m "
           "cudf.pandas script.py)"),
     "",
     "",
     ""},
    {"polars",
     {"/polars/polars", "/_polars_runtime", "/polars.abi3.so"},
     "",
     "",
     "",
     false,
     false,
     msgid("Polars runs on the CPU: pip install 'polars[gpu]', then use .collect(engine=\"gpu\")"),
     "",
     "",
     ""},
    {"opencv",
     {"/libopencv_core", "/cv2.abi3.so", "/cv2/cv2"},
     "/libopencv_cuda",
     "",
     "",
     true,
     false,
     msgid("OpenCV's wheel has no CUDA: cv2.UMat uses OpenCL; for cv2.cuda, build OpenCV yourself "
           "(WITH_CUDA=ON)"),
     msgid("this OpenCV has CUDA: its functions in cv2.cuda work on cv2.cuda_GpuMat"),
     msgid("OpenCV uses OpenCL through cv2.UMat"),
     msgid("OpenCV uses OpenCL through cv2.UMat")},
    {"onnxruntime",
     {"/onnxruntime_pybind11_state", "/libonnxruntime.so", ""},
     "/libonnxruntime_providers_cuda",
     "/libonnxruntime_providers_rocm",
     "",
     true,
     false,
     msgid("this ONNX Runtime has no CUDA provider: pip install onnxruntime-gpu"),
     "",
     "",
     msgid("this ONNX Runtime has no GPU provider: pip install onnxruntime-openvino")},
    {"llama.cpp",
     {"/libllama.so", "/libggml.so", "/libggml-base.so"},
     "/libggml-cuda",
     "/libggml-hip",
     "/libggml-sycl",
     true,
     false,
     msgid("this llama.cpp has no CUDA: build it with -DGGML_CUDA=ON"),
     msgid("this llama.cpp can use CUDA: give it layers with -ngl (n_gpu_layers)"),
     msgid("this llama.cpp has no ROCm: build it with -DGGML_HIP=ON"),
     msgid("this llama.cpp has no SYCL: build it with -DGGML_SYCL=ON")},
    {"numba",
     {"/numba/", "", ""},
     "",
     "",
     "",
     false,
     true,
     msgid("Numba compiled for the CPU: numba.cuda compiles for the GPU (pip install numba-cuda)"),
     "",
     "",
     ""},
    {"scipy",
     {"/scipy/", "", ""},
     "",
     "",
     "",
     false,
     true,
     msgid("SciPy runs on the CPU: cupyx.scipy has the same functions for the GPU (pip install "
           "cupy-cuda12x)"),
     "",
     "",
     ""},
    {"numpy",
     {"/numpy/core/_multiarray_umath", "/numpy/_core/_multiarray_umath", ""},
     "",
     "",
     "",
     false,
     true,
     msgid("NumPy runs on the CPU: CuPy has the same functions for the GPU (pip install "
           "cupy-cuda12x)"),
     "",
     msgid("NumPy runs on the CPU: CuPy has the same functions for the GPU (pip install "
           "cupy-rocm-6-0)"),
     ""},
}};

bool any_has(const std::vector<std::string>& files, std::string_view part) {
  if (part.empty()) return false;
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& file) { return file.find(part) != std::string::npos; });
}

/// Returns the version in a file's name: "1.13" for "/usr/lib/libtorch_cpu.so.1.13". A version
/// without a dot is ignored.
std::string version_of(const std::vector<std::string>& files, std::string_view part) {
  for (const std::string& file : files) {
    const auto at = part.empty() ? std::string::npos : file.find(part);
    const auto so = at == std::string::npos ? at : file.find(".so.", at);
    if (so == std::string::npos) continue;
    const std::string_view rest = std::string_view(file).substr(so + 4);
    const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789."));
    if (digits.find('.') != std::string_view::npos && digits.back() != '.' && digits.size() < 24)
      return std::string(digits);
  }
  return {};
}

Build build_of(const Row& row, const std::vector<std::string>& files) {
  if (any_has(files, row.cuda)) return Build::kCuda;
  if (any_has(files, row.rocm)) return Build::kRocm;
  if (any_has(files, row.xpu)) return Build::kXpu;
  return row.builds_differ ? Build::kCpu : Build::kNone;
}

std::string name_of(Build build) {
  switch (build) {
    case Build::kCpu:
      return text("CPU build");
    case Build::kCuda:
      return text("CUDA build");
    case Build::kRocm:
      return text("ROCm build");
    case Build::kXpu:
      return text("XPU build");
    case Build::kNone:
      return {};
  }
  return {};
}

std::string shown(const LibraryFact& fact) {
  std::string out = fact.name;
  if (!fact.version.empty()) out += " " + fact.version;
  if (!fact.build.empty()) out += " (" + fact.build + ")";
  return out;
}

/// The vendor of a GPU that the program could have used. If there are several, returns the one that
/// most libraries support: NVIDIA, then AMD, then Intel.
std::optional<Vendor> usable_vendor(const model::Snapshot& snapshot) {
  for (const Vendor vendor : {Vendor::kNvidia, Vendor::kAmd, Vendor::kIntel})
    for (const model::Device& device : snapshot.devices)
      if (device.vendor == vendor && device.kind == model::DeviceKind::kGpu && device.managed &&
          device.health != model::Health::kLost && device.health != model::Health::kNoAnswer)
        return vendor;
  return std::nullopt;
}

std::string_view suggestion_of(const Row& row, Build build, Vendor vendor) {
  const bool cannot = build == Build::kCpu || build == Build::kNone;
  if (vendor == Vendor::kNvidia)
    return build == Build::kCuda ? row.on_nvidia_gpu : cannot ? row.on_nvidia_cpu : "";
  if (vendor == Vendor::kAmd) return cannot ? row.on_amd_cpu : "";
  return cannot ? row.on_intel_cpu : "";
}

}  // namespace

LibraryAdvice advise(const std::vector<std::string>& mapped_files,
                     const model::Snapshot& snapshot) {
  constexpr std::size_t kMostSuggestions = 3;
  LibraryAdvice advice;
  const auto vendor = usable_vendor(snapshot);
  bool something_above = false;
  for (const Row& row : kRows) {
    const auto file = std::find_if(row.files.begin(), row.files.end(), [&](std::string_view part) {
      return any_has(mapped_files, part);
    });
    if (file == row.files.end()) continue;
    const Build build = build_of(row, mapped_files);
    LibraryFact fact{row.name, version_of(mapped_files, *file),
                     row.builds_differ ? name_of(build) : "",
                     build != Build::kCpu && build != Build::kNone};
    advice.libraries.push_back(shown(fact));
    advice.facts.push_back(std::move(fact));
    if (row.beneath_others && something_above) continue;
    something_above = true;
    const std::string_view sentence = vendor ? suggestion_of(row, build, *vendor) : "";
    if (!sentence.empty() && advice.suggestions.size() < kMostSuggestions)
      advice.suggestions.emplace_back(tr(sentence));
  }
  return advice;
}

}  // namespace berth::policy
