// What a launch of an empty kernel and a buffer from the pool take in C++, for kernel_calls.py.
#include <algorithm>
#include <berth/kernels.hpp>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

double now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The least of 40 medians of 200 calls, in microseconds.
template <typename Call, typename Wait>
double least_median(Call&& call, Wait&& wait) {
  double least = 1e9;
  for (int round = 0; round < 40; ++round) {
    std::vector<double> times;
    for (int i = 0; i < 200; ++i) {
      const double before = now();
      call();
      times.push_back(now() - before);
    }
    wait();
    std::nth_element(times.begin(), times.begin() + 100, times.end());
    least = std::min(least, times[100]);
  }
  return least;
}

}  // namespace

int main() {
  const auto device = berth::try_compute();
  if (!device) return 77;
  const auto kernel = device->try_kernel(
      "KERNEL void nothing(GLOBAL float* x, float a, int n) { if (GLOBAL_ID(0) >= n) x[0] = a; }",
      "nothing");
  auto buffer = device->try_buffer(1024);
  if (!kernel || !buffer) return 1;
  float value = 0;
  const double launch =
      least_median([&] { static_cast<void>(kernel->try_launch(256, *buffer, 1.0F, 256)); },
                   [&] { static_cast<void>(buffer->try_read(&value, sizeof value)); });
  const double pool = least_median([&] { static_cast<void>(device->try_buffer(1024)); }, [] {});
  std::printf("%.3f %.3f\n", launch, pool);
  return 0;
}
