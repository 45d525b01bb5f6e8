// Takes a device, allocates numbers on it, and tries again if memory is short. Without a GPU it
// uses the CPU.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include <berth/berth.hpp>

#if defined(WITH_CUDA)
#include <cuda_runtime_api.h>

static double average_on_gpu(const std::vector<float>& numbers, const berth::RetryPolicy& policy) {
  const std::size_t bytes = numbers.size() * sizeof(float);
  void* memory = nullptr;
  const auto check = [](cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
  };
  check(berth::retry(policy, [&] { return cudaMalloc(&memory, bytes); }));
  const std::unique_ptr<void, decltype(&cudaFree)> freed(memory, cudaFree);
  check(cudaMemcpy(memory, numbers.data(), bytes, cudaMemcpyHostToDevice));
  std::vector<float> back(numbers.size());
  check(cudaMemcpy(back.data(), memory, bytes, cudaMemcpyDeviceToHost));
  double sum = 0;
  for (const float one : back) sum += one;
  return sum / static_cast<double>(back.size());
}
#endif

static double average_on_cpu(const std::vector<float>& numbers) {
  double sum = 0;
  for (const float one : numbers) sum += one;
  return sum / static_cast<double>(numbers.size());
}

int main(int argc, char** argv) try {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000000;
  for (const berth::Device& device : berth::devices())
    std::printf("device %d: %s, %s\n", device.index, device.name.value_or("?").c_str(),
                device.health.c_str());

  const berth::Lease lease = berth::lease();  // one GPU if there is one; ends with this function
  const bool on_gpu = !lease.devices().empty();
  std::printf("job %lld has %s\n", lease.job(),
              on_gpu ? lease.devices()[0].name.value_or("a GPU").c_str() : "the CPU");

  berth::RetryPolicy policy;  // 4 tries, with pauses of about 0.5, 1 and 2 seconds
  policy.name = "average";
  const std::vector<float> numbers =
      berth::retry(policy, [&] { return std::vector<float>(count, 2.5F); });
#if defined(WITH_CUDA)
  const double average = on_gpu ? average_on_gpu(numbers, policy) : average_on_cpu(numbers);
#else
  const double average = average_on_cpu(numbers);
#endif
  std::printf("average of %zu numbers: %.2f\n", count, average);
  std::printf("%s\n", berth::report().text().c_str());
  return 0;
} catch (const std::exception& problem) {  // what() of a berth::Error includes the id and the hint
  std::fprintf(stderr, "error: %s\n", problem.what());
  return 1;
}
