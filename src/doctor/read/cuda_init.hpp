// Calls cuInit(0) of the driver's libcuda.so.1 in a child process, because the library may hang or
// crash.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/descriptor.hpp"
#include "doctor/facts/fact.hpp"

namespace berth::doctor {

class CudaInit {
 public:
  /// Starts the call in a child process and does not wait for it.
  explicit CudaInit(const std::string& library = "libcuda.so.1");
  /// Kills the child if it is still running.
  ~CudaInit();
  CudaInit(const CudaInit&) = delete;
  CudaInit& operator=(const CudaInit&) = delete;

  /// The result of cuInit. Absent: the library does not exist. Unreadable: the child crashed, or
  /// did not answer within `deadline`, which starts with the constructor.
  [[nodiscard]] Fact<int> finish(
      std::chrono::milliseconds deadline = std::chrono::milliseconds(2500));

 private:
  std::chrono::steady_clock::time_point start_;
  pid_t child_ = -1;
  Descriptor pipe_;
};

}  // namespace berth::doctor
