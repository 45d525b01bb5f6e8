// Cases for OpenCL devices: products, memory and launch latency with Berth's own kernels, and
// copies between host and device. If rocBLAS (for AMD's GPUs) or CLBlast is installed, it computes
// the products.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/file.hpp"
#include "base/text.hpp"
#include "bench/case.hpp"
#include "bench/matrix.hpp"
#include "bench/rocblas.hpp"
#include "bench/timing.hpp"
#include "vendor/opencl/abi.hpp"
#include "vendor/opencl/facts.hpp"

namespace berth::bench {
namespace {

using namespace opencl;
constexpr std::uint64_t kMostRows = 8192, kTile = 16;  // kTile must be equal to TILE in kSource
constexpr std::uint64_t kCopyBytes = 128 << 20;

constexpr const char* kSource = R"(
#ifdef WITH_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define TILE 16
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void gemm(const int n, __global const T* a, __global const T* b, __global T* c) {
  __local T left[TILE][TILE], right[TILE][TILE];
  const int x = get_local_id(0), y = get_local_id(1);
  const int column = get_global_id(0), row = get_global_id(1);
  T sum = 0;
  for (int k = 0; k < n; k += TILE) {
    left[y][x] = a[row * n + k + x];
    right[y][x] = b[(k + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TILE; ++i) sum += left[y][i] * right[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}
__kernel void triad(__global float4* a, __global const float4* b, __global const float4* c) {
  const size_t i = get_global_id(0);
  a[i] = b[i] + 3.0f * c[i];
}
__kernel void nothing(void) {}
)";

struct Functions {
#define BERTH_OPENCL_FUNCTION(name, result, parameters) result(*name) parameters = nullptr;
#include "vendor/opencl/compute.inc"
#include "vendor/opencl/functions.inc"
#undef BERTH_OPENCL_FUNCTION
};

Error call_failed(const char* call, std::int32_t problem) {
  if (problem == kMemObjectAllocationFailure || problem == kOutOfResources ||
      problem == kOutOfHostMemory)
    return {ErrorCode::kUnsupported, "E1054",
            text("the device does not have enough free memory ({0}: {1})", call, problem),
            "berth ps"};
  return {ErrorCode::kUnavailable, "E1053", text("{0} failed with {1}", call, problem),
          "berth ls --opencl"};
}

/// Whether this is the device that `berth ls` shows as the target.
bool is_target(const DeviceFacts& device, const Target& target) {
  if (!target.pci_address.empty()) return device.pci_address == target.pci_address;
  return printable(trim(device.name)) == target.opencl_name;
}

/// An open device with a queue. The process ends after the case, so that nothing needs to be
/// released.
class Session {
 public:
  Status open(const Target& target) {
    const Facts facts = ask_library(target.opencl_library);
    if (!facts.loaded)
      return Error{
          ErrorCode::kUnavailable, "E1053",
          text("{0} cannot be loaded: {1}", target.opencl_library, printable(facts.problem)),
          "sudo apt install ocl-icd-libopencl1"};
    const auto found = std::find_if(facts.devices.begin(), facts.devices.end(),
                                    [&](const auto& one) { return is_target(one, target); });
    if (found == facts.devices.end())
      return Error{ErrorCode::kUnavailable, "E1053",
                   text("no OpenCL platform offers this device; install the OpenCL platform of the "
                        "device's vendor"),
                   "berth ls --opencl"};
    device_ = found->handle;
    void* handle = ::dlopen(target.opencl_library.c_str(), RTLD_NOW | RTLD_LOCAL);
#define BERTH_OPENCL_FUNCTION(name, result, parameters)                             \
  functions_.name = reinterpret_cast<result(*) parameters>(::dlsym(handle, #name)); \
  if (functions_.name == nullptr) return call_failed("dlsym " #name, 0);
#include "vendor/opencl/compute.inc"
#include "vendor/opencl/functions.inc"
#undef BERTH_OPENCL_FUNCTION
    context_ = functions_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &problem_);
    if (problem_ != kSuccess) return call_failed("clCreateContext", problem_);
    queue_ = functions_.clCreateCommandQueue(context_, device_, kQueueProfilingEnable, &problem_);
    if (problem_ != kSuccess) return call_failed("clCreateCommandQueue", problem_);
    return Done{};
  }

  [[nodiscard]] const Functions& functions() const {
    return functions_;
  }
  [[nodiscard]] Queue queue() const {
    return queue_;
  }

  [[nodiscard]] bool has_fp64() const {
    std::array<char, 16384> words{};
    std::size_t size = 0;
    return functions_.clGetDeviceInfo(device_, kDeviceExtensions, words.size() - 1, words.data(),
                                      &size) == kSuccess &&
           std::strstr(words.data(), "cl_khr_fp64") != nullptr;
  }
  [[nodiscard]] std::uint64_t largest_buffer() const {
    std::uint64_t bytes = 0;
    std::size_t size = 0;
    if (functions_.clGetDeviceInfo(device_, kDeviceMaxMemAllocSize, sizeof(bytes), &bytes, &size) !=
        kSuccess)
      return 0;
    return bytes;
  }

  Result<Kernel> kernel(const char* name, const char* options) {
    const char* source = kSource;
    const Program program =
        functions_.clCreateProgramWithSource(context_, 1, &source, nullptr, &problem_);
    if (problem_ != kSuccess) return call_failed("clCreateProgramWithSource", problem_);
    problem_ = functions_.clBuildProgram(program, 1, &device_, options, nullptr, nullptr);
    if (problem_ != kSuccess) return call_failed("clBuildProgram", problem_);
    const Kernel made = functions_.clCreateKernel(program, name, &problem_);
    if (problem_ != kSuccess) return call_failed("clCreateKernel", problem_);
    return made;
  }

  Result<Buffer> buffer(std::uint64_t bytes, std::uint64_t flags = kMemReadWrite) {
    const Buffer made = functions_.clCreateBuffer(context_, flags, bytes, nullptr, &problem_);
    if (problem_ != kSuccess) return call_failed("clCreateBuffer", problem_);
    return made;
  }
  /// A new buffer with these contents.
  Result<Buffer> buffer_with(const void* data, std::uint64_t bytes) {
    auto made = buffer(bytes);
    if (!made) return made;
    problem_ =
        functions_.clEnqueueWriteBuffer(queue_, *made, 1, 0, bytes, data, 0, nullptr, nullptr);
    if (problem_ != kSuccess) return call_failed("clEnqueueWriteBuffer", problem_);
    return made;
  }
  Status read(Buffer from, void* to, std::uint64_t bytes) {
    problem_ = functions_.clEnqueueReadBuffer(queue_, from, 1, 0, bytes, to, 0, nullptr, nullptr);
    if (problem_ != kSuccess) return call_failed("clEnqueueReadBuffer", problem_);
    return Done{};
  }
  /// Memory of the host that the device can read directly, without an intermediate copy.
  Result<void*> pinned(std::uint64_t bytes) {
    const auto made = buffer(bytes, kMemReadWrite | kMemAllocHostPtr);
    if (!made) return made.error();
    void* mapped = functions_.clEnqueueMapBuffer(queue_, *made, 1, kMapReadWrite, 0, bytes, 0,
                                                 nullptr, nullptr, &problem_);
    if (problem_ != kSuccess) return call_failed("clEnqueueMapBuffer", problem_);
    return mapped;
  }

  /// Runs `enqueue` and returns the seconds on the device. Returns -1 on an error, which failure()
  /// describes. `naive` receives the time until `enqueue` returned.
  template <typename Enqueue>
  double timed(Enqueue&& enqueue, std::vector<double>& naive) {
    Event event = nullptr;
    naive.push_back(seconds_of([&] { problem_ = enqueue(&event); }));
    if (problem_ == kSuccess) problem_ = functions_.clFinish(queue_);
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::size_t size = 0;
    for (const auto& [key, value] : {std::pair(kProfilingStart, &start), {kProfilingEnd, &end}})
      if (problem_ == kSuccess)
        problem_ = functions_.clGetEventProfilingInfo(event, key, sizeof(*value), value, &size);
    if (event != nullptr) functions_.clReleaseEvent(event);
    return problem_ != kSuccess || end < start ? -1 : static_cast<double>(end - start) * 1e-9;
  }
  [[nodiscard]] Error failure() const {
    return call_failed("clEnqueueNDRangeKernel", problem_);
  }

 private:
  Functions functions_;
  DeviceId device_ = nullptr;
  Context context_ = nullptr;
  Queue queue_ = nullptr;
  std::int32_t problem_ = kSuccess;
};

/// The median, without the first value, which is the warm-up.
double naive_median(std::vector<double> naive) {
  if (naive.size() > 1) naive.erase(naive.begin());
  return statistics_of(std::move(naive)).median;
}

/// The C interface of CLBlast (clblast_c.h, Apache-2.0): 101 means row order, 111 means not
/// transposed.
template <typename T>
using ClBlastGemm = int (*)(int layout, int trans_a, int trans_b, std::size_t m, std::size_t n,
                            std::size_t k, T alpha, Buffer a, std::size_t a_offset, std::size_t lda,
                            Buffer b, std::size_t b_offset, std::size_t ldb, T beta, Buffer c,
                            std::size_t c_offset, std::size_t ldc, Queue* queue, Event* event);

/// CLBlast's function; nullptr if CLBlast is not installed.
template <typename T>
ClBlastGemm<T> clblast() {
  void* handle = ::dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  return reinterpret_cast<ClBlastGemm<T>>(
      ::dlsym(handle, sizeof(T) == 8 ? "CLBlastDgemm" : "CLBlastSgemm"));
}

/// Computes one product of matrices with `rows` rows in buffers of the device.
template <typename T>
struct Product {
  Session& session;
  Kernel kernel = nullptr;
  ClBlastGemm<T> library = nullptr;

  std::int32_t enqueue(std::uint64_t rows, Buffer a, Buffer b, Buffer c, Event* event) {
    if (library != nullptr) {
      Queue queue = session.queue();
      return library(101, 111, 111, rows, rows, rows, 1, a, 0, rows, b, 0, rows, 0, c, 0, rows,
                     &queue, event);
    }
    const int n = static_cast<int>(rows);
    const Functions& call = session.functions();
    std::int32_t problem = call.clSetKernelArg(kernel, 0, sizeof(n), &n);
    const std::array buffers{a, b, c};
    for (std::uint32_t i = 0; i < 3 && problem == kSuccess; ++i)
      problem = call.clSetKernelArg(kernel, i + 1, sizeof(Buffer), &buffers.at(i));
    const std::array<std::size_t, 2> global{rows, rows};
    const std::array<std::size_t, 2> local{kTile, kTile};
    return problem != kSuccess
               ? problem
               : call.clEnqueueNDRangeKernel(session.queue(), kernel, 2, nullptr, global.data(),
                                             local.data(), 0, nullptr, event);
  }
};

/// Multiplies matrices with `rows` rows for `seconds`, and checks the product.
template <typename T>
Result<Measured> product_of(Product<T>& product, std::uint64_t rows, double seconds) {
  const auto a = matrix<T>(rows, 1);
  const auto b = matrix<T>(rows, 2);
  std::vector<T> c(a.size());
  const std::uint64_t bytes = a.size() * sizeof(T);
  Session& session = product.session;
  const auto left = session.buffer_with(a.data(), bytes);
  if (!left) return left.error();
  const auto right = session.buffer_with(b.data(), bytes);
  if (!right) return right.error();
  const auto out = session.buffer(bytes);
  if (!out) return out.error();
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(seconds, [&] {
    return session.timed(
        [&](Event* event) { return product.enqueue(rows, *left, *right, *out, event); }, naive);
  });
  if (measured.seconds.empty()) return session.failure();
  if (auto copied = session.read(*out, c.data(), bytes); !copied) return std::move(copied).error();
  measured.size = rows;
  measured.work = 2.0 * std::pow(static_cast<double>(rows), 3);
  measured.naive_seconds = naive_median(std::move(naive));
  measured.max_error = sampled_error(rows, a, b, c);
  measured.allowed_error = allowed_error<T>(rows);
  return measured;
}

template <typename T>
Result<Measured> gemm(const Target& target, const Effort& effort) {
  const bool fp64 = sizeof(T) == 8;
  if (auto done = rocblas_product(target, effort, fp64 ? "fp64" : "fp32")) return *std::move(done);
  Session session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  if (fp64 && !session.has_fp64())
    return Error{ErrorCode::kUnsupported, kUnsupportedId,
                 text("the device cannot compute in {}", "fp64"), "berth bench --precision fp32"};
  Product<T> product{session};
  product.library = clblast<T>();
  if (product.library == nullptr) {
    const auto kernel = session.kernel("gemm", fp64 ? "-DT=double -DWITH_FP64" : "-DT=float");
    if (!kernel) return kernel.error();
    product.kernel = *kernel;
  }
  std::uint64_t most = kMostRows;
  while (most > 256 && sizeof(T) * most * most > session.largest_buffer()) most /= 2;
  if (product.library == nullptr && effort.size % kTile != 0)
    return Error{ErrorCode::kUnsupported, "E1088",
                 text("without CLBlast, the size must be a multiple of {}, but {} was requested",
                      kTile, effort.size),
                 "berth bench gemm --size 1024"};
  auto measured = product_of_size(effort, most, [&](std::uint64_t rows, double seconds) {
    return product_of(product, rows, seconds);
  });
  if (measured) measured->library = product.library != nullptr ? "CLBlast" : kOwnCode;
  return measured;
}

/// Products of 16-bit matrices. Only rocBLAS can compute them.
template <bool bf16>
Result<Measured> gemm_16_bit(const Target& target, const Effort& effort) {
  const char* const precision = bf16 ? "bf16" : "fp16";
  if (auto done = rocblas_product(target, effort, precision)) return *std::move(done);
  return Error{ErrorCode::kUnsupported, kUnsupportedId,
               text("{} through OpenCL needs rocBLAS, and an AMD GPU", precision),
               "berth bench --precision fp32"};
}

Result<Measured> triad(const Target& target, const Effort& effort) {
  Session session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  const auto kernel = session.kernel("triad", "-DT=float");
  if (!kernel) return kernel.error();
  std::uint64_t bytes =
      std::min<std::uint64_t>(effort.size == 0 ? 256 << 20 : effort.size, session.largest_buffer());
  bytes -= bytes % 65536;
  if (bytes == 0) return call_failed("clGetDeviceInfo", kOutOfResources);
  const std::vector<float> b(bytes / sizeof(float), 1.5F);
  const std::vector<float> c(bytes / sizeof(float), 0.5F);
  std::array<Buffer, 3> arrays{};
  const auto out = session.buffer(bytes);
  if (!out) return out.error();
  arrays[0] = *out;
  for (const auto& [place, data] : {std::pair(1, b.data()), {2, c.data()}}) {
    const auto made = session.buffer_with(data, bytes);
    if (!made) return made.error();
    arrays.at(static_cast<std::size_t>(place)) = *made;
  }
  const Functions& call = session.functions();
  for (std::uint32_t i = 0; i < 3; ++i)
    if (const auto problem = call.clSetKernelArg(*kernel, i, sizeof(Buffer), &arrays.at(i));
        problem != kSuccess)
      return call_failed("clSetKernelArg", problem);
  const std::size_t items = bytes / 16;  // float4
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return session.timed(
        [&](Event* event) {
          return call.clEnqueueNDRangeKernel(session.queue(), *kernel, 1, nullptr, &items, nullptr,
                                             0, nullptr, event);
        },
        naive);
  });
  if (measured.seconds.empty()) return session.failure();
  std::vector<float> a(bytes / sizeof(float));
  if (auto copied = session.read(arrays[0], a.data(), bytes); !copied)
    return std::move(copied).error();
  const bool right = std::all_of(a.begin(), a.end(), [](float one) { return one == 3.0F; });
  measured.library = kOwnCode;
  measured.size = bytes;
  measured.work = 3.0 * static_cast<double>(bytes);
  measured.naive_seconds = naive_median(std::move(naive));
  measured.max_error = right ? 0 : 1;
  measured.allowed_error = 0;
  return measured;
}

/// Copies between host and device. Times are measured on the host, because copying pageable memory
/// includes work that the device does not see.
template <bool to_device, bool pinned>
Result<Measured> copy(const Target& target, const Effort& effort) {
  Session session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  const std::uint64_t bytes = std::min<std::uint64_t>(effort.size == 0 ? kCopyBytes : effort.size,
                                                      session.largest_buffer());
  if (bytes < 4096) return call_failed("clGetDeviceInfo", kOutOfResources);
  std::vector<unsigned char> pageable(pinned ? 0 : bytes);
  unsigned char* host = pageable.data();
  if (pinned) {
    const auto mapped = session.pinned(bytes);
    if (!mapped) return mapped.error();
    host = static_cast<unsigned char*>(*mapped);
  }
  for (std::uint64_t i = 0; i < bytes; ++i) host[i] = static_cast<unsigned char>(i * 31 >> 3);
  const auto device = session.buffer_with(host, bytes);
  if (!device) return device.error();
  const Functions& call = session.functions();
  std::int32_t problem = kSuccess;
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return seconds_of([&] {
      naive.push_back(seconds_of([&] {
        problem = to_device ? call.clEnqueueWriteBuffer(session.queue(), *device, 0, 0, bytes, host,
                                                        0, nullptr, nullptr)
                            : call.clEnqueueReadBuffer(session.queue(), *device, 0, 0, bytes, host,
                                                       0, nullptr, nullptr);
      }));
      if (problem == kSuccess) problem = call.clFinish(session.queue());
    });
  });
  if (problem != kSuccess) return call_failed("clFinish", problem);
  std::vector<unsigned char> back(bytes);
  if (auto copied = session.read(*device, back.data(), bytes); !copied)
    return std::move(copied).error();
  bool right = true;
  for (std::uint64_t i = 0; i < bytes; ++i)
    right = right && back[i] == host[i] && back[i] == static_cast<unsigned char>(i * 31 >> 3);
  measured.library = target.opencl_library;
  measured.size = bytes;
  measured.work = static_cast<double>(bytes);
  measured.naive_seconds = naive_median(std::move(naive));
  measured.max_error = right ? 0 : 1;
  measured.allowed_error = 0;
  return measured;
}

Result<Measured> launch(const Target& target, const Effort& effort) {
  Session session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  const auto kernel = session.kernel("nothing", "-DT=float");
  if (!kernel) return kernel.error();
  const Functions& call = session.functions();
  const std::size_t items = 1;
  std::int32_t problem = kSuccess;
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return seconds_of([&] {
      naive.push_back(seconds_of([&] {
        problem = call.clEnqueueNDRangeKernel(session.queue(), *kernel, 1, nullptr, &items, nullptr,
                                              0, nullptr, nullptr);
      }));
      if (problem == kSuccess) problem = call.clFinish(session.queue());
    });
  });
  if (problem != kSuccess) return call_failed("clEnqueueNDRangeKernel", problem);
  measured.library = kOwnCode;
  measured.naive_seconds = naive_median(std::move(naive));
  return measured;
}

constexpr auto kCases = std::to_array<Case>({
    {"gemm.fp32", Kind::kGemm, Backend::kOpenCl, "fp32", gemm<float>},
    {"gemm.fp64", Kind::kGemm, Backend::kOpenCl, "fp64", gemm<double>},
    {"gemm.fp16", Kind::kGemm, Backend::kOpenCl, "fp16", gemm_16_bit<false>},
    {"gemm.bf16", Kind::kGemm, Backend::kOpenCl, "bf16", gemm_16_bit<true>},
    {"memory.triad", Kind::kMemory, Backend::kOpenCl, "fp32", triad},
    {"copy.to.pageable", Kind::kCopy, Backend::kOpenCl, "", copy<true, false>},
    {"copy.to.pinned", Kind::kCopy, Backend::kOpenCl, "", copy<true, true>},
    {"copy.from.pageable", Kind::kCopy, Backend::kOpenCl, "", copy<false, false>},
    {"copy.from.pinned", Kind::kCopy, Backend::kOpenCl, "", copy<false, true>},
    {"launch", Kind::kLaunch, Backend::kOpenCl, "", launch},
});

}  // namespace

std::span<const Case> opencl_cases() {
  return kCases;
}

}  // namespace berth::bench
