#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>

#include "bench/child.hpp"
#include "bench/matrix.hpp"
#include "bench/timing.hpp"
#include "vendor/opencl/opencl.hpp"

using namespace berth;
using namespace berth::bench;
using namespace std::chrono_literals;

namespace {

Result<Measured> never_ends(const Target&, const Effort&) {
  for (;;) std::this_thread::sleep_for(1s);
}
Result<Measured> crashes(const Target&, const Effort&) {
  std::abort();
}
Result<Measured> leaves(const Target&, const Effort&) {
  std::exit(0);
}
Result<Measured> refuses(const Target&, const Effort&) {
  return Error{ErrorCode::kUnsupported, kUnsupportedId, "no", "berth ls"};
}
Result<Measured> counts(const Target& target, const Effort& effort) {
  Measured measured;
  measured.library = "x";
  measured.size = effort.size;
  measured.seconds = {0.5, effort.seconds};
  measured.work = target.threads;
  return measured;
}

Result<Measured> run(Result<Measured> (*function)(const Target&, const Effort&),
                     std::chrono::milliseconds deadline = 20s) {
  const Case one{"test", Kind::kGemm, Backend::kCpu, "", function};
  Target target;
  target.threads = 3;
  return run_in_child(one, target, {0.25, 64}, deadline);
}

const Case& case_of(std::span<const Case> all, std::string_view key) {
  return *std::find_if(all.begin(), all.end(), [&](const Case& one) { return one.key == key; });
}

}  // namespace

TEST_CASE("a case returns its result, or its own error") {
  const auto answer = run(counts);
  REQUIRE(answer);
  CHECK(answer->seconds == std::vector<double>{0.5, 0.25});
  CHECK(answer->size == 64);
  CHECK(answer->work == 3);
  CHECK(!answer->naive_seconds);
  const auto refusal = run(refuses);
  REQUIRE(!refusal);
  CHECK(refusal.error().id == kUnsupportedId);
  CHECK(refusal.error().hint == "berth ls");
}

TEST_CASE("a case that never ends is killed at the deadline") {
  const auto before = std::chrono::steady_clock::now();
  const auto answer = run(never_ends, 200ms);
  REQUIRE(!answer);
  CHECK(answer.error().id == "E1050");
  CHECK(std::chrono::steady_clock::now() - before < 10s);
}

TEST_CASE("a library that crashes or exits becomes a row of the report") {
  for (const auto function : {crashes, leaves}) {
    const auto answer = run(function);
    REQUIRE(!answer);
    CHECK(answer.error().id == "E1051");
  }
}

TEST_CASE("bytes that our own child would never write are refused") {
  const std::string good = encode(run(counts));
  REQUIRE(decode(good));
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(!decode(std::string_view(good).substr(0, cut)));
  CHECK(!decode("[]"));
  CHECK(!decode(R"({"library":"x","size":1,"work":1,"seconds":[]})"));
  CHECK(!decode(R"({"error":"nonsense","id":"","message":"","hint":""})"));
}

TEST_CASE("median and spread") {
  const Statistics all = statistics_of({4, 1, 2, 3, 100});
  CHECK(all.median == 3);
  CHECK(all.least == 1);
  CHECK(all.most == 100);
  CHECK(all.spread_percent == doctest::Approx(100 * 2 / 3.0));
  CHECK(statistics_of({7}).spread_percent == 0);
}

TEST_CASE("the first run is the warm-up, and a failure ends the runs") {
  int calls = 0;
  const auto times = repeat(0, [&] { return calls++ == 0 ? 100.0 : 1.0; });
  CHECK(times == std::vector<double>(kLeastRuns, 1.0));
  calls = 0;
  CHECK(repeat(0, [&] { return ++calls == 3 ? -1.0 : 1.0; }).empty());
}

TEST_CASE("matrices are as large as the time allows") {
  CHECK(rows_for(1e-4, 1, 16384) == 2048);
  CHECK(rows_for(1e-4, 1, 1024) == 1024);
  CHECK(rows_for(10, 1, 16384) == 256);
}

TEST_CASE("the rate of a PCIe link follows its generation and width") {
  CHECK(pcie_bytes_per_second(3, 16) == doctest::Approx(15.75e9).epsilon(0.001));
  CHECK(pcie_bytes_per_second(5, 16) == doctest::Approx(63.0e9).epsilon(0.001));
  CHECK(pcie_bytes_per_second(4, 8) == pcie_bytes_per_second(3, 16));
  CHECK(pcie_bytes_per_second(0, 16) == 0);
  CHECK(pcie_bytes_per_second(99, 16) == 0);
}

TEST_CASE("a GPU without a driver or without cuBLAS has an error for each case") {
  Target target;
  target.backend = Backend::kCuda;
  target.pci_address = "0000:ff:1f.7";
  for (const std::span<const Case> some : {cuda_cases(), cublas_cases()})
    for (const Case& one : some) {
      CHECK(kind_of(name(one.kind)) == one.kind);
      const auto answer = run_in_child(one, target, {0.05, 256}, 60s);
      REQUIRE(!answer);
      CHECK(answer.error().id == "E1071");
      CHECK(!answer.error().hint.empty());
    }
}

