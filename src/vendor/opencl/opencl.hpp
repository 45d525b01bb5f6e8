// OpenCL devices, by the installed libOpenCL.so.1, which is called in a forked child with a
// deadline: a platform's code can hang, crash or print, and here that is only a sentence.
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
      devices;  // kind kOpenCl, in the library's order; Device::index is not set
  /// E0701 the library cannot be loaded, E0702 no answer in time, E0703 it crashed, E0704 it has no
  /// device where nothing can be written. No library at
  /// all is normal, and no error.
  std::optional<Error> error;
};

/// Looks once. Start it early and finish it late: the platforms work meanwhile. Not for use from
/// several threads.
class Reader {
 public:
  /// `library`: a soname or path; "" asks nothing.
  explicit Reader(std::string library);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  /// Waits at most until `deadline` after the start; the child ends with the Reader at the latest.
  [[nodiscard]] Report finish(std::chrono::milliseconds deadline);

 private:
  std::string library_, cache_folder_;
  std::chrono::steady_clock::time_point start_;
  pid_t child_ = -1;
  Descriptor pipe_;
};

}  // namespace berth::opencl
