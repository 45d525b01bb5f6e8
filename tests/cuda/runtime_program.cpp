// A program for the CUDA runtime API. NVIDIA's compiler also gives it a kernel. It prints what each
// call returns.
#include <cuda_runtime_api.h>

#include <cstdio>

#ifdef __CUDACC__
__global__ void add_one(int* value) {
  *value += 1;
}
#endif

namespace {

void print(const char* call, cudaError_t result) {
  std::printf("%s %s\n", call, cudaGetErrorName(result));
}

}  // namespace

int main() {
  int version = 0, runtime = 0, count = 0;
  void *memory = nullptr, *function = nullptr;
  size_t free = 0, total = 0;
  cudaDriverEntryPointQueryResult found{};
  print("cudaDriverGetVersion", cudaDriverGetVersion(&version));
  print("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&runtime));
  std::printf("%d %d\n", version, runtime);
  print("cudaGetDeviceCount", cudaGetDeviceCount(&count));
  print("cudaMalloc", cudaMalloc(&memory, 1 << 20));
  print("cudaMemGetInfo", cudaMemGetInfo(&free, &total));
  print(
      "cudaGetDriverEntryPointByVersion",
      cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &found));
#ifdef __CUDACC__
  add_one<<<1, 1>>>(static_cast<int*>(memory));
  print("add_one", cudaGetLastError());
#endif
  return 0;
}
