#include "bench/rocblas.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "bench/blas.hpp"
#include "bench/matrix.hpp"
#include "bench/rounding.hpp"
#include "bench/timing.hpp"

namespace berth::bench {
namespace {

constexpr std::uint64_t kMostRows = 16'384;
constexpr int kNotTransposed = 111, kToDevice = 1, kFromDevice = 2;

/// The functions of both libraries. All return 0 if they succeed.
struct Functions {
  int (*hipDeviceGetByPCIBusId)(int* device, const char* pci_address) = nullptr;
  int (*hipSetDevice)(int device) = nullptr;
  int (*hipMemGetInfo)(std::size_t* free, std::size_t* total) = nullptr;
  int (*hipMalloc)(void** memory, std::size_t bytes) = nullptr;
  int (*hipFree)(void* memory) = nullptr;
  int (*hipMemcpy)(void* to, const void* from, std::size_t bytes, int kind) = nullptr;
  int (*hipEventCreate)(void** event) = nullptr;
  int (*hipEventRecord)(void* event, void* stream) = nullptr;
  int (*hipEventSynchronize)(void* event) = nullptr;
  int (*hipEventElapsedTime)(float* milliseconds, void* start, void* end) = nullptr;
  int (*rocblas_create_handle)(void** handle) = nullptr;
  int (*rocblas_gemm_ex)(void* handle, int trans_a, int trans_b, int m, int n, int k,
                         const void* alpha, const void* a, int a_type, int lda, const void* b,
                         int b_type, int ldb, const void* beta, const void* c, int c_type, int ldc,
                         void* d, int d_type, int ldd, int compute_type, int algorithm,
                         int solution, unsigned flags) = nullptr;
  std::string file;
};

/// A precision with its rocblas_datatype values.
struct Precision {
  std::string_view name;
  int data_type, compute_type;
  std::uint64_t element_bytes;
  // machine epsilon of the inputs if they have fewer bits than T; 0: the inputs are of type T
  double epsilon;
};
constexpr auto kPrecisions = std::to_array<Precision>({
    {"fp32", 151, 151, 4, 0},
    {"fp64", 152, 152, 8, 0},
    {"fp16", 150, 151, 2, 0x1p-10},
    {"bf16", 168, 151, 2, 0x1p-7},
});

void* opened(const char* variable, const std::string& name) {
  if (const auto named = env_nonempty(variable))
    return ::dlopen(named->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
  glob_t found{};
  void* handle = nullptr;
  if (::glob(("/opt/rocm*/lib/" + name + "*").c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = found.gl_pathc; i-- > 0 && handle == nullptr;)
      handle = ::dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
  ::globfree(&found);
  return handle;
}

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

std::optional<Functions> open_libraries() {
  void* const hip = opened("BERTH_HIP_LIBRARY", "libamdhip64.so");
  void* const rocblas = hip == nullptr ? nullptr : opened("BERTH_ROCBLAS_LIBRARY", "librocblas.so");
  if (rocblas == nullptr) return std::nullopt;
  Functions out;
  const bool complete =
      find(hip, "hipDeviceGetByPCIBusId", out.hipDeviceGetByPCIBusId) &&
      find(hip, "hipSetDevice", out.hipSetDevice) &&
      find(hip, "hipMemGetInfo", out.hipMemGetInfo) && find(hip, "hipMalloc", out.hipMalloc) &&
      find(hip, "hipFree", out.hipFree) && find(hip, "hipMemcpy", out.hipMemcpy) &&
      find(hip, "hipEventCreate", out.hipEventCreate) &&
      find(hip, "hipEventRecord", out.hipEventRecord) &&
      find(hip, "hipEventSynchronize", out.hipEventSynchronize) &&
      find(hip, "hipEventElapsedTime", out.hipEventElapsedTime) &&
      find(rocblas, "rocblas_create_handle", out.rocblas_create_handle) &&
      find(rocblas, "rocblas_gemm_ex", out.rocblas_gemm_ex);
  if (!complete) return std::nullopt;
  out.file = loaded_file(reinterpret_cast<const void*>(out.rocblas_gemm_ex), "librocblas.so");
  return out;
}

Error failed(const char* call, int problem) {
  return {ErrorCode::kUnavailable, "E1099", text("{0} failed with {1}", call, problem),
          "berth doctor"};
}

/// Products of one precision. The destructor frees only the matrices, because another size may
/// follow in the same process. Everything else is freed when the child process exits.
class Product {
 public:
  Product(const Functions& call, const Precision& precision, void* handle)
      : call_(call), precision_(precision), handle_(handle) {}

  template <typename T>
  Result<Measured> run(std::uint64_t rows, double seconds) {
    auto a = matrix<T>(rows, 1);
    auto b = matrix<T>(rows, 2);
    std::vector<T> c(a.size());
    std::array<void*, 3> memory{};
    int problem = upload(a, memory[0]);
    if (problem == 0) problem = upload(b, memory[1]);
    if (problem == 0) problem = call_.hipMalloc(&memory[2], rows * rows * precision_.element_bytes);
    if (problem != 0) return failed("hipMalloc", problem);
    std::vector<double> naive;
    Measured measured;
    measured.seconds =
        repeat(seconds, [&] { return timed<T>(static_cast<int>(rows), memory, naive, problem); });
    if (problem != 0) return failed("rocblas_gemm_ex", problem);
    problem = download(memory[2], c);
    for (void* one : memory) call_.hipFree(one);
    if (problem != 0) return failed("hipMemcpy", problem);
    if (naive.size() > 1) naive.erase(naive.begin());
    measured.naive_seconds = statistics_of(std::move(naive)).median;
    measured.library = call_.file;
    measured.size = rows;
    measured.work = 2.0 * std::pow(static_cast<double>(rows), 3);
    measured.max_error = sampled_error(rows, a, b, c);
    measured.allowed_error =
        allowed_error<T>(rows) + 8 * precision_.epsilon / std::sqrt(static_cast<double>(rows));
    return measured;
  }

  int prepare() {
    for (void*& event : events_)
      if (const int problem = call_.hipEventCreate(&event)) return problem;
    return 0;
  }

 private:
  [[nodiscard]] bool is_narrow() const { return precision_.element_bytes == 2; }
  [[nodiscard]] bool is_bf16() const { return precision_.name == "bf16"; }

  /// Copies the values to the device, and keeps the values as they are after rounding.
  template <typename T>
  int upload(std::vector<T>& values, void*& memory) {
    std::vector<std::uint16_t> narrow(is_narrow() ? values.size() : 0);
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      narrow[i] = narrowed(static_cast<float>(values[i]), is_bf16());
      values[i] = static_cast<T>(widened(narrow[i], is_bf16()));
    }
    const void* data = is_narrow() ? static_cast<const void*>(narrow.data()) : values.data();
    const std::uint64_t bytes = values.size() * precision_.element_bytes;
    if (const int problem = call_.hipMalloc(&memory, bytes)) return problem;
    return call_.hipMemcpy(memory, data, bytes, kToDevice);
  }

  template <typename T>
  int download(void* memory, std::vector<T>& values) {
    std::vector<std::uint16_t> narrow(is_narrow() ? values.size() : 0);
    void* data = is_narrow() ? static_cast<void*>(narrow.data()) : values.data();
    const int problem =
        call_.hipMemcpy(data, memory, values.size() * precision_.element_bytes, kFromDevice);
    for (std::size_t i = 0; i < narrow.size(); ++i)
      values[i] = static_cast<T>(widened(narrow[i], is_bf16()));
    return problem;
  }

  /// The seconds of one product, measured with the device's events, or -1 if a call failed.
  template <typename T>
  double timed(int n, const std::array<void*, 3>& memory, std::vector<double>& naive,
               int& problem) {
    const T one = 1;
    const T zero = 0;
    const int type = precision_.data_type;
    problem = call_.hipEventRecord(events_[0], nullptr);
    // rocBLAS expects column order. With swapped operands, the result is the product in row order.
    if (problem == 0)
      naive.push_back(seconds_of([&] {
        problem =
            call_.rocblas_gemm_ex(handle_, kNotTransposed, kNotTransposed, n, n, n, &one, memory[1],
                                  type, n, memory[0], type, n, &zero, memory[2], type, n, memory[2],
                                  type, n, precision_.compute_type, 0, 0, 0);
      }));
    if (problem == 0) problem = call_.hipEventRecord(events_[1], nullptr);
    if (problem == 0) problem = call_.hipEventSynchronize(events_[1]);
    float milliseconds = 0;
    if (problem == 0) problem = call_.hipEventElapsedTime(&milliseconds, events_[0], events_[1]);
    return problem == 0 ? static_cast<double>(milliseconds) * 1e-3 : -1;
  }

  const Functions& call_;
  const Precision& precision_;
  void* handle_;
  std::array<void*, 2> events_{};
};

/// The largest number of rows for which the matrices fit in half of the device's free memory, and
/// in a quarter of the host's memory.
std::uint64_t most_rows(const Functions& call, const Target& target, std::uint64_t element_bytes) {
  std::size_t free = 0, total = 0;
  if (call.hipMemGetInfo(&free, &total) != 0) free = 1 << 30;
  const std::uint64_t host =
      target.cpu_memory_bytes == 0 ? 1ULL << 30 : target.cpu_memory_bytes / 4;
  const std::uint64_t bytes = std::min<std::uint64_t>(free / 2, host);
  return rows_that_fit(kMostRows, std::max<std::uint64_t>(element_bytes, 4), bytes);
}

Result<Measured> measured_product(const Functions& call, const Target& target, const Effort& effort,
                                  const Precision& precision) {
  void* handle = nullptr;
  if (const int problem = call.rocblas_create_handle(&handle))
    return failed("rocblas_create_handle", problem);
  Product product(call, precision, handle);
  if (const int problem = product.prepare()) return failed("hipEventCreate", problem);
  const auto run = [&](std::uint64_t rows, double seconds) {
    return precision.element_bytes == 8 ? product.run<double>(rows, seconds)
                                        : product.run<float>(rows, seconds);
  };
  return product_of_size(effort, most_rows(call, target, precision.element_bytes), run);
}

}  // namespace

std::optional<Result<Measured>> rocblas_product(const Target& target, const Effort& effort,
                                                std::string_view precision) {
  const auto* const found =
      std::find_if(kPrecisions.begin(), kPrecisions.end(),
                   [&](const Precision& one) { return one.name == precision; });
  if (target.pci_address.empty() || found == kPrecisions.end()) return std::nullopt;
  const auto call = open_libraries();
  int device = -1;
  if (!call || call->hipDeviceGetByPCIBusId(&device, target.pci_address.c_str()) != 0)
    return std::nullopt;
  if (const int problem = call->hipSetDevice(device)) return failed("hipSetDevice", problem);
  return measured_product(*call, target, effort, *found);
}

}  // namespace berth::bench
