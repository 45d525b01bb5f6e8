// cuInit(0) of the driver's libcuda.so.1, in a child: the library may hang or crash.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/descriptor.hpp"
#include "doctor/fact.hpp"

namespace berth::doctor {

class CudaInit {
 public:
  /// Starts to ask; other work can be done meanwhile.
  explicit CudaInit(const std::string& library = "libcuda.so.1");
  /// Ends the child, if it still runs.
  ~CudaInit();
  CudaInit(const CudaInit&) = delete;
  CudaInit& operator=(const CudaInit&) = delete;

  /// What cuInit returned; absent: there is no such library. Unreadable: it crashed, or has not
  /// answered within `deadline` from the start.
  [[nodiscard]] Fact<int> finish(
      std::chrono::milliseconds deadline = std::chrono::milliseconds(2500));

 private:
  std::chrono::steady_clock::time_point start_;
  pid_t child_ = -1;
  Descriptor pipe_;
};

}  // namespace berth::doctor
