// A BLAS library for the CPU, which is opened at run time and never linked. Only a child process
// opens it.
#pragma once

#include <string>

#include "base/result.hpp"

namespace berth::bench {

/// The Fortran interface. OpenBLAS, MKL, BLIS, Accelerate and the reference BLAS all have it.
/// Integers have 32 bits (LP64).
template <typename T>
using Gemm = void (*)(const char* trans_a, const char* trans_b, const int* m, const int* n,
                      const int* k, const T* alpha, const T* a, const int* lda, const T* b,
                      const int* ldb, const T* beta, T* c, const int* ldc);

struct Blas {
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;  // nullptr for oneDNN, which has no fp64
  std::string file;              // path of the library file, with links resolved
};

/// The file that really contains a library's function. A name such as libblas.so.3 is often a link
/// to OpenBLAS.
[[nodiscard]] std::string loaded_file(const void* function, const std::string& opened);
/// Opens the first library that has the function for this precision: a BLAS, or oneDNN for fp32. If
/// BERTH_BLAS_LIBRARY is set, only that library is tried. Fails with kUnavailable (E1052), or with
/// kUnsupported (E1055) if that library is oneDNN and fp64 was requested.
[[nodiscard]] Result<Blas> open_blas(bool in_fp64);

}  // namespace berth::bench