TEST_CASE("a wrong element of a product is found, and a correct product passes") {
  constexpr std::uint64_t kRows = 64;
  const auto a = matrix<float>(kRows, 1);
  const auto b = matrix<float>(kRows, 2);
  std::vector<float> c(kRows * kRows);
  for (std::uint64_t i = 0; i < kRows; ++i)
    for (std::uint64_t j = 0; j < kRows; ++j)
      for (std::uint64_t k = 0; k < kRows; ++k)
        c[i * kRows + j] += a[i * kRows + k] * b[k * kRows + j];
  CHECK(sampled_error(kRows, a, b, c) <= allowed_error<float>(kRows));
  // The check must find a transposed product, zeros and NaN, which broken libraries return.
  CHECK(sampled_error(kRows, b, a, c) > allowed_error<float>(kRows));
  CHECK(sampled_error(kRows, a, b, std::vector<float>(c.size())) > allowed_error<float>(kRows));
  c[0] = std::numeric_limits<float>::quiet_NaN();
  Measured measured;
  measured.seconds = {1};
  measured.max_error = sampled_error(kRows, a, b, c);
  const auto told = decode(encode(measured));  // a wrong result must not look like a crash
  REQUIRE(told);
  REQUIRE(*told);
  CHECK((*told)->max_error.value_or(0) > 1e30);
}

TEST_CASE("the CPU's memory is measured and its result checked") {
  Target target;
  target.threads = 2;
  const auto answer =
      run_in_child(case_of(cpu_cases(), "memory.triad"), target, {0.05, 8 << 20}, 60s);
  REQUIRE(answer);
  CHECK(answer->max_error == 0.0);
  CHECK(answer->seconds.size() >= kLeastRuns);
}

TEST_CASE("a product through the installed BLAS") {
  ::unsetenv("BERTH_BLAS_LIBRARY");
  const auto answer = run_in_child(case_of(cpu_cases(), "gemm.fp32"), {}, {0.05, 256}, 60s);
  if (!answer && answer.error().id == "E1052") {
    MESSAGE("skipped: no BLAS is installed here");
    return;
  }
  REQUIRE(answer);
  CHECK(*answer->max_error <= *answer->allowed_error);
  CHECK(!answer->library.empty());
}

TEST_CASE("a file that is not a BLAS library is named in the error") {
  ::setenv("BERTH_BLAS_LIBRARY", "libc.so.6", 1);
  const auto answer = run_in_child(case_of(cpu_cases(), "gemm.fp32"), {}, {0.05, 256}, 60s);
  ::unsetenv("BERTH_BLAS_LIBRARY");
  REQUIRE(!answer);
  CHECK(answer.error().id == "E1052");
}

TEST_CASE("without the OpenCL device each case has an error") {
  Target target;
  target.backend = Backend::kOpenCl;
  target.opencl_library = "/nonexistent/libOpenCL.so.1";
  target.opencl_name = "x";
  for (const Case& one : opencl_cases()) {
    const auto answer = run_in_child(one, target, {0.05, 256}, 60s);
    REQUIRE(!answer);
    const bool needs_rocblas =
        one.precision == std::string_view("fp16") || one.precision == std::string_view("bf16");
    CHECK(answer.error().id == (needs_rocblas ? kUnsupportedId : "E1053"));
  }
}

TEST_CASE("products of an AMD GPU go through rocBLAS in every precision") {
  ::setenv("BERTH_HIP_LIBRARY", FAKE_ROCBLAS, 1);
  ::setenv("BERTH_ROCBLAS_LIBRARY", FAKE_ROCBLAS, 1);
  Target target;
  target.backend = Backend::kOpenCl;
  target.opencl_library = "/nonexistent/libOpenCL.so.1";
  target.pci_address = "0000:c1:00.0";
  for (const char* key : {"gemm.fp32", "gemm.fp64", "gemm.fp16", "gemm.bf16"}) {
    INFO(key);
    const Case& one = case_of(opencl_cases(), key);
    const auto answer = run_in_child(one, target, {0.01, 128}, 60s);
    REQUIRE(answer);
    CHECK(answer->library.find("fake_rocblas") != std::string::npos);
    CHECK(answer->size == 128);
    CHECK(answer->naive_seconds);
    CHECK(*answer->max_error <= *answer->allowed_error);
    ::setenv("FAKE_ROCBLAS", "wrong", 1);
    const auto wrong = run_in_child(one, target, {0.01, 128}, 60s);
    ::unsetenv("FAKE_ROCBLAS");
    REQUIRE(wrong);
    CHECK(*wrong->max_error > *wrong->allowed_error);
    const auto large = run_in_child(one, target, {0.01, 1 << 20}, 60s);
    REQUIRE(!large);
    CHECK(large.error().id == "E1054");
  }
  target.pci_address = "0000:c2:00.0";  // HIP has no GPU at this address, so OpenCL is used
  const auto other = run_in_child(case_of(opencl_cases(), "gemm.fp32"), target, {0.01, 256}, 60s);
  ::unsetenv("BERTH_HIP_LIBRARY");
  ::unsetenv("BERTH_ROCBLAS_LIBRARY");
  REQUIRE(!other);
  CHECK(other.error().id == "E1053");
}

TEST_CASE("every case is right on a real OpenCL device") {
  const auto devices = opencl::Reader("libOpenCL.so.1").finish(60s).devices;
  if (devices.empty()) {
    MESSAGE("skipped: no libOpenCL.so.1, or no platform is installed here");
    return;
  }
  Target target;
  target.backend = Backend::kOpenCl;
  target.opencl_library = "libOpenCL.so.1";
  target.opencl_name = devices.front().name;
  target.pci_address = devices.front().pci_address;
  for (const Case& one : opencl_cases()) {
    const std::uint64_t size = one.kind == Kind::kGemm ? 256 : 1 << 20;
    const auto answer = run_in_child(one, target, {0.02, size}, 60s);
    INFO(one.key << ": " << (answer ? "" : answer.error().message));
    if (!answer && answer.error().id == kUnsupportedId) continue;
    REQUIRE(answer);
    CHECK(answer->naive_seconds);
    if (answer->max_error) CHECK(*answer->max_error <= *answer->allowed_error);
  }
}
