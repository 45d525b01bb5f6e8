// Random requests and frees of all kinds of device memory. After each, the guard's sum must equal
// what the simulated driver gave, and never exceed the quota.
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

enum class What { kLinear, kAsync, kArray, kMipmap, kPhysical, kMapped };
struct One {
  What what;
  std::uint64_t handle, address;
  bool of_context;
};

class Program {
 public:
  explicit Program(unsigned seed)
      : random_(seed),
        truth_(map<berth::wire::sim::CudaShared>("BERTH_SIM_DIR", "cuda")),
        usage_(map<berth::wire::guard::Usage>("BERTH_GUARD", "usage")),
        limits_(map<berth::wire::guard::Limits>("BERTH_GUARD", "limits")) {
    cuInit(0);
    cuDeviceGetDefaultMemPool(&pool_, 0);
    fresh_context();
  }
  int run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      const std::uint64_t given = berth::wire::sim::cuda_memory_used(*truth_, 0),
                          counted = berth::wire::guard::sum_of(*usage_, 0).used;
      if (given == counted && given <= limits_->device[0].memory_bytes) continue;
      std::printf("step %d: the driver gave %llu, the guard counted %llu\n", i,
                  static_cast<unsigned long long>(given), static_cast<unsigned long long>(counted));
      return 1;
    }
    std::printf("%d refused\n", refused_);
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
    } else if (choice < 480 && !held_.empty()) {
      const std::size_t at = number(held_.size());
      const One one = held_[at];
      held_[at] = held_.back();
      held_.pop_back();
      drop(one);
    } else {
      take();
    }
  }

  void drop_context() {
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
    }
  }

  /// By reference: the order of argument evaluation is unspecified, and the handle exists only
  /// after the call.
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
    switch (number(9)) {
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
      default:
        return take_physical();
    }
  }

  /// A handle that is released while mapped lives until the mapping is removed.
  void take_physical() {
    CUmemAllocationProp prop = {};
    prop.type = 1;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr address = 0;
    const CUresult made = cuMemCreate(&handle, kPage * (1 + number(8)), &prop, 0);
    keep(made, What::kPhysical, handle, false);
    if (made != CUDA_SUCCESS || number(2) == 0) return;
    if (cuMemAddressReserve(&address, kPage, 0, 0, 0) != CUDA_SUCCESS) return;
    if (cuMemMap(address, kPage, 0, handle, 0) != CUDA_SUCCESS) return;
    held_.push_back({What::kMapped, handle, address, false});
    if (number(2) == 0 &&
        cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)) == CUDA_SUCCESS)
      held_.push_back({What::kPhysical, again, 0, false});
  }

  std::mt19937_64 random_;
  const berth::wire::sim::CudaShared* truth_;
  const berth::wire::guard::Usage* usage_;
  const berth::wire::guard::Limits* limits_;
  CUmemoryPool pool_ = nullptr;
  CUcontext context_ = nullptr;
  bool primary_ = false;
  int refused_ = 0;
  std::vector<One> held_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  return Program(static_cast<unsigned>(std::atoi(words[2]))).run(std::atoi(words[1]));
}
