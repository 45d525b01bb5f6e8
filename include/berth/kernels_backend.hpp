// The internal interface between berth/kernels.hpp and CUDA or OpenCL. Programs do not use it
// directly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "error.hpp"

namespace berth::detail {

/// An argument for a kernel: a number, or a handle of device memory.
struct KernelArgument {
  const void* value;
  std::size_t bytes;
};

/// The number of work-items on each axis. `whole`: in all, a multiple of `group`. `group`: in one
/// group.
struct LaunchSize {
  std::array<std::size_t, 3> whole, group;
  std::uint32_t axes;
};

/// A kernel that was launched.
class Launched {
 public:
  Launched() = default;
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  virtual ~Launched() = default;
  virtual Result<Done> wait() = 0;
  virtual Result<double> seconds() = 0;  // the time on the device; call wait() first
};

/// A compiled kernel.
class KernelCode {
 public:
  KernelCode() = default;
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;
  virtual ~KernelCode() = default;
  /// Launches the kernel. `arguments` has one entry per parameter. Only one thread at a time may
  /// call this function.
  virtual Result<std::shared_ptr<Launched>> launch(const KernelArgument* arguments,
                                                   const LaunchSize& size) = 0;

  std::size_t parameters = 0, most_in_group = 1;
};

/// A device with one queue, which runs copies and kernels one after another.
class ComputeDevice {
 public:
  ComputeDevice() = default;
  ComputeDevice(const ComputeDevice&) = delete;
  ComputeDevice& operator=(const ComputeDevice&) = delete;
  virtual ~ComputeDevice() = default;
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual Result<Done> write(void* memory, const void* from, std::size_t bytes) = 0;
  virtual Result<Done> read(void* memory, void* into, std::size_t bytes) = 0;
  virtual Result<std::shared_ptr<KernelCode>> compile(const std::string& source,
                                                      const std::string& name) = 0;

  std::string name;
  const char* backend = "";
};

inline Error failed_call(const char* what, std::int32_t code, bool is_memory) {
  const std::string said = std::string(what) + ": " + std::to_string(code);
  return is_memory
             ? Error(Kind::refused, "E0584",
                     text("the device has no memory left: ", "设备内存不足：") + said, "berth ps")
             : Error(Kind::internal, "E0585",
                     text("a call of the device's driver failed: ", "设备驱动的调用失败：") + said,
                     "berth doctor");
}

inline Error no_compute(std::string why, const char* hint) {
  return {Kind::no_device, "E0581",
          text("no device can run kernels: ", "没有可以运行内核的设备：") + std::move(why), hint};
}

inline Error bad_kernel(std::string why) {
  return {Kind::invalid_request, "E0582", std::move(why)};
}

inline Error does_not_compile(const std::string& log) {
  return {Kind::invalid_request, "E0580",
          text("the kernel does not compile:\n", "内核编译失败：\n") + log};
}

inline Error no_kernel(const std::string& name) {
  return bad_kernel(text("the source has no kernel ", "源代码中没有内核 ") + name);
}

inline Error wrong_size(std::size_t argument) {
  return bad_kernel(text("an argument has another size than the kernel's parameter: ",
                         "参数的大小与内核声明的不符：") +
                    std::to_string(argument));
}

/// Removes trailing null characters and line breaks from a compiler's output.
inline std::string trimmed_log(std::string log) {
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

/// Whether CUDA_VISIBLE_DEVICES hides all GPUs, as `berth run --cpu` does.
inline bool hides_gpus() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && (*visible == '\0' || (visible[0] == '-' && visible[1] == '1'));
}

}  // namespace berth::detail
