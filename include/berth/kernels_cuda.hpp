// Kernels through CUDA's driver and its compiler NVRTC, for berth/kernels.hpp. Needs no CUDA
// header.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels_backend.hpp"
#include "kernels_parameters.hpp"

namespace berth::detail {

/// The functions of CUDA's driver and of NVRTC, with the types in cuda.h and nvrtc.h.
struct Cuda {
  using Handle = void*;
  using Code = int;
  Code (*cuInit)(unsigned);
  Code (*cuDriverGetVersion)(int*);
  Code (*cuDeviceGet)(int*, int);
  Code (*cuDeviceGetName)(char*, int, int);
  Code (*cuDeviceGetAttribute)(int*, int, int);
  Code (*cuDevicePrimaryCtxRetain)(Handle*, int);
  Code (*cuDevicePrimaryCtxRelease_v2)(int);
  Code (*cuCtxPushCurrent_v2)(Handle);
  Code (*cuCtxPopCurrent_v2)(Handle*);
  Code (*cuModuleLoadData)(Handle*, const void*);
  Code (*cuModuleUnload)(Handle);
  Code (*cuModuleGetFunction)(Handle*, Handle, const char*);
  Code (*cuFuncGetAttribute)(int*, int, Handle);
  Code (*cuMemAlloc_v2)(std::uint64_t*, std::size_t);
  Code (*cuMemFree_v2)(std::uint64_t);
  Code (*cuMemcpyHtoDAsync_v2)(std::uint64_t, const void*, std::size_t, Handle);
  Code (*cuMemcpyDtoHAsync_v2)(void*, std::uint64_t, std::size_t, Handle);
  Code (*cuStreamCreate)(Handle*, unsigned);
  Code (*cuStreamSynchronize)(Handle);
  Code (*cuStreamDestroy_v2)(Handle);
  Code (*cuLaunchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, Handle, void**, void**);
  Code (*cuEventCreate)(Handle*, unsigned);
  Code (*cuEventRecord)(Handle, Handle);
  Code (*cuEventSynchronize)(Handle);
  Code (*cuEventElapsedTime)(float*, Handle, Handle);
  Code (*cuEventDestroy_v2)(Handle);

  Code (*nvrtcGetNumSupportedArchs)(int*);
  Code (*nvrtcGetSupportedArchs)(int*);
  Code (*nvrtcCreateProgram)(Handle*, const char*, const char*, int, const char* const*,
                             const char* const*);
  Code (*nvrtcDestroyProgram)(Handle*);
  Code (*nvrtcCompileProgram)(Handle, int, const char* const*);
  Code (*nvrtcGetProgramLogSize)(Handle, std::size_t*);
  Code (*nvrtcGetProgramLog)(Handle, char*);
  Code (*nvrtcGetPTXSize)(Handle, std::size_t*);
  Code (*nvrtcGetPTX)(Handle, char*);
  Code (*nvrtcGetCUBINSize)(Handle, std::size_t*);
  Code (*nvrtcGetCUBIN)(Handle, char*);

