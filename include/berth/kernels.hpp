// Kernels of your own in C++: compile, launch, and buffers from a pool, through OpenCL. The source
// has the same macros as berth.kernel() in Python (docs/python-kernels.md). The OpenCL library is
// opened at the first call of compute(); this header needs no libberth and no OpenCL header.
//
// One queue executes copies and kernels in the order of the calls. All functions may be called from
// several threads.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "error.hpp"

namespace berth {
namespace detail {

/// The functions of OpenCL that this header calls, with their types as in CL/cl.h.
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

  /// Fills in the functions; false if the library lacks one.
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

inline Error failed_call(const char* what, std::int32_t code) {
  // CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
  const bool is_memory = code <= -4 && code >= -6;
  const std::string said = std::string(what) + ": " + std::to_string(code);
  return is_memory
             ? Error(Kind::refused, "E0584",
                     text("the device has no memory left: ", "设备内存不足：") + said, "berth ps")
             : Error(Kind::internal, "E0585",
                     text("a call of OpenCL failed: ", "OpenCL 调用失败：") + said, "berth doctor");
}

inline Error no_compute(std::string why) {
  return {Kind::no_device, "E0581",
          text("no device can run kernels: ", "没有可以运行内核的设备：") + std::move(why),
          "sudo apt install ocl-icd-libopencl1 pocl-opencl-icd"};
}

inline Error bad_kernel(std::string why) {
  return {Kind::invalid_request, "E0582", std::move(why)};
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

}  // namespace detail

/// How much memory the pool of a device has.
struct PoolStatistics {
  std::size_t used_bytes = 0;  ///< in buffers that exist
  std::size_t free_bytes = 0;  ///< kept in the pool for later buffers
  long allocations = 0;        ///< calls of the driver to allocate memory
  long reuses = 0;             ///< buffers that reused memory
};

namespace detail {

/// A device with its queue and its pool.
struct ComputeState {
  OpenCl cl{};
  void *device = nullptr, *context = nullptr, *queue = nullptr;
  std::string name;
  std::mutex mutex;
  std::multimap<std::size_t, void*> free;  // by capacity
  PoolStatistics pool;

  ComputeState() = default;
  ComputeState(const ComputeState&) = delete;
  ComputeState& operator=(const ComputeState&) = delete;
  ~ComputeState() {
    if (queue != nullptr) cl.clFinish(queue);
    trim();
    if (queue != nullptr) cl.clReleaseCommandQueue(queue);
    if (context != nullptr) cl.clReleaseContext(context);
  }

  void trim() {
    for (const auto& [capacity, memory] : free) cl.clReleaseMemObject(memory);
    free.clear();
    pool.free_bytes = 0;
  }

  /// Memory of exactly this capacity. The caller must hold the mutex.
  Result<void*> take(std::size_t capacity) {
    if (const auto found = free.find(capacity); found != free.end()) {
      void* const memory = found->second;
      free.erase(found);
      pool.free_bytes -= capacity;
      pool.used_bytes += capacity;
      ++pool.reuses;
      return memory;
    }
    constexpr std::uint64_t kReadWrite = 1;
    std::int32_t code = 0;
    void* memory = cl.clCreateBuffer(context, kReadWrite, capacity, nullptr, &code);
    if (memory == nullptr && !free.empty()) {  // the driver has no memory left, but memory that the
                                               // pool keeps may be enough
      trim();
      memory = cl.clCreateBuffer(context, kReadWrite, capacity, nullptr, &code);
    }
    if (memory == nullptr) return failed_call("clCreateBuffer", code);
    pool.used_bytes += capacity;
    ++pool.allocations;
    return memory;
  }

