// Finds the libraries with which a program computes on the CPU, and those that start threads. Pure:
// takes file names.
#pragma once

#include <string>
#include <vector>

namespace berth::policy {

struct ThreadPools {
  /// Libraries with threads: "GNU OpenMP", "Intel OpenMP", "TBB", "OpenBLAS".
  std::vector<std::string> pools;
  std::vector<std::string> blas;  // BLAS libraries: "OpenBLAS 0.3.21 (pthreads)", "reference BLAS"
};

/// `mapped_files`: paths from /proc/PID/maps in any order; they may be invalid UTF-8. A library
/// that is not a file of its own is not found, such as the MKL inside PyTorch's wheels.
[[nodiscard]] ThreadPools thread_pools(const std::vector<std::string>& mapped_files);

/// The name of the BLAS without optimised code. It is many times slower than the other libraries.
inline constexpr const char* kReferenceBlas = "reference BLAS";

}  // namespace berth::policy
