#include "bench/blas.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "bench/case.hpp"

namespace berth::bench {
namespace {

/// The fastest libraries come first. All of them use 32-bit integers (LP64). OpenBLAS files with
/// "64" in their names use 64-bit integers (ILP64) and are left out.
constexpr std::array kFiles{
    "libopenblas.so.0", "libopenblas.so",
    "libmkl_rt.so.2",   "libmkl_rt.so.1",
    "libmkl_rt.so",     "libblis.so.4",
    "libdnnl.so.3",     "libdnnl.so.2",
    "libblas.so.3",     "/System/Library/Frameworks/Accelerate.framework/Accelerate",
};

/// The type of oneDNN's function for matrix products in row order. It returns 0 on success.
using DnnlSgemm = int (*)(char trans_a, char trans_b, std::int64_t m, std::int64_t n,
                          std::int64_t k, float alpha, const float* a, std::int64_t lda,
                          const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
DnnlSgemm dnnl_sgemm = nullptr;

/// Gives dnnl_sgemm() the interface of Fortran's SGEMM, for matrices that are not transposed.
/// dnnl_sgemm() expects row order, so the operands are swapped to get a product in column order.
void sgemm_of_dnnl(const char* trans_a, const char* trans_b, const int* m, const int* n,
                   const int* k, const float* alpha, const float* a, const int* lda, const float* b,
                   const int* ldb, const float* beta, float* c, const int* ldc) {
  dnnl_sgemm(*trans_b, *trans_a, *n, *m, *k, *alpha, b, *ldb, a, *lda, *beta, c, *ldc);
}

Blas functions_of(void* handle) {
  Blas blas;
  blas.sgemm = reinterpret_cast<Gemm<float>>(::dlsym(handle, "sgemm_"));
  blas.dgemm = reinterpret_cast<Gemm<double>>(::dlsym(handle, "dgemm_"));
  if (blas.sgemm == nullptr && blas.dgemm == nullptr) {
    dnnl_sgemm = reinterpret_cast<DnnlSgemm>(::dlsym(handle, "dnnl_sgemm"));
    if (dnnl_sgemm != nullptr) blas.sgemm = sgemm_of_dnnl;
  }
  return blas;
}

}  // namespace

std::string loaded_file(const void* function, const std::string& opened) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || info.dli_fname == nullptr) return opened;
  std::error_code problem;
  const auto real = std::filesystem::canonical(info.dli_fname, problem);
  return problem ? std::string(info.dli_fname) : real.string();
}

Result<Blas> open_blas(bool in_fp64) {
  std::vector<std::string> files(kFiles.begin(), kFiles.end());
  const auto named = env_nonempty("BERTH_BLAS_LIBRARY");
  if (named) files = {*named};
  for (const std::string& file : files) {
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    Blas blas = functions_of(handle);
    if (blas.sgemm == nullptr) continue;
    if (in_fp64 && blas.dgemm == nullptr) {
      if (!named) continue;
      return Error{ErrorCode::kUnsupported, kUnsupportedId,
                   text("{} has no matrix product in {}", printable(*named), "fp64"),
                   "unset BERTH_BLAS_LIBRARY"};
    }
    const bool is_dnnl = blas.sgemm == sgemm_of_dnnl;
    blas.file = loaded_file(is_dnnl ? reinterpret_cast<const void*>(dnnl_sgemm)
                                    : reinterpret_cast<const void*>(blas.sgemm),
                            file);
    return blas;
  }
  if (named)
    return Error{
        ErrorCode::kUnavailable, "E1052",
        text("BERTH_BLAS_LIBRARY: {} cannot be loaded as a BLAS library", printable(*named)),
        "unset BERTH_BLAS_LIBRARY"};
  return Error{ErrorCode::kUnavailable, "E1052",
               text("no BLAS is installed: no OpenBLAS, MKL, BLIS or oneDNN was found"),
               "sudo apt install libopenblas0"};
}

}  // namespace berth::bench