  void give_back(void* memory, std::size_t capacity) {
    const std::lock_guard<std::mutex> lock(mutex);
    free.emplace(capacity, memory);
    pool.used_bytes -= capacity;
    pool.free_bytes += capacity;
  }
};

/// The capacity for a size. Similar sizes have the same capacity, so that a later buffer can reuse
/// the memory.
inline std::size_t capacity_for(std::size_t bytes) {
  constexpr std::size_t kLeast = 256, kStep = std::size_t{1} << 20;
  if (bytes > kStep) return bytes > SIZE_MAX - kStep ? bytes : (bytes + kStep - 1) / kStep * kStep;
  std::size_t capacity = kLeast;
  while (capacity < bytes) capacity *= 2;
  return capacity;
}

}  // namespace detail

/// Memory of the device. It goes back to the pool when the object is destroyed.
class Buffer {
 public:
  Buffer(Buffer&& other) noexcept
      : state_(std::move(other.state_)),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (memory_ != nullptr) state_->give_back(memory_, detail::capacity_for(bytes_));
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Copies to the device. When it returns, `from` may be changed.
  Result<Done> try_write(const void* from, std::size_t bytes) {
    if (bytes > bytes_) return too_many(bytes);
    const auto code = state_->cl.clEnqueueWriteBuffer(state_->queue, memory_, 1, 0, bytes, from, 0,
                                                      nullptr, nullptr);
    if (code != 0) return detail::failed_call("clEnqueueWriteBuffer", code);
    return Done();
  }
  /// Waits for all kernels launched before, and copies from the device.
  Result<Done> try_read(void* into, std::size_t bytes) const {
    if (bytes > bytes_) return too_many(bytes);
    const auto code = state_->cl.clEnqueueReadBuffer(state_->queue, memory_, 1, 0, bytes, into, 0,
                                                     nullptr, nullptr);
    if (code != 0) return detail::failed_call("clEnqueueReadBuffer", code);
    return Done();
  }
#if defined(__cpp_exceptions)
  void write(const void* from, std::size_t bytes) {
    detail::value_or_throw(try_write(from, bytes));
  }
  void read(void* into, std::size_t bytes) const {
    detail::value_or_throw(try_read(into, bytes));
  }
#endif

 private:
  friend class Compute;
  friend class KernelFunction;
  Buffer(std::shared_ptr<detail::ComputeState> state, void* memory, std::size_t bytes)
      : state_(std::move(state)), memory_(memory), bytes_(bytes) {}
  [[nodiscard]] Error too_many(std::size_t bytes) const {
    return detail::bad_kernel(detail::text("the buffer has fewer bytes than ", "缓冲区小于 ") +
                              std::to_string(bytes) + detail::text("", " 字节"));
  }

  std::shared_ptr<detail::ComputeState> state_;
  void* memory_;
  std::size_t bytes_;
};

/// The end of a launched kernel.
class KernelEvent {
 public:
  /// Waits for the end of the kernel.
  Result<Done> try_wait() const {
    void* const event = event_.get();
    const auto code = state_->cl.clWaitForEvents(1, &event);
    if (code != 0) return detail::failed_call("clWaitForEvents", code);
    return Done();
  }
  /// Waits, and returns the time on the device.
  [[nodiscard]] Result<double> try_seconds() const {
    if (auto waited = try_wait(); !waited) return waited.error();
    constexpr std::uint32_t kStart = 0x1282, kEnd = 0x1283;
    std::uint64_t start = 0, end = 0;
    for (auto* const one : {&start, &end}) {
      const auto code = state_->cl.clGetEventProfilingInfo(
          event_.get(), one == &start ? kStart : kEnd, sizeof *one, one, nullptr);
      if (code != 0) return detail::failed_call("clGetEventProfilingInfo", code);
    }
    return static_cast<double>(end - start) * 1e-9;
  }
#if defined(__cpp_exceptions)
  void wait() const {
    detail::value_or_throw(try_wait());
  }
  [[nodiscard]] double seconds() const {
    return detail::value_or_throw(try_seconds());
  }
#endif

 private:
  friend class KernelFunction;
  KernelEvent(std::shared_ptr<detail::ComputeState> state, void* event)
      : state_(state),
        event_(event, [state = std::move(state)](void* one) { state->cl.clReleaseEvent(one); }) {}
  std::shared_ptr<detail::ComputeState> state_;
  std::shared_ptr<void> event_;
};

/// How many work-items on each of up to three axes.
struct KernelSize {
  std::array<std::size_t, 3> axes{1, 1, 1};
  std::uint32_t count = 1;
  KernelSize(std::size_t x) : axes{x, 1, 1} {}  // NOLINT: a plain number is a size
  KernelSize(std::size_t x, std::size_t y) : axes{x, y, 1}, count(2) {}
  KernelSize(std::size_t x, std::size_t y, std::size_t z) : axes{x, y, z}, count(3) {}
};

/// A compiled kernel.
class KernelFunction {
 public:
  /// Launches the kernel and returns at once. `size` is rounded up to whole groups (256, 16×16 or
  /// 8×8×4), so the kernel compares its GLOBAL_ID with the true size. Arguments: a Buffer for
  /// `GLOBAL T*`, a number of exactly the parameter's size for the others.
  template <typename... Arguments>
  Result<KernelEvent> try_launch(KernelSize size, const Arguments&... arguments) const {
    if (sizeof...(arguments) != parameters_)
      return detail::bad_kernel(
          detail::text("the kernel takes another number of arguments: ", "内核的参数个数不符：") +
          std::to_string(parameters_));
    const std::lock_guard<std::mutex> lock(state_->mutex);
    std::uint32_t index = 0;
    std::int32_t code = 0;
    ((code = code != 0 ? code : set(index++, arguments)), ...);
    if (code != 0)
      return detail::bad_kernel(
          detail::text("an argument has another size than the kernel's parameter: ",
                       "参数的大小与内核声明的不符：") +
          std::to_string(index - 1));
    return enqueue(size);
  }
#if defined(__cpp_exceptions)
  template <typename... Arguments>
  KernelEvent operator()(KernelSize size, const Arguments&... arguments) const {
    return detail::value_or_throw(try_launch(size, arguments...));
  }
#endif

