// Random requests and frees of all kinds of device memory. After each, the guard's sum must equal
// what the simulated driver gave, and never exceed the quota, except what is counted as spilled.
// Usage: random_memory STEPS SEED
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "vendor/cuda/abi.hpp"
#include "wire/guard.hpp"
#include "wire/sim_cuda.hpp"

extern "C" {
CUresult cuInit(unsigned);
CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);
CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuMemAlloc_v2(CUdeviceptr*, std::size_t);
CUresult cuMemAlloc(CUdeviceptr_v1*, unsigned);
CUresult cuMemAllocPitch(CUdeviceptr_v1*, unsigned*, unsigned, unsigned, unsigned);
CUresult cuMemFree(CUdeviceptr_v1);
CUresult cuArrayCreate(CUarray*, const CUDA_ARRAY_DESCRIPTOR_v1*);
CUresult cuArray3DCreate(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR_v1*);
CUresult cuMemGetMemPool(CUmemoryPool*, CUmemLocation*, int);
CUresult cuMemAllocPitch_v2(CUdeviceptr*, std::size_t*, std::size_t, std::size_t, unsigned);
CUresult cuMemAllocManaged(CUdeviceptr*, std::size_t, unsigned);
CUresult cuMemAllocAsync(CUdeviceptr*, std::size_t, CUstream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool*, CUdevice);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemCreate(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                     unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemAddressReserve(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr,
                             unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, std::size_t);
CUresult cuMemMap(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                  unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, std::size_t);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle*, void*);
CUresult cuArrayCreate_v2(CUarray*, const CUDA_ARRAY_DESCRIPTOR*);
CUresult cuArray3DCreate_v2(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*);
CUresult cuArrayDestroy(CUarray);
CUresult cuMipmappedArrayCreate(CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);
CUresult cuGraphCreate(CUgraph*, unsigned);
CUresult cuGraphDestroy(CUgraph);
CUresult cuGraphAddMemAllocNode(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                                CUDA_MEM_ALLOC_NODE_PARAMS*);
CUresult cuGraphAddMemFreeNode(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUdeviceptr);
CUresult cuGraphAddNode(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraphNodeParams*);
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuDeviceGraphMemTrim(CUdevice);
CUresult cuStreamCreate(CUstream*, unsigned);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamBeginCapture_v2(CUstream, int);
CUresult cuStreamEndCapture(CUstream, CUgraph*);
CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle, int, unsigned long long);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*, int);
CUresult cuImportExternalMemory(CUexternalMemory*, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr*, CUexternalMemory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*);
CUresult cuDestroyExternalMemory(CUexternalMemory);
}

