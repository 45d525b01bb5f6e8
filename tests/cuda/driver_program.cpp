// A program for the CUDA driver API that includes NVIDIA's own cuda.h, so that cuMemAlloc means
// cuMemAlloc_v2, and so on. For each way to get device memory it takes SIZE bytes, which is all
// that its job may have, and then one byte more. Prints "way|result|free bytes|result of one
// more|free bytes". Usage: driver_program SIZE KERNELS.cubin, driver_program import HANDLE
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#define CHECK(call)                                            \
  do {                                                         \
    if (const CUresult result_ = call; result_ != 0) {         \
      std::printf("%s: CUDA error %d\n", #call, int(result_)); \
      std::exit(1);                                            \
    }                                                          \
  } while (false)

namespace {

CUdeviceptr address;
CUdevice device;

size_t left() {
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo(&free, &total));
  return free;
}

/// One of the driver's functions, found as libraries do.
template <class Function>
Function found(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(cuGetProcAddress(name, &function, version, flags, &status));
  return reinterpret_cast<Function>(function);
}

CUmemLocation here() {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

CUmemPoolProps pool_properties() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = here();
  return properties;
}

CUmemAllocationProp allocation_properties() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = here();
  return properties;
}

CUmemGenericAllocationHandle handle;
CUdeviceptr range;

/// Whole pages, as cuMemCreate wants them.
CUresult create(size_t bytes) {
  const CUmemAllocationProp properties = allocation_properties();
  size_t page = 0;
  CHECK(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return cuMemCreate(&handle, (bytes + page - 1) / page * page, &properties, 0);
}

/// Reserves addresses, maps memory there, and gives up the handle: the mapping keeps the memory.
CUresult map(size_t bytes) {
  if (const CUresult result = create(bytes); result != CUDA_SUCCESS) return result;
  CUmemAccessDesc access{};
  access.location = here();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
  CHECK(cuMemMap(range, bytes, 0, handle, 0));
  CHECK(cuMemSetAccess(range, bytes, &access, 1));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(range)));
  return cuMemRelease(handle);
}
void unmap(size_t bytes) {
  CHECK(cuMemUnmap(range, bytes));
  CHECK(cuMemAddressFree(range, bytes));
}

CUmemoryPool pool;
CUarray array;
CUmipmappedArray mipmap;

CUresult from_own_pool(size_t bytes) {
  const CUmemPoolProps properties = pool_properties();
  if (pool == nullptr) CHECK(cuMemPoolCreate(&pool, &properties));
  return cuMemAllocFromPoolAsync(&address, bytes, pool, nullptr);
}
CUresult from_default_pool(size_t bytes) {
  CUmemoryPool its = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&its, device));
  return cuMemAllocFromPoolAsync(&address, bytes, its, CU_STREAM_PER_THREAD);
}

CUresult plane(size_t bytes) {
  CUDA_ARRAY_DESCRIPTOR description{};
  description.Width = bytes;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  description.NumChannels = 1;
  return cuArrayCreate(&array, &description);
}
CUDA_ARRAY3D_DESCRIPTOR cube(size_t bytes) {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  description.Width = bytes;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  description.NumChannels = 1;
  return description;
}

/// The graph is launched once. Its memory stays until it is freed and the device's graphs are
/// trimmed.
CUresult launch(CUgraph graph) {
  CUgraphExec executable = nullptr;
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  const CUresult result = cuGraphLaunch(executable, nullptr);
  CHECK(cuGraphExecDestroy(executable));
  CHECK(cuGraphDestroy(graph));
  return result;
}
CUresult graph_by_node(size_t bytes) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps = pool_properties();
  parameters.bytesize = bytes;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  address = parameters.dptr;
  return launch(graph);
}
CUresult graph_by_any_node(size_t bytes) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  parameters.alloc.poolProps = pool_properties();
  parameters.alloc.bytesize = bytes;
  CHECK(cuGraphCreate(&graph, 0));
#if CUDA_VERSION >= 13000
  CHECK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
#else
  CHECK(cuGraphAddNode(&node, graph, nullptr, 0, &parameters));
#endif
  address = parameters.alloc.dptr;
  return launch(graph);
}
CUresult graph_by_capture(size_t bytes) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemAllocAsync(&address, bytes, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuStreamDestroy(stream));
  return launch(graph);
}

void free_now() {
  CHECK(cuMemFree(address));
}
void free_in_order() {
  CHECK(cuMemFreeAsync(address, nullptr));
}
void free_of_graph() {
  CHECK(cuMemFree(address));
  CHECK(cuDeviceGraphMemTrim(device));
}

using Take = std::function<CUresult(size_t)>;
using Free = std::function<void()>;

void over(const std::string& way, size_t size, const Take& take, const Free& free) {
  const CUresult fits = take(size);
  const size_t then = left();
  if (fits == CUDA_SUCCESS) free();
  const CUresult more = take(size + 1);
  if (more == CUDA_SUCCESS) free();
  std::printf("%s|%d|%zu|%d|%zu\n", way.c_str(), int(fits), then, int(more), left());
}