 private:
  friend class Compute;
  KernelFunction(std::shared_ptr<detail::ComputeState> state, std::shared_ptr<void> kernel)
      : state_(std::move(state)), kernel_(std::move(kernel)) {
    constexpr std::uint32_t kArguments = 0x1191, kGroupSize = 0x11B0;
    std::uint32_t count = 0;
    std::size_t most = 0;
    if (state_->cl.clGetKernelInfo(kernel_.get(), kArguments, sizeof count, &count, nullptr) == 0)
      parameters_ = count;
    if (state_->cl.clGetKernelWorkGroupInfo(kernel_.get(), state_->device, kGroupSize, sizeof most,
                                            &most, nullptr) == 0 &&
        most > 0)
      most_in_group_ = most;
  }

  std::int32_t set(std::uint32_t index, const Buffer& buffer) const {
    return state_->cl.clSetKernelArg(kernel_.get(), index, sizeof(void*), &buffer.memory_);
  }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number> &&
                                                         !std::is_same_v<Number, bool>>>
  std::int32_t set(std::uint32_t index, const Number& number) const {
    return state_->cl.clSetKernelArg(kernel_.get(), index, sizeof number, &number);
  }

  Result<KernelEvent> enqueue(const KernelSize& size) const {
    constexpr std::array<std::array<std::size_t, 3>, 3> kGroups{
        {{256, 1, 1}, {16, 16, 1}, {8, 8, 4}}};
    std::array<std::size_t, 3> group = kGroups[size.count - 1], whole = size.axes;
    while (group[0] * group[1] * group[2] > most_in_group_)
      *std::max_element(group.begin(), group.end()) /= 2;
    for (std::size_t axis = 0; axis < whole.size(); ++axis) {
      if (whole[axis] == 0 || whole[axis] > SIZE_MAX - group[axis])
        return detail::bad_kernel(detail::text("a size must be at least 1", "大小至少为 1"));
      whole[axis] = (whole[axis] + group[axis] - 1) / group[axis] * group[axis];
    }
    void* event = nullptr;
    const auto code =
        state_->cl.clEnqueueNDRangeKernel(state_->queue, kernel_.get(), size.count, nullptr,
                                          whole.data(), group.data(), 0, nullptr, &event);
    if (code != 0) return detail::failed_call("clEnqueueNDRangeKernel", code);
    return KernelEvent(state_, event);
  }

  std::shared_ptr<detail::ComputeState> state_;
  std::shared_ptr<void> kernel_;
  std::size_t parameters_ = 0, most_in_group_ = 1;
};

/// A device that runs kernels: the first GPU that OpenCL offers, else its first device.
class Compute {
 public:
  [[nodiscard]] const std::string& name() const noexcept { return state_->name; }

  /// Memory from the pool; its contents are not defined. Fails with E0584 if there is none.
  [[nodiscard]] Result<Buffer> try_buffer(std::size_t bytes) const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    auto memory = state_->take(detail::capacity_for(bytes));
    if (!memory) return memory.error();
    return Buffer(state_, *memory, bytes);
  }

