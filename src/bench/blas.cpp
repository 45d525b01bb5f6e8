#include "bench/blas.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::bench {
namespace {

/// The fastest libraries come first. Only LP64 builds are listed; in OpenBLAS's other names, 64
/// means ILP64.
constexpr std::array kFiles{
    "libopenblas.so.0", "libopenblas.so",
    "libmkl_rt.so.2",   "libmkl_rt.so.1",
    "libmkl_rt.so",     "libblis.so.4",
    "libblas.so.3",     "/System/Library/Frameworks/Accelerate.framework/Accelerate",
};

}  // namespace

std::string loaded_file(const void* function, const std::string& opened) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || info.dli_fname == nullptr) return opened;
  std::error_code problem;
  const auto real = std::filesystem::canonical(info.dli_fname, problem);
  return problem ? std::string(info.dli_fname) : real.string();
}

Result<Blas> open_blas() {
  std::vector<std::string> files(kFiles.begin(), kFiles.end());
  const auto named = env_nonempty("BERTH_BLAS_LIBRARY");
  if (named) files = {*named};
  for (const std::string& file : files) {
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    Blas blas;
    blas.sgemm = reinterpret_cast<Gemm<float>>(::dlsym(handle, "sgemm_"));
    blas.dgemm = reinterpret_cast<Gemm<double>>(::dlsym(handle, "dgemm_"));
    if (blas.sgemm == nullptr || blas.dgemm == nullptr) continue;
    blas.file = loaded_file(reinterpret_cast<const void*>(blas.sgemm), file);
    return blas;
  }
  if (named)
    return Error{
        ErrorCode::kUnavailable, "E1052",
        text("BERTH_BLAS_LIBRARY: {} cannot be loaded as a BLAS library", printable(*named)),
        "unset BERTH_BLAS_LIBRARY"};
  return Error{ErrorCode::kUnavailable, "E1052",
               text("no BLAS is installed: no OpenBLAS, MKL or BLIS was found"),
               "sudo apt install libopenblas0"};
}

}  // namespace berth::bench
