// A GPU for berth/kernels.hpp through CUDA: its memory, its compiler, and how it is found.
#pragma once

#include "kernels_cuda.hpp"

namespace berth::detail {

class CudaDevice final : public ComputeDevice {
 public:
  explicit CudaDevice(std::shared_ptr<CudaHandles> handles) : handles_(std::move(handles)) {
    std::array<char, 256> said{};
    if (handles_->cu.cuDeviceGetName(said.data(), static_cast<int>(said.size() - 1),
                                     handles_->device) == 0)
      name = said.data();
    backend = "cuda";
  }

  Result<void*> allocate(std::size_t bytes) override {
    const CudaCurrent current(*handles_);
    std::uint64_t memory = 0;
    if (const int code = handles_->cu.cuMemAlloc_v2(&memory, bytes); code != 0)
      return cuda_failed("cuMemAlloc", code);
    return reinterpret_cast<void*>(memory);
  }
  void release(void* memory) override {
    const CudaCurrent current(*handles_);
    handles_->cu.cuMemFree_v2(address_of(memory));
  }
  Result<Done> write(void* memory, const void* from, std::size_t bytes) override {
    const CudaCurrent current(*handles_);
    return finished("cuMemcpyHtoD", handles_->cu.cuMemcpyHtoDAsync_v2(address_of(memory), from,
                                                                      bytes, handles_->stream));
  }
  Result<Done> read(void* memory, void* into, std::size_t bytes) override {
    const CudaCurrent current(*handles_);
    return finished("cuMemcpyDtoH", handles_->cu.cuMemcpyDtoHAsync_v2(into, address_of(memory),
                                                                      bytes, handles_->stream));
  }

  Result<std::shared_ptr<KernelCode>> compile(const std::string& source,
                                              const std::string& kernel) override {
    const auto code = machine_code(source);
    if (!code) return code.error();
    auto sizes = parameter_sizes(source, kernel);
    if (!sizes) return no_kernel(kernel);
    const CudaCurrent current(*handles_);
    void* loaded = nullptr;
    if (const int failed = handles_->cu.cuModuleLoadData(&loaded, code->c_str()); failed != 0)
      return cuda_failed("cuModuleLoadData", failed);
    const std::shared_ptr<void> module(loaded, [handles = handles_](void* one) {
      const CudaCurrent now(*handles);
      handles->cu.cuModuleUnload(one);
    });
    void* function = nullptr;
    if (handles_->cu.cuModuleGetFunction(&function, loaded, kernel.c_str()) != 0)
      return no_kernel(kernel);
    return std::shared_ptr<KernelCode>(
        std::make_shared<CudaCode>(handles_, module, function, *std::move(sizes)));
  }

