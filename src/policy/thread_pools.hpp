// Which libraries a program computes with on the CPU, and which of them start threads. Pure: takes
// file names.
#pragma once

#include <string>
#include <vector>

namespace berth::policy {

struct ThreadPools {
  std::vector<std::string> pools;  // "GNU OpenMP", "Intel OpenMP", "TBB", "OpenBLAS"
  std::vector<std::string> blas;   // "OpenBLAS 0.3.21 (pthreads)", "reference BLAS"
};

/// `mapped_files`: paths from /proc/PID/maps in any order; they may be invalid UTF-8. A library
/// without a shared object of its own, as the MKL inside PyTorch's wheels, is not seen.
[[nodiscard]] ThreadPools thread_pools(const std::vector<std::string>& mapped_files);

/// The BLAS without optimised code; it is many times slower than the others.
inline constexpr const char* kReferenceBlas = "reference BLAS";

}  // namespace berth::policy
