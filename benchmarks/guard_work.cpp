// Started by benchmarks/guard.py on the simulated driver, with and without the guard. Each prints
// JSON.
// - guard_work calls [LIVE]: nanoseconds per call; LIVE allocations exist beside one of them
// - guard_work share WHAT BATCH AT SECONDS [WINDOWS]: percent of the device's time from AT (seconds
//   since 1970); each further window begins a second after the one before. WHAT is a kernel
//   ("k_1ms"), "graph:KERNEL", a graph of five of them, or "copy:BYTES"
// - guard_work requests KERNEL COUNT AT SECONDS: milliseconds until COUNT kernels are done, again
//   and again with pauses of 20 ms
// - guard_work starts COUNT: milliseconds from a common signal until each of COUNT processes has
//   called cuInit
// - guard_work killed BYTES TIMES: milliseconds from the SIGKILL of a process with all of the
// memory
//   until another process gets it
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
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

void check(CUresult result) {
  if (result != CUDA_SUCCESS) std::exit(4);
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
  template <typename Function>
  Function* get(const char* name) const {
    return find<Function>(library, name);
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

int measure_calls(int live) {
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
  for (int i = 0; i < live; ++i) {
    CUdeviceptr address = 0;
    allocate(&address, 512);
  }
  const double full = median(pair), asked = median([&] {
                                      std::size_t left = 0, total = 0;
                                      info(&left, &total);
                                    });
  std::printf(
      "{\"init_ms\": %.3f, \"launch\": %.1f, \"pair\": %.1f, \"pair_live\": %.1f, \"info\": "
      "%.1f}\n",
      cuda.init_milliseconds, launch, empty, full, asked);
  return 0;
}

/// What a job sends again and again.
class Work {
 public:
  explicit Work(const std::string& what)
      : cuda_(what.starts_with("copy:")    ? "k"
              : what.starts_with("graph:") ? what.c_str() + 6
                                           : what.c_str()) {
    if (what.starts_with("copy:")) {
      bytes_.resize(static_cast<std::size_t>(std::atoll(what.c_str() + 5)));
      check(
          cuda_.get<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2")(&memory_, bytes_.size()));
      copy_ = cuda_.get<CUresult(CUdeviceptr, const void*, std::size_t, CUstream)>(
          "cuMemcpyHtoDAsync_v2");
    }
    if (what.starts_with("graph:")) capture();
  }
  void send() const {
    if (copy_ != nullptr)
      check(copy_(memory_, bytes_.data(), bytes_.size(), nullptr));
    else if (graph_ != nullptr)
      check(launch_graph_(graph_, stream_));
    else
      cuda_.send();
  }
  [[nodiscard]] const Cuda& cuda() const { return cuda_; }

 private:
  void capture() {
    CUgraph graph = nullptr;
    check(cuda_.get<CUresult(CUstream*, unsigned)>("cuStreamCreate")(&stream_, 1));
    check(cuda_.get<CUresult(CUstream, int)>("cuStreamBeginCapture_v2")(stream_, 0));
    for (int i = 0; i < 5; ++i)
      check(cuda_.launch(cuda_.function, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr));
    check(cuda_.get<CUresult(CUstream, CUgraph*)>("cuStreamEndCapture")(stream_, &graph));
    check(cuda_.get<CUresult(CUgraphExec*, CUgraph, unsigned long long)>(
        "cuGraphInstantiateWithFlags")(&graph_, graph, 0));
    launch_graph_ = cuda_.get<CUresult(CUgraphExec, CUstream)>("cuGraphLaunch");
  }

  Cuda cuda_;
  std::vector<char> bytes_;
  CUdeviceptr memory_ = 0;
  CUstream stream_ = nullptr;
  CUgraphExec graph_ = nullptr;
  CUresult (*copy_)(CUdeviceptr, const void*, std::size_t, CUstream) = nullptr;
  CUresult (*launch_graph_)(CUgraphExec, CUstream) = nullptr;
};

/// This process's queue on the simulated device; it counts the work done in nanoseconds.
const berth::wire::sim::CudaQueue& own_queue() {
  using namespace berth::wire::sim;
  const int file = open((std::string(std::getenv("BERTH_SIM_DIR")) + "/cuda").c_str(), O_RDONLY);
  const auto* shared = static_cast<const CudaShared*>(
      mmap(nullptr, sizeof(CudaShared), PROT_READ, MAP_SHARED, file, 0));
  for (std::uint32_t i = 0; i < shared->processes; ++i)
    if (shared->process[i].pid == getpid()) return shared->process[i].queue[0];
  std::exit(3);
}

int measure_share(const char* what, int batch, double at, double length, int windows) {
  const Work work(what);
  auto* wait = work.cuda().get<CUresult()>("cuCtxSynchronize");
  const berth::wire::sim::CudaQueue& queue = own_queue();
  const auto work_until = [&](double end) {
    while (seconds(CLOCK_REALTIME) < end) {
      for (int i = 0; i < batch; ++i) work.send();
      wait();
    }
  };
  while (seconds(CLOCK_REALTIME) < at - 0.3) usleep(1000);
  for (int window = 0; window < windows; ++window, at += length + 1) {
    work_until(at);
    const std::uint64_t before = queue.done;
    const double begun = seconds(CLOCK_MONOTONIC);
    work_until(at + length);
    const double took = seconds(CLOCK_MONOTONIC) - begun;
    std::printf("{\"percent\": %.2f}\n", static_cast<double>(queue.done - before) / 1e7 / took);
  }
  work_until(at - 0.5);  // so that the others are still busy at the end
  return 0;
}

int measure_requests(const char* kernel, int count, double at, double length) {
  const Cuda cuda(kernel);
  auto* wait = cuda.get<CUresult()>("cuCtxSynchronize");
  const berth::wire::sim::CudaQueue& queue = own_queue();
  while (seconds(CLOCK_REALTIME) < at) usleep(1000);
  std::vector<double> took;
  const std::uint64_t before = queue.done;
  while (seconds(CLOCK_REALTIME) < at + length) {
    const double begun = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < count; ++i) cuda.send();
    wait();
    took.push_back((seconds(CLOCK_MONOTONIC) - begun) * 1e3);
    usleep(20'000);
  }
  std::sort(took.begin(), took.end());
  std::printf("{\"p50_ms\": %.2f, \"p99_ms\": %.2f, \"requests\": %zu, \"percent\": %.2f}\n",
              took[took.size() / 2], took[took.size() * 99 / 100], took.size(),
              static_cast<double>(queue.done - before) / 1e7 / length);
  return 0;
}

void print_times(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("{\"p50_ms\": %.2f, \"longest_ms\": %.2f, \"count\": %zu}\n",
              milliseconds[milliseconds.size() / 2], milliseconds.back(), milliseconds.size());
}

/// Memory that child processes share.
template <typename T>
T* shared_array(std::size_t count) {
  void* where =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (where == MAP_FAILED) std::exit(3);
  return static_cast<T*>(where);
}

int measure_starts(int count) {
  auto* took = shared_array<double>(static_cast<std::size_t>(count));
  auto* begun = shared_array<double>(1);
  int gate[2], ready[2], end[2];
  if (pipe(gate) != 0 || pipe(ready) != 0 || pipe(end) != 0) return 3;
  for (int i = 0; i < count; ++i) {
    if (fork() != 0) continue;
    char byte = 0;
    close(gate[1]);
    close(end[1]);
    // All processes are ready, and all live until the last one is done.
    if (write(ready[1], "", 1) != 1 || read(gate[0], &byte, 1) != 0) _exit(3);
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) _exit(3);
    const bool is_right = find<CUresult(unsigned)>(library, "cuInit")(0) == CUDA_SUCCESS;
    took[i] = (seconds(CLOCK_MONOTONIC) - *begun) * 1e3;
    if (write(ready[1], "", 1) != 1) _exit(3);
    _exit(read(end[0], &byte, 1) == 0 && is_right ? 0 : 4);
  }
  char byte = 0;
  for (int i = 0; i < count; ++i) static_cast<void>(!read(ready[0], &byte, 1));
  *begun = seconds(CLOCK_MONOTONIC);
  close(gate[1]);
  for (int i = 0; i < count; ++i) static_cast<void>(!read(ready[0], &byte, 1));
  close(end[1]);
  int status = 0;
  for (int i = 0; i < count; ++i)
    if (wait(&status) < 0 || status != 0) return 4;
  print_times(std::vector<double>(took, took + count));
  return 0;
}

int measure_killed(std::size_t bytes, int times) {
  const auto allocate = [&](const Cuda& cuda, CUdeviceptr* address) {
    return cuda.get<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2")(address, bytes);
  };
  int ready[2];
  if (pipe(ready) != 0) return 3;
  // Before this process initialises CUDA, because a child cannot use what it inherits.
  int gates[2];
  if (pipe(gates) != 0) return 3;
  for (int i = 0; i < times; ++i) {
    if (fork() != 0) continue;
    char byte = 0;
    if (read(gates[0], &byte, 1) != 1) _exit(3);
    const Cuda cuda("k");
    CUdeviceptr address = 0;
    // Whichever reads the byte holds the memory.
    const bool has = allocate(cuda, &address) == CUDA_SUCCESS;
    const pid_t own = getpid();
    if (!has || write(ready[1], &own, sizeof(own)) != sizeof(own)) _exit(3);
    pause();
  }
  const Cuda cuda("k");
  std::vector<double> took;
  for (int i = 0; i < times; ++i) {
    pid_t victim = 0;
    CUdeviceptr address = 0;
    if (write(gates[1], "", 1) != 1 || read(ready[0], &victim, sizeof(victim)) != sizeof(victim))
      return 3;
    const double begun = seconds(CLOCK_MONOTONIC);
    kill(victim, SIGKILL);
    while (allocate(cuda, &address) != CUDA_SUCCESS) usleep(100);
    took.push_back((seconds(CLOCK_MONOTONIC) - begun) * 1e3);
    check(cuda.get<CUresult(CUdeviceptr)>("cuMemFree_v2")(address));
    waitpid(victim, nullptr, 0);
  }
  print_times(took);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string verb = count > 1 ? words[1] : "";
  if (verb == "calls") return measure_calls(count > 2 ? std::atoi(words[2]) : 100'000);
  if (verb == "share" && (count == 6 || count == 7))
    return measure_share(words[2], std::atoi(words[3]), std::atof(words[4]), std::atof(words[5]),
                         count == 7 ? std::atoi(words[6]) : 1);
  if (verb == "requests" && count == 6)
    return measure_requests(words[2], std::atoi(words[3]), std::atof(words[4]),
                            std::atof(words[5]));
  if (verb == "starts" && count == 3) return measure_starts(std::atoi(words[2]));
  if (verb == "killed" && count == 4)
    return measure_killed(static_cast<std::size_t>(std::atoll(words[2])), std::atoi(words[3]));
  return 2;
}