  template <typename Function>
  static bool find(void* library, const char* name, Function& into) {
    into = reinterpret_cast<Function>(::dlsym(library, name));
    return into != nullptr;
  }
#define BERTH_FIND(name) find(library, #name, name)
  /// Finds the functions of the driver in `library`. Returns false if one is missing.
  bool load_driver(void* library) {
    return BERTH_FIND(cuInit) && BERTH_FIND(cuDriverGetVersion) && BERTH_FIND(cuDeviceGet) &&
           BERTH_FIND(cuDeviceGetName) && BERTH_FIND(cuDeviceGetAttribute) &&
           BERTH_FIND(cuDevicePrimaryCtxRetain) && BERTH_FIND(cuDevicePrimaryCtxRelease_v2) &&
           BERTH_FIND(cuCtxPushCurrent_v2) && BERTH_FIND(cuCtxPopCurrent_v2) &&
           BERTH_FIND(cuModuleLoadData) && BERTH_FIND(cuModuleUnload) &&
           BERTH_FIND(cuModuleGetFunction) && BERTH_FIND(cuFuncGetAttribute) &&
           BERTH_FIND(cuMemAlloc_v2) && BERTH_FIND(cuMemFree_v2) &&
           BERTH_FIND(cuMemcpyHtoDAsync_v2) && BERTH_FIND(cuMemcpyDtoHAsync_v2) &&
           BERTH_FIND(cuStreamCreate) && BERTH_FIND(cuStreamSynchronize) &&
           BERTH_FIND(cuStreamDestroy_v2) && BERTH_FIND(cuLaunchKernel) &&
           BERTH_FIND(cuEventCreate) && BERTH_FIND(cuEventRecord) &&
           BERTH_FIND(cuEventSynchronize) && BERTH_FIND(cuEventElapsedTime) &&
           BERTH_FIND(cuEventDestroy_v2);
  }
  bool load_compiler(void* library) {
    return BERTH_FIND(nvrtcGetNumSupportedArchs) && BERTH_FIND(nvrtcGetSupportedArchs) &&
           BERTH_FIND(nvrtcCreateProgram) && BERTH_FIND(nvrtcDestroyProgram) &&
           BERTH_FIND(nvrtcCompileProgram) && BERTH_FIND(nvrtcGetProgramLogSize) &&
           BERTH_FIND(nvrtcGetProgramLog) && BERTH_FIND(nvrtcGetPTXSize) &&
           BERTH_FIND(nvrtcGetPTX) && BERTH_FIND(nvrtcGetCUBINSize) && BERTH_FIND(nvrtcGetCUBIN);
  }
#undef BERTH_FIND
};

inline Error cuda_failed(const char* what, int code) {
  return failed_call(what, code, code == 2);  // 2 is CUDA_ERROR_OUT_OF_MEMORY
}

/// Macros that are put before a kernel's source. A compiler option forbids to fuse a*b+c, as a
/// pragma does for OpenCL, so that both give the same bits.
inline constexpr const char* kCudaMacros =
    "typedef unsigned char uchar;\ntypedef unsigned short ushort;\n"
    "typedef unsigned int uint;\ntypedef unsigned long ulong;\n"
    "#define BERTH_AXIS_0 x\n#define BERTH_AXIS_1 y\n#define BERTH_AXIS_2 z\n"
    "#define BERTH_AXIS(axis) BERTH_AXIS_##axis\n"
    "#define KERNEL extern \"C\" __global__\n#define GLOBAL\n#define LOCAL __shared__\n"
    "#define DEVICE __device__\n"
    "#define GLOBAL_ID(axis) ((int)(blockIdx.BERTH_AXIS(axis) * blockDim.BERTH_AXIS(axis) + "
    "threadIdx.BERTH_AXIS(axis)))\n"
    "#define LOCAL_ID(axis) ((int)threadIdx.BERTH_AXIS(axis))\n"
    "#define GROUP_ID(axis) ((int)blockIdx.BERTH_AXIS(axis))\n"
    "#define LOCAL_SIZE(axis) ((int)blockDim.BERTH_AXIS(axis))\n"
    "#define GLOBAL_SIZE(axis) ((int)(gridDim.BERTH_AXIS(axis) * blockDim.BERTH_AXIS(axis)))\n"
    "#define BARRIER() __syncthreads()\n#line 1 \"kernel\"\n";

/// The device, its primary context and a stream. Kernels and events keep this object alive.
struct CudaHandles {
  Cuda cu{};
  int device = 0, capability = 0, most_in_group = 1;
  void *context = nullptr, *stream = nullptr;

  CudaHandles() = default;
  CudaHandles(const CudaHandles&) = delete;
  CudaHandles& operator=(const CudaHandles&) = delete;
  ~CudaHandles();
};

/// During its lifetime, the context is the current one of this thread.
class CudaCurrent {
 public:
  explicit CudaCurrent(const CudaHandles& handles)
      : handles_(handles), is_current_(handles.cu.cuCtxPushCurrent_v2(handles.context) == 0) {}
  ~CudaCurrent() {
    void* ignored = nullptr;
    if (is_current_) handles_.cu.cuCtxPopCurrent_v2(&ignored);
  }
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;

