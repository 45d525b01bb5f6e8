// Processes of one job that race for its memory and die at any moment, on the simulated driver.
// Usage: race pairs ROUNDS PROCESSES   together they never hold more than the quota
//        race kills COUNT              what a killed process held is free, and nobody waits for it
//        race handles ROUNDS THREADS   threads of a process that get each other's freed handles
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "vendor/cuda/abi.hpp"
#include "wire/guard.hpp"
#include "wire/sim_cuda.hpp"

extern "C" {
CUresult cuInit(unsigned);
CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
CUresult cuMemAlloc_v2(CUdeviceptr*, std::size_t);
CUresult cuMemAllocAsync(CUdeviceptr*, std::size_t, CUstream);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemCreate(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                     unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuArrayCreate_v2(CUarray*, const CUDA_ARRAY_DESCRIPTOR*);
CUresult cuArrayDestroy(CUarray);
CUresult cuGraphCreate(CUgraph*, unsigned);
CUresult cuGraphAddMemAllocNode(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                                CUDA_MEM_ALLOC_NODE_PARAMS*);
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);
CUresult cuDeviceGraphMemTrim(CUdevice);
}

namespace {

namespace guard = berth::wire::guard;
namespace sim = berth::wire::sim;

/// Shared memory of this test's processes.
struct Shared {
  std::uint64_t granted, refused, over;  // of `pairs`
  std::uint64_t asked, answered;         // probes of `kills`
  std::uint64_t probe_failed, probe_slowest, call_slowest;
  std::uint64_t stop;
};

template <typename T>
T* map(const char* variable, const char* name, int protection) {
  const char* folder = std::getenv(variable);
  const std::string path = std::string(folder == nullptr ? "" : folder) + "/" + name;
  const int file = open(path.c_str(), (protection & PROT_WRITE) != 0 ? O_RDWR : O_RDONLY);
  void* where = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(T), protection, MAP_SHARED, file, 0);
  if (where == MAP_FAILED) std::exit(9);
  return static_cast<T*>(where);
}

std::uint64_t now() {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t get(const std::uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}
void add(std::uint64_t& word, std::uint64_t by) {
  __atomic_fetch_add(&word, by, __ATOMIC_SEQ_CST);
}

void begin() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS) _exit(8);
}

class Test {
 public:
  int pairs(int rounds, int processes) {
    for (int i = 0; i < processes; ++i)
      if (fork() == 0) {
        race(rounds / processes);
        _exit(0);
      }
    int code = 0;
    for (int i = 0, status = 0; i < processes; ++i)
      if (wait(&status) < 0 || status != 0) code = 1;
    std::printf("%llu granted, %llu refused, %llu over\n",
                static_cast<unsigned long long>(shared_->granted),
                static_cast<unsigned long long>(shared_->refused),
                static_cast<unsigned long long>(shared_->over));
    return code == 0 && shared_->over == 0 ? 0 : 1;
  }

  int handles(int rounds, int threads) {
    begin();
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back(&Test::take_handles, rounds / threads);
    for (std::thread& one : all) one.join();
    std::printf("%llu bytes counted, %llu bytes given\n",
                static_cast<unsigned long long>(guard::sum_of(*usage_, 0).used),
                static_cast<unsigned long long>(given()));
    return 0;
  }

  int kills(int count) {
    const pid_t sibling = fork();
    if (sibling == 0) {
      watch();
      _exit(0);
    }
    int code = 0;
    for (int i = 0; i < count && code == 0; ++i) code = kill_one();
    __atomic_store_n(&shared_->stop, 1, __ATOMIC_SEQ_CST);
    int status = 0;
    if (waitpid(sibling, &status, 0) < 0 || status != 0) code = 1;
    std::printf("%llu probes, %llu failed, slowest %llu us, slowest call %llu us\n",
                static_cast<unsigned long long>(shared_->answered),
                static_cast<unsigned long long>(shared_->probe_failed),
                static_cast<unsigned long long>(shared_->probe_slowest / 1000),
                static_cast<unsigned long long>(shared_->call_slowest / 1000));
    return code == 0 && shared_->probe_failed == 0 ? 0 : 1;
  }

 private:
  std::uint64_t quota() const { return limits_->device[0].memory_bytes; }
  std::uint64_t given() {
    const sim::CudaLock lock(*truth_);
    sim::bury_the_dead(*truth_);
    return sim::cuda_memory_used(*truth_, 0);
  }

  /// Physical memory of different sizes for which the driver uses the same handles again.
  static void take_handles(int rounds) {
    CUmemAllocationProp prop = {};
    prop.type = 1;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    for (int i = 0; i < rounds; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      const std::size_t bytes = (5 + static_cast<std::size_t>(i) % 4) * (2U << 20U);
      if (cuMemCreate(&handle, bytes, &prop, 0) != CUDA_SUCCESS) std::exit(7);
      if (cuMemRelease(handle) != CUDA_SUCCESS) std::exit(6);
    }
  }

