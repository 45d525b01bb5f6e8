// Started by benchmarks/guard.py on the simulated driver, with and without the guard.
// - guard_work calls: nanoseconds per call, as JSON
// - guard_work share KERNEL BATCH AT SECONDS: percent of the device's time from AT (seconds since
//   1970), as JSON
// - guard_work requests KERNEL COUNT AT SECONDS: milliseconds until COUNT kernels are done, again
// and
//   again with pauses of 20 ms, as JSON
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "vendor/cuda/abi.hpp"
#include "wire/sim_cuda.hpp"

namespace {

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

template <typename Function>
Function* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) std::exit(3);
  return reinterpret_cast<Function*>(found);
}

struct Cuda {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  CUfunction function = nullptr;
  decltype(find<CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, CUstream, void**, void**)>(nullptr, "")) launch = nullptr;
  double init_milliseconds = 0;

  explicit Cuda(const char* kernel) {
    if (library == nullptr) std::exit(3);
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    const double begun = seconds(CLOCK_MONOTONIC);
    find<CUresult(unsigned)>(library, "cuInit")(0);
    init_milliseconds = (seconds(CLOCK_MONOTONIC) - begun) * 1e3;
    find<CUresult(CUcontext*, CUdevice)>(library, "cuDevicePrimaryCtxRetain")(&context, 0);
    find<CUresult(CUcontext)>(library, "cuCtxSetCurrent")(context);
    find<CUresult(CUmodule*, const void*)>(library, "cuModuleLoadData")(&module, "image");
    find<CUresult(CUfunction*, CUmodule, const char*)>(library, "cuModuleGetFunction")(
        &function, module, kernel);
    launch = find<std::remove_pointer_t<decltype(launch)>>(library, "cuLaunchKernel");
  }
  void send() const { launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); }
};

/// The median of several batches, in nanoseconds per call.
template <typename Call>
double median(Call call) {
  constexpr int kBatches = 31, kCalls = 5000;
  std::vector<double> each;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double begun = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < kCalls; ++i) call();
    each.push_back((seconds(CLOCK_MONOTONIC) - begun) * 1e9 / kCalls);
  }
  std::nth_element(each.begin(), each.begin() + kBatches / 2, each.end());
  return each[kBatches / 2];
}

int measure_calls() {
  const Cuda cuda("k_0ns");
  auto* allocate = find<CUresult(CUdeviceptr*, std::size_t)>(cuda.library, "cuMemAlloc_v2");
  auto* release = find<CUresult(CUdeviceptr)>(cuda.library, "cuMemFree_v2");
  auto* info = find<CUresult(std::size_t*, std::size_t*)>(cuda.library, "cuMemGetInfo_v2");
  const auto pair = [&] {
    CUdeviceptr address = 0;
    allocate(&address, 4096);
    release(address);
  };
  const double launch = median([&] { cuda.send(); }), empty = median(pair);
  for (int i = 0; i < 100'000; ++i) {
    CUdeviceptr address = 0;
    allocate(&address, 512);
  }
  const double full = median(pair), asked = median([&] {
                                      std::size_t left = 0, total = 0;
                                      info(&left, &total);
                                    });
  std::printf(
      "{\"init_ms\": %.3f, \"launch\": %.1f, \"pair\": %.1f, \"pair_100000_live\": %.1f, \"info\": "
      "%.1f}\n",
      cuda.init_milliseconds, launch, empty, full, asked);
  return 0;
}

int measure_share(const char* kernel, int batch, double at, double length) {
  using namespace berth::wire::sim;
  const Cuda cuda(kernel);
  auto* wait = find<CUresult()>(cuda.library, "cuCtxSynchronize");
  const int file = open((std::string(std::getenv("BERTH_SIM_DIR")) + "/cuda").c_str(), O_RDONLY);
  const auto* shared = static_cast<const CudaShared*>(
      mmap(nullptr, sizeof(CudaShared), PROT_READ, MAP_SHARED, file, 0));
  const CudaQueue* queue = nullptr;
  for (std::uint32_t i = 0; i < shared->processes; ++i)
    if (shared->process[i].pid == getpid()) queue = &shared->process[i].queue[0];
  if (queue == nullptr) return 3;
  const auto work_until = [&](double end) {
    while (seconds(CLOCK_REALTIME) < end) {
      for (int i = 0; i < batch; ++i) cuda.send();
      wait();
    }
  };
  while (seconds(CLOCK_REALTIME) < at - 0.3) usleep(1000);
  work_until(at);
  const std::uint64_t before = queue->done;
  const double begun = seconds(CLOCK_MONOTONIC);
  work_until(at + length);
  const double took = seconds(CLOCK_MONOTONIC) - begun;
  std::printf("{\"percent\": %.2f}\n", static_cast<double>(queue->done - before) / 1e7 / took);
  work_until(at + length + 0.5);  // so that the others are still busy at the end
  return 0;
}

int measure_requests(const char* kernel, int count, double at, double length) {
  const Cuda cuda(kernel);
  auto* wait = find<CUresult()>(cuda.library, "cuCtxSynchronize");
  while (seconds(CLOCK_REALTIME) < at) usleep(1000);
  std::vector<double> took;
  while (seconds(CLOCK_REALTIME) < at + length) {
    const double begun = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < count; ++i) cuda.send();
    wait();
    took.push_back((seconds(CLOCK_MONOTONIC) - begun) * 1e3);
    usleep(20'000);
  }
  std::sort(took.begin(), took.end());
  std::printf("{\"p50_ms\": %.2f, \"p99_ms\": %.2f, \"requests\": %zu}\n", took[took.size() / 2],
              took[took.size() * 99 / 100], took.size());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::strcmp(words[1], "calls") == 0) return measure_calls();
  if (count == 6 && std::strcmp(words[1], "share") == 0)
    return measure_share(words[2], std::atoi(words[3]), std::atof(words[4]), std::atof(words[5]));
  if (count == 6 && std::strcmp(words[1], "requests") == 0)
    return measure_requests(words[2], std::atoi(words[3]), std::atof(words[4]),
                            std::atof(words[5]));
  return 2;
}