  /// Compiles the source. Fails with E0580 and the compiler's output, whose lines are those of the
  /// source, or with E0582 if the source has no kernel of this name.
  [[nodiscard]] Result<KernelFunction> try_kernel(const std::string& source,
                                                  const std::string& name) const {
    const std::string all = detail::kKernelMacros + source;
    const char* const text = all.c_str();
    const auto& cl = state_->cl;
    std::int32_t code = 0;
    void* const made = cl.clCreateProgramWithSource(
        state_->context, 1, const_cast<const char**>(&text), nullptr, &code);
    if (made == nullptr) return detail::failed_call("clCreateProgramWithSource", code);
    const std::shared_ptr<void> program(
        made, [state = state_](void* one) { state->cl.clReleaseProgram(one); });
    if (cl.clBuildProgram(made, 1, &state_->device, "", nullptr, nullptr) != 0)
      return Error(
          Kind::invalid_request, "E0580",
          detail::text("the kernel does not compile:\n", "内核编译失败：\n") + log_of(made));
    void* const function = cl.clCreateKernel(made, name.c_str(), &code);
    if (function == nullptr)
      return detail::bad_kernel(detail::text("the source has no kernel ", "源代码中没有内核 ") +
                                name);
    return KernelFunction(state_, std::shared_ptr<void>(function, [state = state_](void* one) {
                            state->cl.clReleaseKernel(one);
                          }));
  }

  [[nodiscard]] PoolStatistics pool() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->pool;
  }
  /// Returns the pool's unused memory to the driver.
  void trim() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->trim();
  }
#if defined(__cpp_exceptions)
  [[nodiscard]] Buffer buffer(std::size_t bytes) const {
    return detail::value_or_throw(try_buffer(bytes));
  }
  [[nodiscard]] KernelFunction kernel(const std::string& source, const std::string& name) const {
    return detail::value_or_throw(try_kernel(source, name));
  }
#endif

 private:
  friend Result<Compute> try_compute();
  explicit Compute(std::shared_ptr<detail::ComputeState> state) : state_(std::move(state)) {}

  [[nodiscard]] std::string log_of(void* program) const {
    constexpr std::uint32_t kBuildLog = 0x1183;
    constexpr std::size_t kMost = std::size_t{1} << 20;
    std::size_t size = 0;
    state_->cl.clGetProgramBuildInfo(program, state_->device, kBuildLog, 0, nullptr, &size);
    std::string log(std::min(size, kMost), '\0');
    if (size > kMost || state_->cl.clGetProgramBuildInfo(program, state_->device, kBuildLog, size,
                                                         log.data(), nullptr) != 0)
      return {};
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    return log;
  }

  std::shared_ptr<detail::ComputeState> state_;
};

namespace detail {

/// The first device of this type on any platform.
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

/// Whether CUDA_VISIBLE_DEVICES hides all GPUs, as `berth run --cpu` sets it.
inline bool hides_gpus() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && (*visible == '\0' || (visible[0] == '-' && visible[1] == '1'));
}

}  // namespace detail

/// Opens the device for kernels. If CUDA_VISIBLE_DEVICES hides all GPUs, the device is a CPU. The
/// variable BERTH_OPENCL_LIBRARY can name another library. Fails with E0581.
inline Result<Compute> try_compute() {
  const char* const named = ::secure_getenv("BERTH_OPENCL_LIBRARY");
  const char* const library = named != nullptr && *named != '\0' ? named : "libOpenCL.so.1";
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);  // drivers stay loaded
  const auto state = std::make_shared<detail::ComputeState>();
  if (opened == nullptr || !state->cl.load(opened)) {
    const char* const why = opened == nullptr ? ::dlerror() : nullptr;
    return detail::no_compute(why != nullptr ? why : library);
  }
  constexpr std::uint64_t kCpu = 2, kGpu = 4, kAll = 0xFFFFFFFF, kProfiling = 2;
  state->device = detail::hides_gpus() ? nullptr : detail::first_device(state->cl, kGpu);
  if (state->device == nullptr)
    state->device = detail::first_device(state->cl, detail::hides_gpus() ? kCpu : kAll);
  if (state->device == nullptr)
    return detail::no_compute(
        detail::text("no OpenCL platform has a device here", "没有 OpenCL 平台提供设备"));
  std::int32_t code = 0;
  state->context = state->cl.clCreateContext(nullptr, 1, &state->device, nullptr, nullptr, &code);
  if (state->context == nullptr) return detail::failed_call("clCreateContext", code);
  state->queue = state->cl.clCreateCommandQueue(state->context, state->device, kProfiling, &code);
  if (state->queue == nullptr) return detail::failed_call("clCreateCommandQueue", code);
  constexpr std::uint32_t kName = 0x102B;
  std::array<char, 256> name{};
  if (state->cl.clGetDeviceInfo(state->device, kName, name.size() - 1, name.data(), nullptr) == 0)
    state->name = name.data();
  return Compute(state);
}
#if defined(__cpp_exceptions)
inline Compute compute() {
  return detail::value_or_throw(try_compute());
}
#endif

}  // namespace berth
