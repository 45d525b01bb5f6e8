#include "doctor/read/cuda_init.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cerrno>

using berth::doctor::CudaInit;
using namespace std::chrono_literals;

namespace {

berth::doctor::Fact<int> ask(const char* told, std::chrono::milliseconds deadline = 20s) {
  ::setenv("BERTH_FAKE_CUINIT", told, 1);
  return CudaInit(BERTH_FAKE_CUDA).finish(deadline);
}

}  // namespace

TEST_CASE("the result of cuInit is reported unchanged") {
  CHECK(*ask("0") == 0);
  CHECK(*ask("999") == 999);
}

TEST_CASE("a missing libcuda is absent, and one that crashes or hangs is unreadable") {
  CHECK(CudaInit("libberth-no-such-cuda.so.1").finish().is_absent());
  CHECK(ask("crash").why().error_number == ECHILD);
  const auto start = std::chrono::steady_clock::now();
  CHECK(ask("hang", 200ms).why().error_number == ETIMEDOUT);
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}
