// Cases for the CPU: matrix products with a BLAS, and the bandwidth of memory.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <new>
#include <thread>

#include "base/text.hpp"
#include "bench/blas.hpp"
#include "bench/case.hpp"
#include "bench/matrix.hpp"
#include "bench/timing.hpp"

namespace berth::bench {
namespace {

constexpr std::uint64_t kMostRows = 16'384;
/// Size of each of the three arrays: more than the last-level cache of nearly every CPU.
constexpr std::uint64_t kTriadBytes = 256 << 20;

/// The memory that the case uses: a quarter of what this process may use, or 1 GiB if that is
/// unknown.
std::uint64_t memory_to_use(const Target& target) {
  return target.cpu_memory_bytes == 0 ? 1ULL << 30 : target.cpu_memory_bytes / 4;
}

Error too_large(std::uint64_t size) {
  return {ErrorCode::kUnsupported, "E1054",
          text("size {} needs more than a quarter of the free memory", size), "free -h"};
}

template <typename T>
void multiply(Gemm<T> gemm, std::uint64_t rows, const std::vector<T>& a, const std::vector<T>& b,
              std::vector<T>& c) {
  const int n = static_cast<int>(rows);
  const T one = 1;
  const T zero = 0;
  // BLAS expects column order. With swapped operands it computes (A·B)ᵀ = Bᵀ·Aᵀ in column order,
  // which is A·B in row order.
  gemm("N", "N", &n, &n, &n, &one, b.data(), &n, a.data(), &n, &zero, c.data(), &n);
}

template <typename T>
Result<Measured> gemm_with(Gemm<T> gemm, std::string library, const Target& target,
                           const Effort& effort) {
  const std::uint64_t most = rows_that_fit(kMostRows, sizeof(T), memory_to_use(target));
  std::uint64_t rows = effort.size;
  if (rows == 0) {
    const auto a = matrix<T>(256, 1);
    const auto b = matrix<T>(256, 2);
    std::vector<T> c(a.size());
    multiply(gemm, 256, a, b, c);
    double best = 1e9;
    for (int i = 0; i < 3; ++i)
      best = std::min(best, seconds_of([&] { multiply(gemm, 256, a, b, c); }));
    rows = rows_for(best, effort.seconds, most);
  } else if (rows > most) {
    return too_large(rows);
  }
  const auto a = matrix<T>(rows, 1);
  const auto b = matrix<T>(rows, 2);
  std::vector<T> c(a.size());
  Measured measured;
  measured.seconds =
      repeat(effort.seconds, [&] { return seconds_of([&] { multiply(gemm, rows, a, b, c); }); });
  measured.library = std::move(library);
  measured.size = rows;
  measured.work =
      2.0 * static_cast<double>(rows) * static_cast<double>(rows) * static_cast<double>(rows);
  measured.max_error = sampled_error(rows, a, b, c);
  measured.allowed_error = allowed_error<T>(rows);
  return measured;
}

Result<Measured> gemm_fp32(const Target& target, const Effort& effort) {
  auto blas = open_blas(false);
  if (!blas) return std::move(blas).error();
  return gemm_with(blas->sgemm, std::move(blas->file), target, effort);
}

Result<Measured> gemm_fp64(const Target& target, const Effort& effort) {
  auto blas = open_blas(true);
  if (!blas) return std::move(blas).error();
  return gemm_with(blas->dgemm, std::move(blas->file), target, effort);
}

/// Computes a = b + 3c for the elements of one thread, in a loop that compilers optimize as usual.
void triad(double* a, const double* b, const double* c, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t i = from; i < to; ++i) a[i] = b[i] + 3.0 * c[i];
}

Result<Measured> memory_triad(const Target& target, const Effort& effort) {
  std::uint64_t bytes = effort.size == 0 ? kTriadBytes : effort.size;
  while (effort.size == 0 && bytes > (1 << 20) && 3 * bytes > memory_to_use(target)) bytes /= 2;
  if (3 * bytes > memory_to_use(target) || bytes < 4096) return too_large(bytes);
  const std::uint64_t count = bytes / sizeof(double);
  const auto threads = static_cast<std::uint64_t>(std::max(target.threads, 1));
  // Not initialized here. Each thread first writes its own part, so that the kernel uses memory of
  // the thread's NUMA node.
  const std::unique_ptr<double[]> a(new (std::nothrow) double[count]);
  const std::unique_ptr<double[]> b(new (std::nothrow) double[count]);
  const std::unique_ptr<double[]> c(new (std::nothrow) double[count]);
  if (!a || !b || !c) return too_large(bytes);
  std::barrier<> meet(static_cast<std::ptrdiff_t>(threads + 1));
  std::atomic<bool> done{false};
  std::vector<std::thread> crew;
  for (std::uint64_t one = 0; one < threads; ++one)
    crew.emplace_back([&, one] {
      const std::uint64_t from = count * one / threads;
      const std::uint64_t to = count * (one + 1) / threads;
      for (std::uint64_t i = from; i < to; ++i) a[i] = 0, b[i] = static_cast<double>(i), c[i] = 2;
      meet.arrive_and_wait();
      for (meet.arrive_and_wait(); !done; meet.arrive_and_wait()) {
        triad(a.get(), b.get(), c.get(), from, to);
        meet.arrive_and_wait();
      }
    });
  meet.arrive_and_wait();
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return seconds_of([&] {
      meet.arrive_and_wait();
      meet.arrive_and_wait();
    });
  });
  done = true;
  meet.arrive_and_wait();
  for (std::thread& one : crew) one.join();
  double worst = 0;
  for (std::uint64_t i = 0; i < count; i += std::max<std::uint64_t>(count / 4096, 1))
    worst = std::max(worst, std::abs(a[i] - (static_cast<double>(i) + 6)));
  measured.library = kOwnCode;
  measured.size = bytes;
  measured.work = 3.0 * static_cast<double>(count * sizeof(double));
  measured.max_error = worst;
  measured.allowed_error = 0;
  return measured;
}

constexpr auto kCases = std::to_array<Case>({
    {"gemm.fp32", Kind::kGemm, Backend::kCpu, "fp32", gemm_fp32},
    {"gemm.fp64", Kind::kGemm, Backend::kCpu, "fp64", gemm_fp64},
    {"memory.triad", Kind::kMemory, Backend::kCpu, "fp64", memory_triad},
});

}  // namespace

std::span<const Case> cpu_cases() {
  return kCases;
}

}  // namespace berth::bench
