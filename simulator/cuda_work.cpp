// Work of the simulated CUDA driver: streams, events, modules and kernels. If a kernel's name ends
// with a duration ("step_2ms", "k_500us"), the kernel takes that long. Other kernels take 10 µs.
// The work of one process on a device runs in order.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "simulator/cuda_core.hpp"
#include "wire/address_table.hpp"

using namespace berth::simulator;

struct CUfunc_st {
  std::uint64_t nanoseconds;
  char name[256];
};
struct CUmod_st {
  CUfunc_st* functions[64];
  int count;
};
struct CUevent_st {
  CUdevice device;
  // position in the queue's ring of marks; time at which the work was done, or 0: not known yet
  std::uint64_t mark, when;
  bool recorded;
};

namespace {

constexpr std::uint64_t kOtherKernels = 10'000, kMicrosecond = 1000, kMillisecond = 1'000'000;

constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
/// The event that uses each cell for a timestamp. Before another event takes a cell, the timestamp
/// is copied into the old event.
constinit CUevent g_owners[wire::kCudaDevices][wire::kCudaMarks] = {};

struct Locked {
  Locked() { pthread_mutex_lock(&g_lock); }
  ~Locked() { pthread_mutex_unlock(&g_lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

wire::CudaQueue& queue_of(CUdevice device) {
  return self().queue[number_of(device)];
}

/// The time at which the event's work was done, or 0 if it is not done yet. g_lock and the lock of
/// the shared memory must be held.
std::uint64_t when_done(CUevent_st& event) {
  if (event.when != 0) return event.when;
  const wire::CudaQueue& queue = queue_of(event.device);
  if (event.mark >= queue.marks_known) return 0;
  event.when = queue.marks[event.mark % wire::kCudaMarks].when;
  return event.when;
}

void nap(std::uint64_t nanoseconds) {
  timespec t = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                static_cast<long>(nanoseconds % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

/// Waits until left() returns 0. left() returns how many nanoseconds of this process's work must
/// still be done before. The lock of the shared memory is held during the call.
template <typename Left>
void wait_until(CUdevice device, Left left) {
  const std::uint32_t number = number_of(device);
  for (;;) {
    std::uint64_t work = 0, least = 0;
    {
      const wire::CudaLock lock(shared());
      const std::uint64_t now = clock_now();
      wire::work_until(shared(), number, now);
      work = left();
      if (work == 0) return;
      if (wire::working(shared(), number, least) > 1) wire::bury_now_and_then(shared(), now);
    }
    nap(work < 50 * kMicrosecond  ? 20 * kMicrosecond
        : work < 5 * kMillisecond ? work
                                  : 5 * kMillisecond);
  }
}

std::uint64_t duration_in(const char* name) {
  const char* end = strrchr(name, '_');
  if (end == nullptr || end[1] < '0' || end[1] > '9') return kOtherKernels;
  const std::uint64_t number = berth::wire::detail::number_at(++end);
  while (*end >= '0' && *end <= '9') ++end;
  if (strcmp(end, "ns") == 0) return number;
  if (strcmp(end, "us") == 0) return number * kMicrosecond;
  return strcmp(end, "ms") == 0 ? number * kMillisecond : kOtherKernels;
}

/// Loads a module, which also represents a library. A library needs no context, and its kernels are
/// the module's functions.
CUresult load(CUmodule* out, const void* image) {
  NEED_DRIVER();
  NEED(out != nullptr && image != nullptr);
  *out = static_cast<CUmodule>(calloc(1, sizeof(CUmod_st)));
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUmodule module_of(CUlibrary library) {
  return reinterpret_cast<CUmodule>(library);
}
CUfunction function_of(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

CUresult unload(CUmodule module) {
  NEED_DRIVER();
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < module->count; ++i) free(module->functions[i]);
  free(module);
  return CUDA_SUCCESS;
}

/// Finds or creates the function with this name. Images are not read, so every name exists.
CUresult find_function(CUfunction* out, CUmodule module, const char* name) {
  NEED_DRIVER();
  NEED(out != nullptr && name != nullptr);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Locked lock;
  for (int i = 0; i < module->count; ++i) {
    *out = module->functions[i];
    if (strncmp((*out)->name, name, sizeof((*out)->name) - 1) == 0) return CUDA_SUCCESS;
  }
  if (module->count == 64) return CUDA_ERROR_NOT_FOUND;
  auto* made = static_cast<CUfunction>(calloc(1, sizeof(CUfunc_st)));
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  made->nanoseconds = duration_in(name);
  strncpy(made->name, name, sizeof(made->name) - 1);
  module->functions[module->count++] = made;
  *out = made;
  return CUDA_SUCCESS;
}

CUresult attribute_of(int* value, int attribute, CUfunction function) {
  NEED_DRIVER();
  NEED(value != nullptr);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

/// A default stream has this thread's current context, no flags, and priority 0.
CUstream_st properties_of(CUstream stream) {
  return is_stream(stream) ? *stream : CUstream_st{current_context(), 0, nullptr, 0};
}

template <typename T>
CUresult read_stream(T* out, T value) {
  NEED_CONTEXT();
  NEED(out != nullptr);
  *out = value;
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction function, CUstream stream) {
  NEED_CONTEXT();
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return send(stream, function->nanoseconds);
}

}  // namespace

namespace berth::simulator {

CUresult submit(CUdevice device, std::uint64_t nanoseconds, bool is_kernel) {
  const std::uint32_t number = number_of(device);
  const wire::CudaLock lock(shared());
  wire::work_until(shared(), number, clock_now());
  queue_of(device).submitted += nanoseconds;
  if (is_kernel) queue_of(device).kernels += nanoseconds;
  return CUDA_SUCCESS;
}

CUresult send(CUstream stream, std::uint64_t nanoseconds) {
  if (!is_stream(stream) || stream->capturing == nullptr)
    return submit(current_context()->device, nanoseconds, true);
  capture(stream->capturing, nanoseconds);
  return CUDA_SUCCESS;
}

std::uint64_t duration_of(CUfunction function) {
  return function->nanoseconds;
}

void wait_for_all(CUdevice device) {
  wait_until(device, [device] { return queue_of(device).submitted - queue_of(device).done; });
}

bool all_done(CUdevice device) {
  const wire::CudaLock lock(shared());
  wire::work_until(shared(), number_of(device), clock_now());
  return queue_of(device).submitted == queue_of(device).done;
}

}  // namespace berth::simulator

CUDA(cuStreamCreateWithPriority)(CUstream* stream, unsigned flags, int priority) {
  NEED_CONTEXT();
  NEED(stream != nullptr);
  auto* made = static_cast<CUstream>(calloc(1, sizeof(CUstream_st)));
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *made = {current_context(), flags, nullptr, priority};
  *stream = made;
  return CUDA_SUCCESS;
}
CUDA(cuStreamCreate)(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}
/// Priorities are stored, but have no effect.
CUDA(cuCtxGetStreamPriorityRange)(int* least, int* greatest) {
  NEED_CONTEXT();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}
CUDA(cuStreamGetPriority)(CUstream stream, int* priority) {
  return read_stream(priority, properties_of(stream).priority);
}
CUDA_ALIAS(cuStreamGetPriority_ptsz, cuStreamGetPriority);
CUDA(cuStreamGetFlags)(CUstream stream, unsigned* flags) {
  return read_stream(flags, properties_of(stream).flags);
}
CUDA_ALIAS(cuStreamGetFlags_ptsz, cuStreamGetFlags);
CUDA(cuStreamGetCtx)(CUstream stream, CUcontext* context) {
  return read_stream(context, properties_of(stream).context);
}
CUDA_ALIAS(cuStreamGetCtx_ptsz, cuStreamGetCtx);
CUDA(cuStreamGetDevice)(CUstream stream, CUdevice* device) {
  NEED_CONTEXT();
  return read_stream(device, properties_of(stream).context->device);
}
CUDA_ALIAS(cuStreamGetDevice_ptsz, cuStreamGetDevice);
CUDA(cuStreamDestroy_v2)(CUstream stream) {
  NEED_CONTEXT();
  if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  free(stream);
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuStreamDestroy, cuStreamDestroy_v2);
CUDA(cuStreamSynchronize)(CUstream) {
  NEED_CONTEXT();
  wait_for_all(current_context()->device);
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuStreamSynchronize_ptsz, cuStreamSynchronize);
CUDA(cuStreamQuery)(CUstream) {
  NEED_CONTEXT();
  return all_done(current_context()->device) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUDA_ALIAS(cuStreamQuery_ptsz, cuStreamQuery);
CUDA(cuStreamWaitEvent)(CUstream, CUevent event, unsigned) {
  NEED_CONTEXT();
  return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUDA_ALIAS(cuStreamWaitEvent_ptsz, cuStreamWaitEvent);
CUDA(cuStreamIsCapturing)(CUstream stream, int* status) {
  NEED_CONTEXT();
  NEED(status != nullptr);
  *status = is_stream(stream) && stream->capturing != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuStreamIsCapturing_ptsz, cuStreamIsCapturing);

CUDA(cuEventCreate)(CUevent* event, unsigned) {
  NEED_CONTEXT();
  NEED(event != nullptr);
  *event = static_cast<CUevent>(calloc(1, sizeof(CUevent_st)));
  return *event == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUDA(cuEventDestroy_v2)(CUevent event) {
  NEED_CONTEXT();
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Locked lock;
  for (auto& owners : g_owners)
    for (CUevent& owner : owners)
      if (owner == event) owner = nullptr;
  free(event);
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuEventDestroy, cuEventDestroy_v2);
CUDA(cuEventRecord)(CUevent event, CUstream) {
  NEED_CONTEXT();
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUdevice device = current_context()->device;
  for (;;) {
    {
      const Locked mine;
      const wire::CudaLock lock(shared());
      const std::uint64_t now = clock_now();
      wire::work_until(shared(), number_of(device), now);
      wire::CudaQueue& queue = queue_of(device);
      CUevent& owner = g_owners[device][queue.marks_made % wire::kCudaMarks];
      if (owner != nullptr && owner != event) static_cast<void>(when_done(*owner));
      std::uint64_t mark = 0;
      if (wire::make_mark(queue, now, mark)) {
        owner = event;
        *event = {device, mark, 0, true};
        return CUDA_SUCCESS;
      }
    }
    nap(100 * kMicrosecond);  // too many events are pending; a real driver also blocks when its
                              // queue is full
  }
}
CUDA_ALIAS(cuEventRecord_ptsz, cuEventRecord);
CUDA(cuEventRecordWithFlags)(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}
CUDA_ALIAS(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags);
CUDA(cuEventQuery)(CUevent event) {
  NEED_DRIVER();
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!event->recorded) return CUDA_SUCCESS;
  const Locked mine;
  const wire::CudaLock lock(shared());
  wire::work_until(shared(), number_of(event->device), clock_now());
  return when_done(*event) != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUDA(cuEventSynchronize)(CUevent event) {
  NEED_DRIVER();
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!event->recorded) return CUDA_SUCCESS;
  wait_until(event->device, [event]() -> std::uint64_t {
    if (when_done(*event) != 0) return 0;
    const wire::CudaQueue& queue = queue_of(event->device);
    const std::uint64_t at = queue.marks[event->mark % wire::kCudaMarks].at;
    return at > queue.done ? at - queue.done : 1;
  });
  return CUDA_SUCCESS;
}
CUDA(cuEventElapsedTime)(float* milliseconds, CUevent from, CUevent to) {
  NEED_DRIVER();
  NEED(milliseconds != nullptr);
  if (from == nullptr || to == nullptr || !from->recorded || !to->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  const Locked mine;
  const wire::CudaLock lock(shared());
  wire::work_until(shared(), number_of(to->device), clock_now());
  const std::uint64_t begin = when_done(*from), end = when_done(*to);
  if (begin == 0 || end == 0) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(end) - static_cast<double>(begin)) / 1e6F;
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuEventElapsedTime_v2, cuEventElapsedTime);

CUDA(cuModuleLoadData)(CUmodule* module, const void* image) {
  NEED_CONTEXT();
  return load(module, image);
}
CUDA(cuModuleLoadDataEx)(CUmodule* module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}
CUDA(cuModuleUnload)(CUmodule module) {
  NEED_CONTEXT();
  return unload(module);
}
CUDA(cuModuleGetFunction)(CUfunction* function, CUmodule module, const char* name) {
  NEED_CONTEXT();
  return find_function(function, module, name);
}
CUDA(cuFuncGetAttribute)(int* value, int attribute, CUfunction function) {
  return attribute_of(value, attribute, function);
}
CUDA(cuFuncSetAttribute)(CUfunction function, int, int) {
  NEED_CONTEXT();
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUDA(cuFuncSetCacheConfig)(CUfunction function, int) {
  return cuFuncSetAttribute(function, 0, 0);
}
CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor)
(int* blocks, CUfunction function, int threads, std::size_t) {
  NEED_CONTEXT();
  NEED(blocks != nullptr && threads > 0);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = threads > 1024 ? 0 : 1536 / threads > 32 ? 32 : 1536 / threads;
  return CUDA_SUCCESS;
}
CUDA(cuLibraryLoadData)
(CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  return load(reinterpret_cast<CUmodule*>(library), image);
}
CUDA(cuLibraryUnload)(CUlibrary library) {
  return unload(module_of(library));
}
CUDA(cuLibraryGetModule)(CUmodule* module, CUlibrary library) {
  NEED_CONTEXT();
  NEED(module != nullptr);
  *module = module_of(library);
  return library == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUDA(cuLibraryGetKernel)(CUkernel* kernel, CUlibrary library, const char* name) {
  return find_function(reinterpret_cast<CUfunction*>(kernel), module_of(library), name);
}
CUDA(cuKernelGetFunction)(CUfunction* function, CUkernel kernel) {
  NEED_CONTEXT();
  NEED(function != nullptr);
  *function = function_of(kernel);
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUDA(cuKernelGetAttribute)(int* value, int attribute, CUkernel kernel, CUdevice) {
  return attribute_of(value, attribute, function_of(kernel));
}
CUDA(cuKernelSetAttribute)(int, int, CUkernel kernel, CUdevice) {
  NEED_DRIVER();
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUDA(cuLaunchKernel)
(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
 unsigned, CUstream stream, void**, void**) {
  NEED(x > 0 && y > 0 && z > 0 && bx > 0 && by > 0 && bz > 0);
  return launch(function, stream);
}
CUDA_ALIAS(cuLaunchKernel_ptsz, cuLaunchKernel);
CUDA(cuLaunch)(CUfunction function) {
  return launch(function, nullptr);
}
CUDA(cuLaunchGrid)(CUfunction function, int x, int y) {
  NEED(x > 0 && y > 0);
  return launch(function, nullptr);
}
CUDA(cuLaunchGridAsync)(CUfunction function, int x, int y, CUstream stream) {
  NEED(x > 0 && y > 0);
  return launch(function, stream);
}
CUDA(cuLaunchKernelEx)(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  NEED(config != nullptr);
  return launch(function, config->hStream);
}
CUDA_ALIAS(cuLaunchKernelEx_ptsz, cuLaunchKernelEx);
CUDA(cuLaunchCooperativeKernel)
(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
 CUstream stream, void**) {
  return launch(function, stream);
}
CUDA_ALIAS(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel);
CUDA(cuLaunchHostFunc)(CUstream, void (*function)(void*), void* data) {
  NEED_CONTEXT();
  NEED(function != nullptr);
  wait_for_all(current_context()->device);
  function(data);
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuLaunchHostFunc_ptsz, cuLaunchHostFunc);
/// The last parameter selects how to wait, which makes no difference in the simulator.
CUDA(cuLaunchHostFunc_v2)(CUstream stream, void (*function)(void*), void* data, unsigned) {
  return cuLaunchHostFunc(stream, function, data);
}
CUDA_ALIAS(cuLaunchHostFunc_v2_ptsz, cuLaunchHostFunc_v2);