void every_function(size_t size) {
  size_t pitch = 0;
  over(
      "cuMemAlloc", size, [](size_t n) { return cuMemAlloc(&address, n); }, free_now);
  over(
      "cuMemAllocManaged", size,
      [](size_t n) { return cuMemAllocManaged(&address, n, CU_MEM_ATTACH_GLOBAL); }, free_now);
  over(
      "cuMemAllocPitch", size,
      [&](size_t n) { return cuMemAllocPitch(&address, &pitch, 512, (n + 511) / 512, 4); },
      free_now);
  over(
      "cuMemAllocAsync", size, [](size_t n) { return cuMemAllocAsync(&address, n, nullptr); },
      free_in_order);
  over("cuMemAllocFromPoolAsync, own pool", size, from_own_pool, free_now);
  over("cuMemAllocFromPoolAsync, default pool", size, from_default_pool, free_in_order);
  CHECK(cuMemPoolDestroy(pool));
  over("cuMemCreate", size, create, [] { CHECK(cuMemRelease(handle)); });
  over("cuMemMap", size, map, [=] { unmap(size); });
  over("cuArrayCreate", size, plane, [] { CHECK(cuArrayDestroy(array)); });
  const auto solid = [](size_t n) {
    const CUDA_ARRAY3D_DESCRIPTOR description = cube(n);
    return cuArray3DCreate(&array, &description);
  };
  over("cuArray3DCreate", size, solid, [] { CHECK(cuArrayDestroy(array)); });
  const auto levels = [](size_t n) {
    const CUDA_ARRAY3D_DESCRIPTOR description = cube(n);
    return cuMipmappedArrayCreate(&mipmap, &description, 1);
  };
  over("cuMipmappedArrayCreate", size, levels, [] { CHECK(cuMipmappedArrayDestroy(mipmap)); });
  over("cuGraphAddMemAllocNode", size, graph_by_node, free_of_graph);
  over("cuGraphAddNode", size, graph_by_any_node, free_of_graph);
  over("captured cuMemAllocAsync", size, graph_by_capture, free_of_graph);
}

/// The versions of cuMemAlloc and others that cuGetProcAddress gives, and that dlsym gives.
void every_version(size_t size) {
  for (const int version : {3020, 11040, 12000, 12090, CUDA_VERSION}) {
    const auto take = found<PFN_cuMemAlloc_v3020>("cuMemAlloc", version);
    const auto give = found<PFN_cuMemFree_v3020>("cuMemFree", version);
    over(
        "cuGetProcAddress " + std::to_string(version), size,
        [=](size_t n) { return take(&address, n); }, [=] { CHECK(give(address)); });
  }
  for (const cuuint64_t flags : {CU_GET_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}) {
    const auto take = found<PFN_cuMemAllocAsync_v11020>("cuMemAllocAsync", CUDA_VERSION, flags);
    const auto give = found<PFN_cuMemFreeAsync_v11020>("cuMemFreeAsync", CUDA_VERSION, flags);
    over(
        "cuGetProcAddress flags " + std::to_string(flags), size,
        [=](size_t n) { return take(&address, n, nullptr); },
        [=] { CHECK(give(address, nullptr)); });
  }
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto older =
      reinterpret_cast<PFN_cuGetProcAddress_v11030>(dlsym(library, "cuGetProcAddress"));
  void* function = nullptr;
  CHECK(older("cuMemAlloc", &function, 11030, 0));
  over(
      "cuGetProcAddress of CUDA 11", size,
      [=](size_t n) { return reinterpret_cast<PFN_cuMemAlloc_v3020>(function)(&address, n); },
      free_now);
  const auto named = reinterpret_cast<PFN_cuMemAlloc_v3020>(dlsym(library, "cuMemAlloc_v2"));
  over(
      "dlsym", size, [=](size_t n) { return named(&address, n); }, free_now);
}

/// Launches the kernels of a file that NVIDIA's assembler wrote.
void kernels(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> image{std::istreambuf_iterator<char>(file), {}};
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CHECK(cuModuleLoadData(&module, image.data()));
  CHECK(cuModuleGetFunction(&function, module, "step_100us"));
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
  CHECK(cuLaunchCooperativeKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr));
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY =
      config.blockDimZ = 1;
  CHECK(cuLaunchKernelEx(&config, function, nullptr, nullptr));
  CHECK(cuCtxSynchronize());
  std::printf("kernels|3\n");
}

/// Memory that another process imports is charged once: to this one.
void shared(size_t size, const char* self) {
  CUipcMemHandle ticket{};
  CHECK(cuMemAlloc(&address, size / 2));
  CHECK(cuIpcGetMemHandle(&ticket, address));
  std::string command = std::string(self) + " import ";
  char pair[3];
  for (const char byte : ticket.reserved) {
    std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned char>(byte));
    command += pair;
  }
  std::fflush(stdout);
  if (std::system(command.c_str()) != 0) std::exit(1);
  std::printf("exporter|%zu\n", left());
  CHECK(cuMemFree(address));
  CHECK(create(size / 2));
  int descriptor = -1;
  CHECK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                     0));
  CUmemGenericAllocationHandle second = 0;
  CHECK(cuMemImportFromShareableHandle(&second, reinterpret_cast<void*>(std::uintptr_t(descriptor)),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  std::printf("exported handle|%zu\n", left());
  CHECK(cuMemRelease(second));
  CHECK(cuMemRelease(handle));
  close(descriptor);
  std::printf("nothing held|%zu\n", left());
}

void import(const char* hexadecimal) {
  CUipcMemHandle ticket{};
  for (size_t i = 0; i < sizeof ticket; ++i)
    ticket.reserved[i] =
        static_cast<char>(std::stoi(std::string(hexadecimal + 2 * i, 2), nullptr, 16));
  CHECK(cuIpcOpenMemHandle(&address, ticket, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  std::printf("importer|%zu\n", left());
  CHECK(cuIpcCloseMemHandle(address));
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  CUcontext context = nullptr;
  size_t total = 0;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  if (std::strcmp(words[1], "import") == 0) {
    import(words[2]);
    return 0;
  }
  const size_t size = std::stoull(words[1]);
  CHECK(cuDeviceTotalMem(&total, device));
  std::printf("total|%zu\n", total);
  every_function(size);
  every_version(size);
  kernels(words[2]);
  shared(size, words[0]);
  return 0;
}