 private:
  const CudaHandles& handles_;
  bool is_current_;
};

inline CudaHandles::~CudaHandles() {
  if (context == nullptr) return;
  if (stream != nullptr) {
    const CudaCurrent current(*this);
    cu.cuStreamSynchronize(stream);
    cu.cuStreamDestroy_v2(stream);
  }
  cu.cuDevicePrimaryCtxRelease_v2(device);
}

class CudaLaunched final : public Launched {
 public:
  explicit CudaLaunched(std::shared_ptr<CudaHandles> handles) : handles_(std::move(handles)) {}
  ~CudaLaunched() override {
    const CudaCurrent current(*handles_);
    for (void* const event : {start, end})
      if (event != nullptr) handles_->cu.cuEventDestroy_v2(event);
  }
  CudaLaunched(const CudaLaunched&) = delete;
  CudaLaunched& operator=(const CudaLaunched&) = delete;

  Result<Done> wait() override {
    const CudaCurrent current(*handles_);
    if (const int code = handles_->cu.cuEventSynchronize(end); code != 0)
      return cuda_failed("cuEventSynchronize", code);
    return Done();
  }
  Result<double> seconds() override {
    const CudaCurrent current(*handles_);
    float milliseconds = 0;
    if (const int code = handles_->cu.cuEventElapsedTime(&milliseconds, start, end); code != 0)
      return cuda_failed("cuEventElapsedTime", code);
    return static_cast<double>(milliseconds) * 1e-3;
  }

  void *start = nullptr, *end = nullptr;

 private:
  std::shared_ptr<CudaHandles> handles_;
};

class CudaCode final : public KernelCode {
 public:
  CudaCode(std::shared_ptr<CudaHandles> handles, std::shared_ptr<void> module, void* function,
           std::vector<std::size_t> sizes)
      : handles_(std::move(handles)),
        module_(std::move(module)),
        function_(function),
        sizes_(std::move(sizes)) {
    constexpr int kMaxThreadsPerBlock = 0;
    // the most threads that a group may have; fewer if the kernel needs many registers
    int most = 0;
    if (handles_->cu.cuFuncGetAttribute(&most, kMaxThreadsPerBlock, function_) != 0 || most <= 0)
      most = handles_->most_in_group;
    most_in_group = static_cast<std::size_t>(most);
    parameters = sizes_.size();
  }

  Result<std::shared_ptr<Launched>> launch(const KernelArgument* arguments,
                                           const LaunchSize& size) override {
    std::vector<void*> values;
    values.reserve(parameters);
    for (std::size_t i = 0; i < parameters; ++i) {
      if (arguments[i].bytes != sizes_[i]) return wrong_size(i);
      values.push_back(const_cast<void*>(arguments[i].value));
    }
    std::array<unsigned, 3> blocks{}, threads{};
    for (std::size_t axis = 0; axis < blocks.size(); ++axis) {
      blocks[axis] = static_cast<unsigned>(size.whole[axis] / size.group[axis]);
      threads[axis] = static_cast<unsigned>(size.group[axis]);
    }
    const auto event = std::make_shared<CudaLaunched>(handles_);
    const CudaCurrent current(*handles_);
    const Cuda& cu = handles_->cu;
    int code = cu.cuEventCreate(&event->start, 0);
    if (code == 0) code = cu.cuEventCreate(&event->end, 0);
    if (code == 0) code = cu.cuEventRecord(event->start, handles_->stream);
    if (code != 0) return cuda_failed("cuEventRecord", code);
    code = cu.cuLaunchKernel(function_, blocks[0], blocks[1], blocks[2], threads[0], threads[1],
                             threads[2], 0, handles_->stream, values.data(), nullptr);
    if (code == 0) code = cu.cuEventRecord(event->end, handles_->stream);
    if (code != 0) return cuda_failed("cuLaunchKernel", code);
    return std::shared_ptr<Launched>(event);
  }

 private:
  std::shared_ptr<CudaHandles> handles_;
  std::shared_ptr<void> module_;
  void* function_;
  std::vector<std::size_t> sizes_;
};

}  // namespace berth::detail
