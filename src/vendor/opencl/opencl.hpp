// Reads OpenCL devices through the installed libOpenCL.so.1, in a forked child with a deadline. If
// a platform's code hangs, crashes or prints, the scan of the machine continues, and the report
// contains an error.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "model/device.hpp"

namespace berth::opencl {

struct Report {
  std::vector<model::Device>
      devices;  // devices of kind kOpenCl, in the library's order; Device::index is not set
  /// E0701: the library cannot be loaded. E0702: no answer in time. E0703: the child crashed.
  /// E0704: no device was found, and there was no writable folder. A missing library is normal, and
  /// no error.
  std::optional<Error> error;
};

/// Reads the devices once. Create the object early and call finish() late, so that the platforms
/// work in parallel. Not thread-safe.
class Reader {
 public:
  /// Starts reading. `library` is a soname or path; "": nothing is read.
  explicit Reader(std::string library);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  /// Waits at most until `deadline` after the start, or longer if the child makes progress
  /// (Patience). The destructor ends the child.
  [[nodiscard]] Report finish(std::chrono::milliseconds deadline);

 private:
  std::string library_, cache_folder_;
  std::chrono::steady_clock::time_point start_;
  pid_t child_ = -1;
  Descriptor pipe_;
};

}  // namespace berth::opencl