 private:
  static std::uint64_t address_of(void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

  Result<Done> finished(const char* what, int code) {
    if (code == 0) code = handles_->cu.cuStreamSynchronize(handles_->stream);
    if (code != 0) return cuda_failed(what, code);
    return Done();
  }

  /// The architecture to compile for, and whether it is exactly that of this GPU. If NVRTC is older
  /// than the GPU, it makes PTX for an older architecture, which the driver compiles.
  [[nodiscard]] std::pair<bool, int> architecture() const {
    int count = 0;
    constexpr int kMost = 1000;
    if (handles_->cu.nvrtcGetNumSupportedArchs(&count) != 0 || count <= 0 || count > kMost)
      return {false, handles_->capability};
    std::vector<int> known(static_cast<std::size_t>(count));
    handles_->cu.nvrtcGetSupportedArchs(known.data());
    int best = 0;
    for (const int one : known)
      if (one <= handles_->capability) best = std::max(best, one);
    if (best == 0) return {false, handles_->capability};
    return {best == handles_->capability, best};
  }

  Result<std::string> machine_code(const std::string& source) {
    const Cuda& cu = handles_->cu;
    const std::string all = kCudaMacros + source;
    void* program = nullptr;
    if (const int code =
            cu.nvrtcCreateProgram(&program, all.c_str(), "kernel", 0, nullptr, nullptr);
        code != 0)
      return cuda_failed("nvrtcCreateProgram", code);
    const auto [is_exact, number] = architecture();
    const std::string target = std::string("--gpu-architecture=") +
                               (is_exact ? "sm_" : "compute_") + std::to_string(number);
    const char* const options[] = {target.c_str(), "--fmad=false"};
    Result<std::string> out = std::string();
    if (cu.nvrtcCompileProgram(program, 2, options) != 0)
      out = does_not_compile(
          trimmed_log(text_of(program, cu.nvrtcGetProgramLogSize, cu.nvrtcGetProgramLog)));
    else if (is_exact)
      out = text_of(program, cu.nvrtcGetCUBINSize, cu.nvrtcGetCUBIN);
    else
      out = text_of(program, cu.nvrtcGetPTXSize, cu.nvrtcGetPTX);
    cu.nvrtcDestroyProgram(&program);
    return out;
  }

  static std::string text_of(void* program, int (*size_of)(void*, std::size_t*),
                             int (*get)(void*, char*)) {
    std::size_t size = 0;
    constexpr std::size_t kMost = std::size_t{1} << 30;
    if (size_of(program, &size) != 0 || size > kMost) return {};
    std::string out(size + 1, '\0');
    if (get(program, out.data()) != 0) return {};
    return out;
  }

  std::shared_ptr<CudaHandles> handles_;
};

/// Opens NVRTC: the library that BERTH_NVRTC_LIBRARY names or, if it is not set, the newest that
/// this driver can use.
inline bool open_compiler(Cuda& cu, int driver_major) {
  constexpr int kOldest = 11;
  std::vector<std::string> files;
  if (const char* const named = ::secure_getenv("BERTH_NVRTC_LIBRARY");
      named != nullptr && *named != '\0') {
    files.emplace_back(named);
  } else {
    for (int major = driver_major; major >= kOldest; --major) {
      const std::string file =
          "libnvrtc.so." + (major == kOldest ? std::string("11.2") : std::to_string(major));
      files.push_back(file);
      files.push_back("/usr/local/cuda/lib64/" + file);
    }
  }
  return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    void* const opened = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    return opened != nullptr && cu.load_compiler(opened);
  });
}

inline Result<std::shared_ptr<ComputeDevice>> cuda_device() {
  constexpr const char* kDoctor = "berth doctor";
  const auto handles = std::make_shared<CudaHandles>();
  Cuda& cu = handles->cu;
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr || !cu.load_driver(driver)) {
    const char* const why = driver == nullptr ? ::dlerror() : nullptr;
    return no_compute(why != nullptr ? why : "libcuda.so.1", kDoctor);
  }
  int version = 0;
  int code = cu.cuInit(0);
  if (code == 0) code = cu.cuDriverGetVersion(&version);
  if (code == 0) code = cu.cuDeviceGet(&handles->device, 0);
  if (code != 0)
    return no_compute(
        text("CUDA offers no GPU here: ", "CUDA 没有提供 GPU：") + std::to_string(code), kDoctor);
  if (!open_compiler(cu, version / 1000))
    return no_compute(
        text("NVRTC, CUDA's compiler, is not installed", "没有安装 CUDA 的编译器 NVRTC"),
        "sudo apt install nvidia-cuda-toolkit");
  constexpr int kThreads = 1, kMajor = 75, kMinor = 76;  // values of CU_DEVICE_ATTRIBUTE_…
  int major = 0, minor = 0;
  cu.cuDeviceGetAttribute(&handles->most_in_group, kThreads, handles->device);
  cu.cuDeviceGetAttribute(&major, kMajor, handles->device);
  cu.cuDeviceGetAttribute(&minor, kMinor, handles->device);
  handles->capability = 10 * major + minor;
  code = cu.cuDevicePrimaryCtxRetain(&handles->context, handles->device);
  if (code != 0) return cuda_failed("cuDevicePrimaryCtxRetain", code);
  const CudaCurrent current(*handles);
  code = cu.cuStreamCreate(&handles->stream, 0);
  if (code != 0) return cuda_failed("cuStreamCreate", code);
  return std::shared_ptr<ComputeDevice>(std::make_shared<CudaDevice>(handles));
}

}  // namespace berth::detail
