// Products on NVIDIA's GPUs with cuBLAS, which is opened at run time from the toolkit, or from the
// wheels of a Python.
#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "bench/blas.hpp"
#include "bench/cuda.hpp"
#include "bench/matrix.hpp"
#include "bench/rounding.hpp"

namespace berth::bench {
namespace {

constexpr std::uint64_t kMostRows = 16'384;
constexpr int kOldest = 11;  // older versions have no cublasComputeType_t
constexpr const char* kWheel = "pip install nvidia-cublas-cu12";

using Handle = void*;

struct CuBlas {
  int (*create)(Handle*) = nullptr;
  int (*set_stream)(Handle, CUstream) = nullptr;
  int (*gemm)(Handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha,
              const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
              const void* beta, void* c, int c_type, int ldc, int compute_type,
              int algorithm) = nullptr;
  std::string file;
};

/// A precision with its cudaDataType_t and cublasComputeType_t values.
struct Precision {
  const char* name;
  int data_type, compute_type;
  std::uint64_t element_bytes;
  int least_capability;  // lowest compute capability, times ten: 80 for 8.0
  // machine epsilon of the inputs if they have fewer bits than T; 0: the inputs are of type T
  double epsilon;
};
constexpr auto kPrecisions = std::to_array<Precision>({
    {"fp32", 0, 68, 4, 0, 0},
    {"tf32", 0, 77, 4, 80, 0x1p-10},
    {"fp16", 2, 68, 2, 53, 0x1p-10},
    {"bf16", 14, 68, 2, 80, 0x1p-7},
    {"fp64", 1, 70, 8, 0, 0},
});

/// Adds the paths that match the pattern in reverse order, so that the newest version comes first.
void add_matches(std::vector<std::string>& files, const std::string& pattern) {
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = found.gl_pathc; i-- > 0;) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
}

/// File names that may be cuBLAS. The newest version that the driver supports comes first.
std::vector<std::string> cublas_files(const Target& target, int driver_major) {
  if (const auto named = env_nonempty("BERTH_CUBLAS_LIBRARY")) return {*named};
  std::vector<std::string> files;
  for (int major = driver_major; major >= kOldest; --major) {
    const std::string name = fmt::format("libcublas.so.{}", major);
    files.push_back(name);
    for (const char* folder : {"/usr/local/cuda*/lib64/", "/opt/cuda/lib64/"})
      add_matches(files, folder + name);
    for (const std::string& prefix : target.python_prefixes) {
      for (const std::string& wheel : {std::string("cublas"), fmt::format("cu{}", major)})
        for (const char* lib : {"lib", "lib64", "local/lib"})
          for (const char* packages : {"site-packages", "dist-packages"})
            add_matches(files, fmt::format("{}/{}/python3*/{}/nvidia/{}/lib/{}", prefix, lib,
                                           packages, wheel, name));
      add_matches(files, fmt::format("{}/lib/{}", prefix, name));  // Conda
    }
  }
  return files;
}

Result<CuBlas> open_cublas(const Target& target, int driver_major) {
  for (const std::string& file : cublas_files(target, driver_major)) {
    // First load cuBLASLt from the folder of cuBLAS, because the library path may contain another
    // version of cuBLASLt.
    if (const std::size_t slash = file.rfind('/'), at = file.rfind("libcublas.so");
        slash != std::string::npos && at == slash + 1)
      ::dlopen((file.substr(0, at) + "libcublasLt" + file.substr(at + 9)).c_str(),
               RTLD_NOW | RTLD_GLOBAL);
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    CuBlas blas;
    blas.create = reinterpret_cast<decltype(blas.create)>(::dlsym(handle, "cublasCreate_v2"));
    blas.set_stream =
        reinterpret_cast<decltype(blas.set_stream)>(::dlsym(handle, "cublasSetStream_v2"));
    blas.gemm = reinterpret_cast<decltype(blas.gemm)>(::dlsym(handle, "cublasGemmEx"));
    if (blas.create == nullptr || blas.set_stream == nullptr || blas.gemm == nullptr) continue;
    blas.file = loaded_file(reinterpret_cast<const void*>(blas.gemm), file);
    return blas;
  }
  if (const auto named = env_nonempty("BERTH_CUBLAS_LIBRARY"))
    return Error{ErrorCode::kUnavailable, "E1072",
                 text("BERTH_CUBLAS_LIBRARY: {} cannot be loaded as cuBLAS", printable(*named)),
                 "unset BERTH_CUBLAS_LIBRARY"};
  return Error{ErrorCode::kUnavailable, "E1072",
               text("no cuBLAS was found: neither in a toolkit nor in this Python's packages"),
               kWheel};
}

/// A matrix: a copy in the device's memory, and the values after rounding to the device's type.
template <typename T>
struct Operand {
  std::vector<T> values;
  CUdeviceptr device = 0;
};

class Product {
 public:
  Product(CudaSession& session, const Precision& precision, const CuBlas& blas, Handle handle)
      : session_(session), precision_(precision), blas_(blas), handle_(handle) {}