  /// Requests of 40 to 70 % of the quota, so that two rarely fit.
  void race(int rounds) {
    begin();
    std::mt19937_64 random(static_cast<std::uint64_t>(getpid()));
    for (int i = 0; i < rounds; ++i) {
      CUdeviceptr address = 0;
      const std::uint64_t bytes = quota() / 100 * (40 + random() % 31);
      const CUresult result = cuMemAlloc_v2(&address, bytes);
      if (given() > quota()) add(shared_->over, 1);
      add(result == CUDA_SUCCESS ? shared_->granted : shared_->refused, 1);
      if (result == CUDA_SUCCESS)
        cuMemFree_v2(address);
      else if (result != CUDA_ERROR_OUT_OF_MEMORY)
        _exit(7);
    }
  }

  /// Takes and frees memory of several kinds until it is killed.
  [[noreturn]] void work() {
    std::mt19937_64 random(static_cast<std::uint64_t>(getpid()));
    begin();
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {};
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = quota() / 8;
    for (;;) {
      CUdeviceptr one = 0, two = 0;
      CUarray array = nullptr;
      const CUDA_ARRAY_DESCRIPTOR plane = {1 + random() % 5000, 1 + random() % 5000, 0x20, 1};
      const bool has_one = cuMemAlloc_v2(&one, quota() / 3) == CUDA_SUCCESS,
                 has_array = cuArrayCreate_v2(&array, &plane) == CUDA_SUCCESS,
                 has_two = cuMemAllocAsync(&two, quota() / 3, nullptr) == CUDA_SUCCESS;
      cuGraphCreate(&graph, 0);
      cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
      cuGraphInstantiateWithFlags(&exec, graph, 0);
      if (cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS) cuMemFree_v2(params.dptr);
      cuGraphExecDestroy(exec);
      cuGraphDestroy(graph);
      if (random() % 2 == 0) cuDeviceGraphMemTrim(0);
      if (has_two) cuMemFree_v2(two);
      if (has_array) cuArrayDestroy(array);
      if (has_one) cuMemFree_v2(one);
    }
  }

  int kill_one() {
    const pid_t child = fork();
    if (child == 0) work();
    const auto nap = static_cast<useconds_t>(random_() % 12'000);
    usleep(nap);
    ::kill(child, SIGKILL);
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0) return 1;
    if (info.si_code != CLD_KILLED) {
      std::printf("the worker ended by itself: %d\n", info.si_status);
      return 1;
    }
    // The killed process is still a zombie, but its memory must count as free for the other
    // process.
    add(shared_->asked, 1);
    const std::uint64_t since = now();
    while (get(shared_->answered) < get(shared_->asked)) {
      if (now() - since > 20'000'000'000) {
        std::printf("no answer within 20 s\n");
        return 1;
      }
      usleep(100);
    }
    waitpid(child, nullptr, 0);
    return 0;
  }

  void slowest(std::uint64_t& word, std::uint64_t took) {
    if (took > word) word = took;
  }

  /// The other process of the job: small requests all the time, and the whole quota when asked.
  void watch() {
    begin();
    while (get(shared_->stop) == 0) {
      CUdeviceptr address = 0;
      std::uint64_t since = now();
      const bool got = cuMemAlloc_v2(&address, 512) == CUDA_SUCCESS;
      slowest(shared_->call_slowest, now() - since);
      if (got) cuMemFree_v2(address);
      if (get(shared_->asked) == get(shared_->answered)) continue;
      since = now();
      if (cuMemAlloc_v2(&address, quota()) == CUDA_SUCCESS)
        cuMemFree_v2(address);
      else
        ++shared_->probe_failed;
      slowest(shared_->probe_slowest, now() - since);
      if (guard::sum_of(*usage_, 0).used != 0 || given() != 0) ++shared_->probe_failed;
      add(shared_->answered, 1);
    }
  }

  std::mt19937_64 random_{1};
  sim::CudaShared* truth_ = map<sim::CudaShared>("BERTH_SIM_DIR", "cuda", PROT_READ | PROT_WRITE);
  const guard::Usage* usage_ = map<const guard::Usage>("BERTH_GUARD", "usage", PROT_READ);
  const guard::Limits* limits_ = map<const guard::Limits>("BERTH_GUARD", "limits", PROT_READ);
  Shared* shared_ = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
};

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 2 ? words[1] : "";
  if (what == "pairs" && count > 3) return Test().pairs(std::atoi(words[2]), std::atoi(words[3]));
  if (what == "handles" && count > 3)
    return Test().handles(std::atoi(words[2]), std::atoi(words[3]));
  if (what == "kills") return Test().kills(std::atoi(words[2]));
  return 2;
}
