// A GPU through CUDA's driver, which is opened at run time and never linked. Only a child process
// opens it, which ends after the case, so that nothing needs to be released.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/case.hpp"
#include "bench/timing.hpp"
#include "vendor/cuda/abi.hpp"

namespace berth::bench {

struct CudaDriver {
#define BERTH_CUDA_FUNCTION(name, parameters) CUresult(*name) parameters = nullptr;
#include "bench/cuda_functions.inc"
#undef BERTH_CUDA_FUNCTION
};

/// The device at the target's PCI address, with its primary context and a stream.
class CudaSession {
 public:
  /// Fails with kUnavailable: E1071 (no driver, or it does not offer the device).
  Status open(const Target& target);
  /// Retains the context of another device, and then makes this device's context current again.
  Result<CUcontext> context_of(const std::string& pci_address, CUdevice& device);
  void make_current(CUcontext context) const { driver_.cuCtxSetCurrent(context); }

  [[nodiscard]] const CudaDriver& driver() const { return driver_; }
  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] CUcontext context() const { return context_; }
  [[nodiscard]] CUstream stream() const { return stream_; }
  [[nodiscard]] int capability() const {  // The compute capability times ten: 90 for 9.0.
    return capability_;
  }
  [[nodiscard]] int driver_major() const { return driver_major_; }
  /// Memory to use: at most half of what is free.
  [[nodiscard]] std::uint64_t usable_bytes() const;

  Result<CUdeviceptr> memory(std::uint64_t bytes);
  Result<CUdeviceptr> memory_with(const void* data, std::uint64_t bytes);
  Status read(CUdeviceptr from, void* to, std::uint64_t bytes);
  /// Host memory that the device reads directly.
  Result<void*> pinned(std::uint64_t bytes);

  /// Runs `enqueue` between two events and returns the seconds between them. Returns -1 on an
  /// error, which failure() describes. `naive` receives the time until `enqueue` returned.
  template <typename Enqueue>
  double timed(Enqueue&& enqueue, std::vector<double>& naive) {
    problem_ = driver_.cuEventRecord(start_, stream_);
    if (problem_ == CUDA_SUCCESS) naive.push_back(seconds_of([&] { problem_ = enqueue(); }));
    if (problem_ == CUDA_SUCCESS) problem_ = driver_.cuEventRecord(end_, stream_);
    if (problem_ == CUDA_SUCCESS) problem_ = driver_.cuEventSynchronize(end_);
    float milliseconds = 0;
    if (problem_ == CUDA_SUCCESS)
      problem_ = driver_.cuEventElapsedTime(&milliseconds, start_, end_);
    return problem_ == CUDA_SUCCESS ? static_cast<double>(milliseconds) * 1e-3 : -1;
  }
  /// The last call that failed, as an error.
  [[nodiscard]] Error failure(const char* call) const { return failure(call, problem_); }
  [[nodiscard]] Error failure(const char* call, CUresult problem) const;

 private:
  CudaDriver driver_;
  CUdevice device_ = CU_DEVICE_INVALID;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent start_ = nullptr, end_ = nullptr;
  int capability_ = 0, driver_major_ = 0;
  CUresult problem_ = CUDA_SUCCESS;
};

}  // namespace berth::bench