namespace {

constexpr std::size_t kPage = 2U << 20U;

template <typename T>
const T* map(const char* variable, const char* name) {
  const char* folder = std::getenv(variable);
  const int file =
      open((std::string(folder == nullptr ? "" : folder) + "/" + name).c_str(), O_RDONLY);
  void* where = mmap(nullptr, sizeof(T), PROT_READ, MAP_SHARED, file, 0);
  if (file < 0 || where == MAP_FAILED) std::exit(9);
  return static_cast<const T*>(where);
}

enum class What { kLinear, kLow, kAsync, kArray, kMipmap, kPhysical, kMapped, kTwoMapped };
struct One {
  What what;
  std::uint64_t handle, address;
  bool of_context;
};
struct Graph {
  CUgraphExec exec;
  std::vector<CUdeviceptr> addresses;  // that stay allocated after a launch
};

class Program {
 public:
  explicit Program(unsigned seed)
      : random_(seed),
        truth_(map<berth::wire::sim::CudaShared>("BERTH_SIM_DIR", "cuda")),
        usage_(map<berth::wire::guard::Usage>("BERTH_GUARD", "usage")),
        limits_(map<berth::wire::guard::Limits>("BERTH_GUARD", "limits")) {
    cuInit(0);
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    if (seed % 2 == 0)
      cuDeviceGetDefaultMemPool(&pool_, 0);
    else
      cuMemGetMemPool(&pool_, &here, 1);
    fresh_context();
  }
  int run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      const std::uint64_t given = berth::wire::sim::cuda_memory_used(*truth_, 0),
                          used = berth::wire::guard::sum_of(*usage_, 0).used,
                          counted = used + berth::wire::guard::spilled_of(*usage_, 0);
      if (given == counted && used <= limits_->device[0].memory_bytes) continue;
      std::printf("step %d, choice %d: the driver gave %llu, the guard counted %llu\n", i, choice_,
                  static_cast<unsigned long long>(given), static_cast<unsigned long long>(counted));
      return 1;
    }
    free_all();
    std::printf("%d refused, %d graphs launched, %d of them refused, %llu bytes left\n", refused_,
                launched_, graphs_refused_,
                static_cast<unsigned long long>(berth::wire::guard::sum_of(*usage_, 0).used +
                                                berth::wire::guard::spilled_of(*usage_, 0) +
                                                berth::wire::sim::cuda_memory_used(*truth_, 0)));
    return 0;
  }

 private:
  std::uint64_t number(std::uint64_t below) { return random_() % below; }

  void fresh_context() {
    primary_ = number(2) == 0;
    if (primary_)
      cuDevicePrimaryCtxRetain(&context_, 0);
    else
      cuCtxCreate_v2(&context_, 0, 0);
    cuCtxSetCurrent(context_);
  }

  void step() {
    const std::uint64_t choice = number(1000);
    if (choice == 0) {
      drop_context();
    } else if (choice < 300 && !held_.empty()) {
      const std::size_t at = number(held_.size());
      const One one = held_[at];
      held_[at] = held_.back();
      held_.pop_back();
      choice_ = 100 + static_cast<int>(one.what);
      drop(one);
    } else {
      take();
    }
  }

  void free_all() {
    for (const One& one : held_) drop(one);
    held_.clear();
    while (!graphs_.empty()) drop_graph(0);
    cuDeviceGraphMemTrim(0);
    if (primary_)
      cuDevicePrimaryCtxReset_v2(0);
    else
      cuCtxDestroy_v2(context_);
  }

  void drop_context() {
    choice_ = 50;
    // Graphs are dropped first, because their memory outlives a context that is not primary.
    while (!graphs_.empty()) drop_graph(0);
    if (primary_)
      cuDevicePrimaryCtxReset_v2(0);
    else
      cuCtxDestroy_v2(context_);
    std::erase_if(held_, [](const One& one) { return one.of_context; });
    fresh_context();
  }

  void drop(const One& one) {
    switch (one.what) {
      case What::kLinear:
        // Both functions free memory from a stream.
        cuMemFree_v2(one.handle);
        return;
      case What::kLow:
        cuMemFree(static_cast<CUdeviceptr_v1>(one.handle));
        return;
      case What::kAsync:
        number(2) == 0 ? cuMemFreeAsync(one.handle, nullptr) : cuMemFree_v2(one.handle);
        return;
      case What::kArray:
        cuArrayDestroy(reinterpret_cast<CUarray>(one.handle));
        return;
      case What::kMipmap:
        cuMipmappedArrayDestroy(reinterpret_cast<CUmipmappedArray>(one.handle));
        return;
      case What::kPhysical:
        cuMemRelease(one.handle);
        return;
      case What::kMapped:
        cuMemUnmap(one.address, kPage);
        cuMemAddressFree(one.address, kPage);
        return;
      case What::kTwoMapped:
        cuMemUnmap(one.address, 2 * kPage);
        cuMemAddressFree(one.address, 2 * kPage);
        return;
    }
  }

  /// Takes a reference: the order of argument evaluation is unspecified, and the call itself sets
  /// the handle.
  template <typename Handle>
  void keep(CUresult result, What what, const Handle& handle, bool of_context) {
    static_assert(sizeof(Handle) == sizeof(std::uint64_t));
    if (result == CUDA_ERROR_OUT_OF_MEMORY) ++refused_;
    if (result != CUDA_SUCCESS) return;
    if constexpr (std::is_pointer_v<Handle>)
      held_.push_back({what, reinterpret_cast<std::uintptr_t>(handle), 0, of_context});
    else
      held_.push_back({what, handle, 0, of_context});
  }

  void take() {
    CUdeviceptr address = 0;
    CUarray array = nullptr;
    CUmipmappedArray mipmap = nullptr;
    std::size_t pitch = 0;
    const std::size_t size = 1 + number(64U << 20U), width = 1 + number(5000),
                      height = 1 + number(999);
    const CUDA_ARRAY3D_DESCRIPTOR cube = {width, number(300), number(5), 0x20, 1U << number(3), 0};
    const CUDA_ARRAY_DESCRIPTOR plane = {width, number(999), 0x10, 2};
    choice_ = static_cast<int>(number(18));
    switch (choice_) {
      case 0:
        return keep(cuMemAlloc_v2(&address, size), What::kLinear, address, true);
      case 1:
        return keep(cuMemAllocPitch_v2(&address, &pitch, width, height, 4), What::kLinear, address,
                    true);
      case 2:
        return keep(cuMemAllocManaged(&address, size, 1), What::kLinear, address, true);
      case 3:
        return keep(cuMemAllocAsync(&address, size, nullptr), What::kAsync, address, true);
      case 4:
        return keep(cuMemAllocFromPoolAsync(&address, size, pool_, nullptr), What::kAsync, address,
                    false);
      case 5:
        return keep(cuArray3DCreate_v2(&array, &cube), What::kArray, array, true);
      case 6:
        return keep(cuArrayCreate_v2(&array, &plane), What::kArray, array, true);
      case 7:
        return keep(cuMipmappedArrayCreate(&mipmap, &cube, 1 + static_cast<unsigned>(number(9))),
                    What::kMipmap, mipmap, true);
      case 8:
        return make_graph();
      case 9:
        return launch_graph();
      case 10:
        return end_graph();
      case 11:
        return import_memory();
      case 12:
      case 13:
        return take_low(choice_ == 13);
      case 14:
        return take_old_array();
      default:
        return take_physical();
    }
  }

  /// By the functions from before CUDA 3.2.
  void take_low(bool pitched) {
    CUdeviceptr_v1 low = 0;
    unsigned pitch = 0;
    const CUresult result =
        pitched ? cuMemAllocPitch(&low, &pitch, static_cast<unsigned>(1 + number(5000)),
                                  static_cast<unsigned>(1 + number(999)), 4)
                : cuMemAlloc(&low, static_cast<unsigned>(1 + number(8U << 20U)));
    const CUdeviceptr address = low;
    keep(result, What::kLow, address, true);
  }
  /// The same for arrays; a sparse one takes no memory.
  void take_old_array() {
    CUarray array = nullptr;
    const auto width = static_cast<unsigned>(1 + number(5000));
    const CUDA_ARRAY_DESCRIPTOR_v1 plane = {width, static_cast<unsigned>(number(999)), 0xc5, 4};
    const CUDA_ARRAY3D_DESCRIPTOR_v1 cube = {width, 99, static_cast<unsigned>(number(5)),
                                             0x20,  2,  number(2) == 0 ? CUDA_ARRAY3D_SPARSE : 0};
    const CUresult result =
        number(2) == 0 ? cuArrayCreate(&array, &plane) : cuArray3DCreate(&array, &cube);
    keep(result, What::kArray, array, true);
  }

  /// A graph with one or two allocations, made in one of three ways. The graph may free one of them
  /// itself.
  void make_graph() {
    if (graphs_.size() > 20) return;
    Graph made = {};
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    const std::uint64_t way = number(3);
    CUstream stream = nullptr;
    if (way == 2) {
      cuStreamCreate(&stream, 1);
      cuStreamBeginCapture_v2(stream, 0);
    } else {
      cuGraphCreate(&graph, 0);
    }
    for (std::uint64_t i = 0; i <= number(2); ++i) {
      CUDA_MEM_ALLOC_NODE_PARAMS params = {};
      params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
      params.bytesize = 1 + number(64U << 20U);
      if (way == 0) {
        cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
      } else if (way == 1) {
        CUgraphNodeParams any = {};
        any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        any.alloc = params;
        cuGraphAddNode(&node, graph, nullptr, 0, &any);
        params = any.alloc;
      } else {
        cuMemAllocAsync(&params.dptr, params.bytesize, stream);
      }
      if (number(3) > 0)
        made.addresses.push_back(params.dptr);
      else if (way == 2)
        cuMemFreeAsync(params.dptr, stream);
      else
        cuGraphAddMemFreeNode(&node, graph, nullptr, 0, params.dptr);
    }
    if (way == 2) {
      cuStreamEndCapture(stream, &graph);
      cuStreamDestroy_v2(stream);
    }
    cuGraphInstantiateWithFlags(&made.exec, graph, number(2));
    cuGraphDestroy(graph);
    graphs_.push_back(made);
  }

  void launch_graph() {
    if (graphs_.empty()) return;
    ++launched_;
    if (cuGraphLaunch(graphs_[number(graphs_.size())].exec, nullptr) == CUDA_ERROR_OUT_OF_MEMORY)
      ++graphs_refused_;
  }

  void free_memory_of(const Graph& graph) {
    for (const CUdeviceptr address : graph.addresses)
      number(2) == 0 ? cuMemFree_v2(address) : cuMemFreeAsync(address, nullptr);
  }
  void drop_graph(std::size_t at) {
    free_memory_of(graphs_[at]);
    cuGraphExecDestroy(graphs_[at].exec);
    graphs_[at] = graphs_.back();
    graphs_.pop_back();
  }
  void end_graph() {
    if (number(3) == 0) cuDeviceGraphMemTrim(0);
    if (graphs_.empty()) return;
    const std::size_t at = number(graphs_.size());
    if (number(2) == 0)
      free_memory_of(graphs_[at]);
    else
      drop_graph(at);
  }

  /// Imports a buffer of another API, and physical memory through a file. Both are charged to the
  /// process that created them.
  void import_memory() {
    if (number(2) == 0) {
      CUexternalMemory memory = nullptr;
      CUdeviceptr address = 0;
      CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = {};
      from.type = 1;
      from.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
      from.size = 64U << 20U;
      if (cuImportExternalMemory(&memory, &from) != CUDA_SUCCESS) return;
      CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {};
      part.size = 1 + number(from.size);
      keep(cuExternalMemoryGetMappedBuffer(&address, memory, &part), What::kLinear, address, true);
      cuDestroyExternalMemory(memory);
      return;
    }
    for (const One& one : held_) {
      if (one.what != What::kPhysical) continue;
      int file = -1;
      CUmemGenericAllocationHandle handle = 0;
      if (cuMemExportToShareableHandle(&file, one.handle, 1, 0) != CUDA_SUCCESS) return;
      const CUresult result = cuMemImportFromShareableHandle(
          &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)), 1);
      close(file);
      return keep(result, What::kPhysical, handle, false);
    }
  }

  /// Physical memory whose handle is released while it is mapped. It lives until the mapping is
  /// removed.
  void take_physical() {
    CUmemAllocationProp prop = {};
    prop.type = 1;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr address = 0;
    const CUresult made = cuMemCreate(&handle, kPage * (1 + number(8)), &prop, 0);
    keep(made, What::kPhysical, handle, false);
    if (made != CUDA_SUCCESS || number(2) == 0) return;
    if (number(3) == 0) return map_twice(handle);
    if (cuMemAddressReserve(&address, kPage, 0, 0, 0) != CUDA_SUCCESS) return;
    if (cuMemMap(address, kPage, 0, handle, 0) != CUDA_SUCCESS) return;
    held_.push_back({What::kMapped, handle, address, false});
    if (number(2) == 0 &&
        cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)) == CUDA_SUCCESS)
      held_.push_back({What::kPhysical, again, 0, false});
  }

  /// Two adjacent mappings that one call removes.
  void map_twice(CUmemGenericAllocationHandle handle) {
    CUdeviceptr address = 0;
    if (cuMemAddressReserve(&address, 2 * kPage, 0, 0, 0) != CUDA_SUCCESS) return;
    if (cuMemMap(address, kPage, 0, handle, 0) == CUDA_SUCCESS &&
        cuMemMap(address + kPage, kPage, 0, handle, 0) == CUDA_SUCCESS)
      held_.push_back({What::kTwoMapped, handle, address, false});
  }

  std::mt19937_64 random_;
  const berth::wire::sim::CudaShared* truth_;
  const berth::wire::guard::Usage* usage_;
  const berth::wire::guard::Limits* limits_;
  CUmemoryPool pool_ = nullptr;
  CUcontext context_ = nullptr;
  bool primary_ = false;
  int refused_ = 0, launched_ = 0, graphs_refused_ = 0, choice_ = 0;
  std::vector<One> held_;
  std::vector<Graph> graphs_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  return Program(static_cast<unsigned>(std::atoi(words[2]))).run(std::atoi(words[1]));
}