  template <typename T>
  Result<Measured> run(std::uint64_t rows, double seconds) {
    auto a = operand<T>(rows, 1);
    if (!a) return std::move(a).error();
    auto b = operand<T>(rows, 2);
    if (!b) return std::move(b).error();
    const auto c = session_.memory(rows * rows * precision_.element_bytes);
    if (!c) return c.error();
    int status = 0;
    std::vector<double> naive;
    Measured measured;
    measured.seconds = repeat(seconds, [&] {
      const double one = session_.timed(
          [&] {
            status = multiply<T>(rows, a->device, b->device, *c);
            return CUDA_SUCCESS;
          },
          naive);
      return status == 0 ? one : -1;
    });
    if (status != 0)
      return Error{ErrorCode::kUnavailable, "E1072",
                   text("{0} failed with {1}", "cublasGemmEx", status), "berth doctor"};
    if (measured.seconds.empty()) return session_.failure("cublasGemmEx");
    const auto product = values_of<T>(*c, rows);
    if (!product) return product.error();
    if (naive.size() > 1) naive.erase(naive.begin());
    measured.naive_seconds = statistics_of(std::move(naive)).median;
    measured.size = rows;
    measured.work = 2.0 * std::pow(static_cast<double>(rows), 3);
    measured.max_error = sampled_error(rows, a->values, b->values, *product);
    measured.allowed_error =
        allowed_error<T>(rows) + 8 * precision_.epsilon / std::sqrt(static_cast<double>(rows));
    for (const CUdeviceptr one : {a->device, b->device, *c}) session_.driver().cuMemFree_v2(one);
    return measured;
  }

 private:
  [[nodiscard]] bool is_narrow() const { return precision_.element_bytes == 2; }
  [[nodiscard]] bool is_bf16() const { return precision_.data_type == 14; }

  template <typename T>
  int multiply(std::uint64_t rows, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) {
    const int n = static_cast<int>(rows);
    const int type = precision_.data_type;
    const T one = 1;
    const T zero = 0;
    constexpr int kDefault = -1;
    const auto at = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
    // Like BLAS, cuBLAS expects column order. With swapped operands it computes (B·A)ᵀ, which is
    // the product in row order.
    return blas_.gemm(handle_, 0, 0, n, n, n, &one, at(b), type, n, at(a), type, n, &zero, at(c),
                      type, n, precision_.compute_type, kDefault);
  }

  template <typename T>
  Result<Operand<T>> operand(std::uint64_t rows, std::uint64_t seed) {
    Operand<T> out{matrix<T>(rows, seed)};
    std::vector<std::uint16_t> narrow(is_narrow() ? out.values.size() : 0);
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      narrow[i] = narrowed(static_cast<float>(out.values[i]), is_bf16());
      out.values[i] = static_cast<T>(widened(narrow[i], is_bf16()));
    }
    const void* data = is_narrow() ? static_cast<const void*>(narrow.data()) : out.values.data();
    const auto device = session_.memory_with(data, out.values.size() * precision_.element_bytes);
    if (!device) return device.error();
    out.device = *device;
    return out;
  }

  template <typename T>
  Result<std::vector<T>> values_of(CUdeviceptr from, std::uint64_t rows) {
    std::vector<T> values(rows * rows);
    std::vector<std::uint16_t> narrow(is_narrow() ? values.size() : 0);
    void* into = is_narrow() ? static_cast<void*>(narrow.data()) : values.data();
    if (auto copied = session_.read(from, into, values.size() * precision_.element_bytes); !copied)
      return std::move(copied).error();
    for (std::size_t i = 0; i < narrow.size(); ++i)
      values[i] = static_cast<T>(widened(narrow[i], is_bf16()));
    return values;
  }

  CudaSession& session_;
  const Precision& precision_;
  const CuBlas& blas_;
  Handle handle_;
};

template <int index>
Result<Measured> gemm(const Target& target, const Effort& effort) {
  const Precision& precision = kPrecisions.at(index);
  CudaSession session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  if (session.capability() < precision.least_capability)
    return Error{ErrorCode::kUnsupported, kUnsupportedId,
                 text("the device cannot compute in {}", precision.name),
                 "berth bench --precision fp32"};
  auto blas = open_cublas(target, session.driver_major());
  if (!blas) return std::move(blas).error();
  Handle handle = nullptr;
  int status = blas->create(&handle);
  if (status == 0) status = blas->set_stream(handle, session.stream());
  if (status != 0)
    return Error{ErrorCode::kUnavailable, "E1072",
                 text("{0} failed with {1}", "cublasCreate", status), "berth doctor"};
  Product product(session, precision, *blas, handle);
  const auto run = [&](std::uint64_t rows, double seconds) {
    return precision.element_bytes == 8 ? product.run<double>(rows, seconds)
                                        : product.run<float>(rows, seconds);
  };
  // The matrices must also fit in the memory of the host, which keeps copies of them.
  const std::uint64_t host =
      target.cpu_memory_bytes == 0 ? 1ULL << 30 : target.cpu_memory_bytes / 4;
  const std::uint64_t bytes = std::min(session.usable_bytes(), host);
  const std::uint64_t most =
      rows_that_fit(kMostRows, std::max<std::uint64_t>(precision.element_bytes, 4), bytes);
  auto measured = product_of_size(effort, most, run);
  if (measured) measured->library = blas->file;
  return measured;
}

constexpr auto kCases = std::to_array<Case>({
    {"gemm.fp32", Kind::kGemm, Backend::kCuda, "fp32", gemm<0>},
    {"gemm.tf32", Kind::kGemm, Backend::kCuda, "tf32", gemm<1>},
    {"gemm.fp16", Kind::kGemm, Backend::kCuda, "fp16", gemm<2>},
    {"gemm.bf16", Kind::kGemm, Backend::kCuda, "bf16", gemm<3>},
    {"gemm.fp64", Kind::kGemm, Backend::kCuda, "fp64", gemm<4>},
});

}  // namespace

std::span<const Case> cublas_cases() {
  return kCases;
}

}  // namespace berth::bench
