// Kernels through OpenCL, for berth/kernels.hpp. Needs no OpenCL header.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels_backend.hpp"

namespace berth::detail {

/// The functions of OpenCL that this library calls, with the types in CL/cl.h.
struct OpenCl {
  using Handle = void*;
  using Code = std::int32_t;
  Code (*clGetPlatformIDs)(std::uint32_t, Handle*, std::uint32_t*);
  Code (*clGetDeviceIDs)(Handle, std::uint64_t, std::uint32_t, Handle*, std::uint32_t*);
  Code (*clGetDeviceInfo)(Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  Handle (*clCreateContext)(const std::intptr_t*, std::uint32_t, const Handle*, void*, void*,
                            Code*);
  Handle (*clCreateCommandQueue)(Handle, Handle, std::uint64_t, Code*);
  Handle (*clCreateProgramWithSource)(Handle, std::uint32_t, const char**, const std::size_t*,
                                      Code*);
  Code (*clBuildProgram)(Handle, std::uint32_t, const Handle*, const char*, void*, void*);
  Code (*clGetProgramBuildInfo)(Handle, Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  Handle (*clCreateKernel)(Handle, const char*, Code*);
  Code (*clGetKernelInfo)(Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  Code (*clGetKernelWorkGroupInfo)(Handle, Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  Code (*clSetKernelArg)(Handle, std::uint32_t, std::size_t, const void*);
  Code (*clEnqueueNDRangeKernel)(Handle, Handle, std::uint32_t, const std::size_t*,
                                 const std::size_t*, const std::size_t*, std::uint32_t,
                                 const Handle*, Handle*);
  Handle (*clCreateBuffer)(Handle, std::uint64_t, std::size_t, void*, Code*);
  Code (*clEnqueueReadBuffer)(Handle, Handle, std::uint32_t, std::size_t, std::size_t, void*,
                              std::uint32_t, const Handle*, Handle*);
  Code (*clEnqueueWriteBuffer)(Handle, Handle, std::uint32_t, std::size_t, std::size_t, const void*,
                               std::uint32_t, const Handle*, Handle*);
  Code (*clFinish)(Handle);
  Code (*clWaitForEvents)(std::uint32_t, const Handle*);
  Code (*clGetEventProfilingInfo)(Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  Code (*clReleaseEvent)(Handle);
  Code (*clReleaseKernel)(Handle);
  Code (*clReleaseProgram)(Handle);
  Code (*clReleaseMemObject)(Handle);
  Code (*clReleaseCommandQueue)(Handle);
  Code (*clReleaseContext)(Handle);

  /// Finds the functions in `library`. Returns false if one is missing.
  bool load(void* library) {
    const auto find = [&](const char* name, auto& into) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(::dlsym(library, name));
      return into != nullptr;
    };
#define BERTH_FIND(name) find(#name, name)
    return BERTH_FIND(clGetPlatformIDs) && BERTH_FIND(clGetDeviceIDs) &&
           BERTH_FIND(clGetDeviceInfo) && BERTH_FIND(clCreateContext) &&
           BERTH_FIND(clCreateCommandQueue) && BERTH_FIND(clCreateProgramWithSource) &&
           BERTH_FIND(clBuildProgram) && BERTH_FIND(clGetProgramBuildInfo) &&
           BERTH_FIND(clCreateKernel) && BERTH_FIND(clGetKernelInfo) &&
           BERTH_FIND(clGetKernelWorkGroupInfo) && BERTH_FIND(clSetKernelArg) &&
           BERTH_FIND(clEnqueueNDRangeKernel) && BERTH_FIND(clCreateBuffer) &&
           BERTH_FIND(clEnqueueReadBuffer) && BERTH_FIND(clEnqueueWriteBuffer) &&
           BERTH_FIND(clFinish) && BERTH_FIND(clWaitForEvents) &&
           BERTH_FIND(clGetEventProfilingInfo) && BERTH_FIND(clReleaseEvent) &&
           BERTH_FIND(clReleaseKernel) && BERTH_FIND(clReleaseProgram) &&
           BERTH_FIND(clReleaseMemObject) && BERTH_FIND(clReleaseCommandQueue) &&
           BERTH_FIND(clReleaseContext);
#undef BERTH_FIND
  }
};

inline Error opencl_failed(const char* what, std::int32_t code) {
  // -4 to -6: CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
  return failed_call(what, code, code <= -4 && code >= -6);
}

inline constexpr const char* kKernelMacros =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#define KERNEL __kernel\n#define GLOBAL __global\n#define LOCAL __local\n#define DEVICE\n"
    "#define GLOBAL_ID(axis) ((int)get_global_id(axis))\n"
    "#define LOCAL_ID(axis) ((int)get_local_id(axis))\n"
    "#define GROUP_ID(axis) ((int)get_group_id(axis))\n"
    "#define LOCAL_SIZE(axis) ((int)get_local_size(axis))\n"
    "#define GLOBAL_SIZE(axis) ((int)get_global_size(axis))\n"
    "#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
    "#line 1\n";

/// The device, its context and its queue. Kernels and events keep this object alive.
struct OpenClHandles {
  OpenCl cl{};
  void *device = nullptr, *context = nullptr, *queue = nullptr;

  OpenClHandles() = default;
  OpenClHandles(const OpenClHandles&) = delete;
  OpenClHandles& operator=(const OpenClHandles&) = delete;
  ~OpenClHandles() {
    if (queue != nullptr) cl.clFinish(queue);
    if (queue != nullptr) cl.clReleaseCommandQueue(queue);
    if (context != nullptr) cl.clReleaseContext(context);
  }
};

class OpenClLaunched final : public Launched {
 public:
  OpenClLaunched(std::shared_ptr<OpenClHandles> handles, void* event)
      : handles_(std::move(handles)), event_(event) {}
  ~OpenClLaunched() override { handles_->cl.clReleaseEvent(event_); }
  OpenClLaunched(const OpenClLaunched&) = delete;
  OpenClLaunched& operator=(const OpenClLaunched&) = delete;

  Result<Done> wait() override {
    const auto code = handles_->cl.clWaitForEvents(1, &event_);
    if (code != 0) return opencl_failed("clWaitForEvents", code);
    return Done();
  }
  Result<double> seconds() override {
    constexpr std::uint32_t kStart = 0x1282, kEnd = 0x1283;
    std::uint64_t start = 0, end = 0;
    for (auto* const one : {&start, &end}) {
      const auto code = handles_->cl.clGetEventProfilingInfo(event_, one == &start ? kStart : kEnd,
                                                             sizeof *one, one, nullptr);
      if (code != 0) return opencl_failed("clGetEventProfilingInfo", code);
    }
    return static_cast<double>(end - start) * 1e-9;
  }

 private:
  std::shared_ptr<OpenClHandles> handles_;
  void* event_;
};

class OpenClCode final : public KernelCode {
 public:
  OpenClCode(std::shared_ptr<OpenClHandles> handles, void* kernel)
      : handles_(std::move(handles)), kernel_(kernel) {
    constexpr std::uint32_t kArguments = 0x1191, kGroupSize = 0x11B0;
    std::uint32_t count = 0;
    std::size_t most = 0;
    if (handles_->cl.clGetKernelInfo(kernel_, kArguments, sizeof count, &count, nullptr) == 0)
      parameters = count;
    if (handles_->cl.clGetKernelWorkGroupInfo(kernel_, handles_->device, kGroupSize, sizeof most,
                                              &most, nullptr) == 0 &&
        most > 0)
      most_in_group = most;
  }
  ~OpenClCode() override { handles_->cl.clReleaseKernel(kernel_); }
  OpenClCode(const OpenClCode&) = delete;
  OpenClCode& operator=(const OpenClCode&) = delete;

  Result<std::shared_ptr<Launched>> launch(const KernelArgument* arguments,
                                           const LaunchSize& size) override {
    for (std::uint32_t i = 0; i < parameters; ++i)
      if (handles_->cl.clSetKernelArg(kernel_, i, arguments[i].bytes, arguments[i].value) != 0)
        return wrong_size(i);
    void* event = nullptr;
    const auto code = handles_->cl.clEnqueueNDRangeKernel(handles_->queue, kernel_, size.axes,
                                                          nullptr, size.whole.data(),
                                                          size.group.data(), 0, nullptr, &event);
    if (code != 0) return opencl_failed("clEnqueueNDRangeKernel", code);
    return std::shared_ptr<Launched>(std::make_shared<OpenClLaunched>(handles_, event));
  }

 private:
  std::shared_ptr<OpenClHandles> handles_;
  void* kernel_;
};

class OpenClDevice final : public ComputeDevice {
 public:
  explicit OpenClDevice(std::shared_ptr<OpenClHandles> handles) : handles_(std::move(handles)) {
    constexpr std::uint32_t kName = 0x102B;
    std::array<char, 256> said{};
    if (handles_->cl.clGetDeviceInfo(handles_->device, kName, said.size() - 1, said.data(),
                                     nullptr) == 0)
      name = said.data();
    backend = "opencl";
  }

  Result<void*> allocate(std::size_t bytes) override {
    constexpr std::uint64_t kReadWrite = 1;
    std::int32_t code = 0;
    void* const memory =
        handles_->cl.clCreateBuffer(handles_->context, kReadWrite, bytes, nullptr, &code);
    if (memory == nullptr) return opencl_failed("clCreateBuffer", code);
    return memory;
  }
  void release(void* memory) override { handles_->cl.clReleaseMemObject(memory); }
  Result<Done> write(void* memory, const void* from, std::size_t bytes) override {
    const auto code = handles_->cl.clEnqueueWriteBuffer(handles_->queue, memory, 1, 0, bytes, from,
                                                        0, nullptr, nullptr);
    if (code != 0) return opencl_failed("clEnqueueWriteBuffer", code);
    return Done();
  }
  Result<Done> read(void* memory, void* into, std::size_t bytes) override {
    const auto code = handles_->cl.clEnqueueReadBuffer(handles_->queue, memory, 1, 0, bytes, into,
                                                       0, nullptr, nullptr);
    if (code != 0) return opencl_failed("clEnqueueReadBuffer", code);
    return Done();
  }
  Result<std::shared_ptr<KernelCode>> compile(const std::string& source,
                                              const std::string& kernel) override {
    const std::string all = kKernelMacros + source;
    const char* words = all.c_str();
    const auto& cl = handles_->cl;
    std::int32_t code = 0;
    void* const made = cl.clCreateProgramWithSource(handles_->context, 1, &words, nullptr, &code);
    if (made == nullptr) return opencl_failed("clCreateProgramWithSource", code);
    const std::shared_ptr<void> program(
        made, [handles = handles_](void* one) { handles->cl.clReleaseProgram(one); });
    if (cl.clBuildProgram(made, 1, &handles_->device, "", nullptr, nullptr) != 0)
      return does_not_compile(log_of(made));
    void* const function = cl.clCreateKernel(made, kernel.c_str(), &code);
    if (function == nullptr) return no_kernel(kernel);
    return std::shared_ptr<KernelCode>(std::make_shared<OpenClCode>(handles_, function));
  }

 private:
  [[nodiscard]] std::string log_of(void* program) const {
    constexpr std::uint32_t kBuildLog = 0x1183;
    constexpr std::size_t kMost = std::size_t{1} << 20;
    std::size_t size = 0;
    handles_->cl.clGetProgramBuildInfo(program, handles_->device, kBuildLog, 0, nullptr, &size);
    std::string log(std::min(size, kMost), '\0');
    if (size > kMost || handles_->cl.clGetProgramBuildInfo(program, handles_->device, kBuildLog,
                                                           size, log.data(), nullptr) != 0)
      return {};
    return trimmed_log(std::move(log));
  }

  std::shared_ptr<OpenClHandles> handles_;
};

/// The first device of this type on any platform; a null pointer if there is none.
inline void* first_device(const OpenCl& cl, std::uint64_t type) {
  std::array<void*, 16> platforms{};
  std::uint32_t count = 0;
  if (cl.clGetPlatformIDs(platforms.size(), platforms.data(), &count) != 0) return nullptr;
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(count, platforms.size()); ++i) {
    void* device = nullptr;
    if (cl.clGetDeviceIDs(platforms[i], type, 1, &device, nullptr) == 0 && device != nullptr)
      return device;
  }
  return nullptr;
}

inline Result<std::shared_ptr<ComputeDevice>> opencl_device() {
  constexpr const char* kInstall = "sudo apt install ocl-icd-libopencl1 pocl-opencl-icd";
  const char* const named = ::secure_getenv("BERTH_OPENCL_LIBRARY");
  const char* const library = named != nullptr && *named != '\0' ? named : "libOpenCL.so.1";
  // never closed, because drivers stay loaded
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const auto handles = std::make_shared<OpenClHandles>();
  if (opened == nullptr || !handles->cl.load(opened)) {
    const char* const why = opened == nullptr ? ::dlerror() : nullptr;
    return no_compute(why != nullptr ? why : library, kInstall);
  }
  const OpenCl& cl = handles->cl;
  constexpr std::uint64_t kCpu = 2, kGpu = 4, kAll = 0xFFFFFFFF, kProfiling = 2;
  handles->device = hides_gpus() ? nullptr : first_device(cl, kGpu);
  if (handles->device == nullptr) handles->device = first_device(cl, hides_gpus() ? kCpu : kAll);
  if (handles->device == nullptr)
    return no_compute(text("no OpenCL platform has a device here", "没有 OpenCL 平台提供设备"),
                      kInstall);
  std::int32_t code = 0;
  handles->context = cl.clCreateContext(nullptr, 1, &handles->device, nullptr, nullptr, &code);
  if (handles->context == nullptr) return opencl_failed("clCreateContext", code);
  handles->queue = cl.clCreateCommandQueue(handles->context, handles->device, kProfiling, &code);
  if (handles->queue == nullptr) return opencl_failed("clCreateCommandQueue", code);
  return std::shared_ptr<ComputeDevice>(std::make_shared<OpenClDevice>(handles));
}

}  // namespace berth::detail
