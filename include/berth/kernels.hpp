// Kernels of your own in C++: compile, launch, and buffers from a pool, through CUDA or OpenCL. The
// source has the same macros as berth.kernel() in Python (docs/python-kernels.md). The libraries
// are opened at the first call of compute(); this header needs no libberth, and no header of CUDA
// or OpenCL.
//
// One queue executes copies and kernels in the order of the calls. All functions may be called from
// several threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "error.hpp"
#include "kernels_cuda_device.hpp"
#include "kernels_opencl.hpp"
#include "kernels_pool.hpp"

namespace berth {

/// Memory on the device. When the object is destroyed, the memory goes back to the pool.
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
  /// Copies bytes to the device. After the return, `from` may be changed.
  Result<Done> try_write(const void* from, std::size_t bytes) {
    if (bytes > bytes_) return too_many(bytes);
    return state_->device->write(memory_, from, bytes);
  }
  /// Waits for all kernels that were launched before, and copies bytes from the device.
  Result<Done> try_read(void* into, std::size_t bytes) const {
    if (bytes > bytes_) return too_many(bytes);
    return state_->device->read(memory_, into, bytes);
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

/// Lets the program wait for the end of a launched kernel.
class KernelEvent {
 public:
  /// Waits for the end of the kernel.
  Result<Done> try_wait() const { return launched_->wait(); }
  /// Waits for the end of the kernel, and returns its time on the device in seconds.
  [[nodiscard]] Result<double> try_seconds() const {
    if (auto waited = try_wait(); !waited) return waited.error();
    return launched_->seconds();
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
  explicit KernelEvent(std::shared_ptr<detail::Launched> launched)
      : launched_(std::move(launched)) {}
  std::shared_ptr<detail::Launched> launched_;
};

/// The number of work-items on one, two or three axes.
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
  /// Launches the kernel and returns without waiting for it. `size` is rounded up to whole groups
  /// (256, 16×16 or 8×8×4), so the kernel must compare its GLOBAL_ID with the true size. Pass a
  /// Buffer for `GLOBAL T*`, and for other parameters a number of exactly their size.
  template <typename... Arguments>
  Result<KernelEvent> try_launch(KernelSize size, const Arguments&... arguments) const {
    if (sizeof...(arguments) != code_->parameters)
      return detail::bad_kernel(
          detail::text("the kernel takes another number of arguments: ", "内核的参数个数不符：") +
          std::to_string(code_->parameters));
    const std::array<detail::KernelArgument, sizeof...(arguments)> values{value_of(arguments)...};
    return launch(size, values.data());
  }
#if defined(__cpp_exceptions)
  template <typename... Arguments>
  KernelEvent operator()(KernelSize size, const Arguments&... arguments) const {
    return detail::value_or_throw(try_launch(size, arguments...));
  }
#endif

 private:
  friend class Compute;
  KernelFunction(std::shared_ptr<detail::ComputeState> state,
                 std::shared_ptr<detail::KernelCode> code)
      : state_(std::move(state)), code_(std::move(code)) {}

  static detail::KernelArgument value_of(const Buffer& buffer) {
    return {&buffer.memory_, sizeof buffer.memory_};
  }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number> &&
                                                         !std::is_same_v<Number, bool>>>
  static detail::KernelArgument value_of(const Number& number) {
    return {&number, sizeof number};
  }

  Result<KernelEvent> launch(const KernelSize& size,
                             const detail::KernelArgument* arguments) const {
    constexpr std::array<std::array<std::size_t, 3>, 3> kGroups{
        {{256, 1, 1}, {16, 16, 1}, {8, 8, 4}}};
    std::array<std::size_t, 3> group = kGroups[size.count - 1], whole = size.axes;
    while (group[0] * group[1] * group[2] > code_->most_in_group)
      *std::max_element(group.begin(), group.end()) /= 2;
    for (std::size_t axis = 0; axis < whole.size(); ++axis) {
      if (whole[axis] == 0 || whole[axis] > SIZE_MAX - group[axis])
        return detail::bad_kernel(detail::text("a size must be at least 1", "大小至少为 1"));
      whole[axis] = (whole[axis] + group[axis] - 1) / group[axis] * group[axis];
    }
    const std::lock_guard<std::mutex> lock(state_->mutex);
    auto launched = code_->launch(arguments, {whole, group, size.count});
    if (!launched) return launched.error();
    return KernelEvent(*std::move(launched));
  }

  std::shared_ptr<detail::ComputeState> state_;
  std::shared_ptr<detail::KernelCode> code_;
};

/// Which driver runs kernels. `automatic` means CUDA if there is a driver, a GPU and NVRTC. If not,
/// it means OpenCL.
enum class ComputeBackend { automatic, cuda, opencl };

/// A device that runs kernels: the first GPU that CUDA or OpenCL offers. If there is no GPU, the
/// first device of OpenCL.
class Compute {
 public:
  [[nodiscard]] const std::string& name() const noexcept { return state_->device->name; }
  /// "cuda" or "opencl"
  [[nodiscard]] const char* backend() const noexcept { return state_->device->backend; }

  /// Takes memory from the pool. Its contents are undefined. Fails with E0584 if the device has no
  /// free memory.
  [[nodiscard]] Result<Buffer> try_buffer(std::size_t bytes) const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    auto memory = state_->take(detail::capacity_for(bytes));
    if (!memory) return memory.error();
    return Buffer(state_, *memory, bytes);
  }

  /// Compiles the source. Fails with E0580 and the compiler's output, whose line numbers are those
  /// of the source. Fails with E0582 if the source has no kernel with this name.
  [[nodiscard]] Result<KernelFunction> try_kernel(const std::string& source,
                                                  const std::string& name) const {
    auto code = state_->device->compile(source, name);
    if (!code) return code.error();
    return KernelFunction(state_, *std::move(code));
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
  friend Result<Compute> try_compute(ComputeBackend backend);
  explicit Compute(std::shared_ptr<detail::ComputeState> state) : state_(std::move(state)) {}

  std::shared_ptr<detail::ComputeState> state_;
};

/// Opens a device for kernels. If CUDA_VISIBLE_DEVICES hides all GPUs, this is a CPU. The variables
/// BERTH_OPENCL_LIBRARY and BERTH_NVRTC_LIBRARY may name the libraries to load. Fails with E0581.
inline Result<Compute> try_compute(ComputeBackend backend = ComputeBackend::automatic) {
  if (backend != ComputeBackend::opencl && !detail::hides_gpus()) {
    auto device = detail::cuda_device();
    if (device) return Compute(std::make_shared<detail::ComputeState>(*std::move(device)));
    if (backend == ComputeBackend::cuda) return device.error();
  }
  if (backend == ComputeBackend::cuda)
    return detail::no_compute(
        detail::text("CUDA_VISIBLE_DEVICES hides all GPUs", "CUDA_VISIBLE_DEVICES 隐藏了所有 GPU"),
        "unset CUDA_VISIBLE_DEVICES");
  auto device = detail::opencl_device();
  if (!device) return device.error();
  return Compute(std::make_shared<detail::ComputeState>(*std::move(device)));
}
#if defined(__cpp_exceptions)
inline Compute compute(ComputeBackend backend = ComputeBackend::automatic) {
  return detail::value_or_throw(try_compute(backend));
}
#endif

}  // namespace berth
