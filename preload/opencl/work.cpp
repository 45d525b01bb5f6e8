// Calls that send work to a device are counted by kind and size.
#include "preload/ledger.hpp"
#include "preload/opencl/layer.hpp"

namespace berth::guard::cl {
namespace {

/// A product that overflows counts as 0, because no copy has that size.
std::uint64_t volume(const std::size_t* region_size, std::uint64_t element = 1) {
  std::uint64_t all = element;
  for (int i = 0; i < 3 && region_size != nullptr; ++i)
    if (__builtin_mul_overflow(all, std::uint64_t{region_size[i]}, &all)) return 0;
  return region_size == nullptr ? 0 : all;
}
std::uint64_t element_of(Buffer image) {
  std::size_t bytes = 0;
  const bool known = real::clGetImageInfo(image, kImageElementSize, sizeof(bytes), &bytes,
                                          nullptr) == kSuccess;
  return known ? bytes : 0;
}

}  // namespace

/// Sends a command that takes a turn. `send` returns the driver's result. `event`: the argument of
/// the driver's function.
template <typename Send>
Int take_turn(Queue queue, const WaitList& wait_for, Event*& event, Send&& send) {
  Timed timed(place_of_queue(queue), queue, wait_for, event);
  const Int result = send();
  timed.sent(result == kSuccess);
  return result;
}

// Mapped and moved memory is not counted: the driver copies it only if the device needs that.
void* clEnqueueMapBuffer(Queue queue, Buffer buffer, Uint blocks, Flags flags, std::size_t offset,
                         std::size_t bytes, Uint waits, const Event* list, Event* event,
                         Int* error) {
  void* where = nullptr;
  const Int result = take_turn(queue, {waits, list}, event, [&] {
    Int answer = kSuccess;
    where = real::clEnqueueMapBuffer(queue, buffer, blocks, flags, offset, bytes, waits, list,
                                     event, &answer);
    return answer;
  });
  if (error != nullptr) *error = result;
  return where;
}
void* clEnqueueMapImage(Queue queue, Buffer image, Uint blocks, Flags flags,
                        const std::size_t* origin, const std::size_t* size, std::size_t* row,
                        std::size_t* slice, Uint waits, const Event* list, Event* event,
                        Int* error) {
  void* where = nullptr;
  const Int result = take_turn(queue, {waits, list}, event, [&] {
    Int answer = kSuccess;
    where = real::clEnqueueMapImage(queue, image, blocks, flags, origin, size, row, slice, waits,
                                    list, event, &answer);
    return answer;
  });
  if (error != nullptr) *error = result;
  return where;
}
Int clEnqueueUnmapMemObject(Queue queue, Buffer object, void* where, Uint waits, const Event* list,
                            Event* event) {
  return take_turn(queue, {waits, list}, event, [&] {
    return real::clEnqueueUnmapMemObject(queue, object, where, waits, list, event);
  });
}
Int clEnqueueMigrateMemObjects(Queue queue, Uint count, const Buffer* objects, Flags flags,
                               Uint waits, const Event* list, Event* event) {
  return take_turn(queue, {waits, list}, event, [&] {
    return real::clEnqueueMigrateMemObjects(queue, count, objects, flags, waits, list, event);
  });
}
Int clEnqueueSVMMap(Queue queue, Uint blocks, Flags flags, void* address, std::size_t bytes,
                    Uint waits, const Event* list, Event* event) {
  return take_turn(queue, {waits, list}, event, [&] {
    return real::clEnqueueSVMMap(queue, blocks, flags, address, bytes, waits, list, event);
  });
}
Int clEnqueueSVMUnmap(Queue queue, void* address, Uint waits, const Event* list, Event* event) {
  return take_turn(queue, {waits, list}, event, [&] {
    return real::clEnqueueSVMUnmap(queue, address, waits, list, event);
  });
}
Int clEnqueueSVMMigrateMem(Queue queue, Uint count, const void** addresses,
                           const std::size_t* sizes, Flags flags, Uint waits, const Event* list,
                           Event* event) {
  return take_turn(queue, {waits, list}, event, [&] {
    return real::clEnqueueSVMMigrateMem(queue, count, addresses, sizes, flags, waits, list, event);
  });
}
/// A function of the program that runs as a command, on devices that are CPUs.
Int clEnqueueNativeKernel(Queue queue, void (*function)(void*), void* data, std::size_t bytes,
                          Uint count, const Buffer* objects, const void** addresses, Uint waits,
                          const Event* list, Event* event) {
  return take_turn(queue, {waits, list}, event, [&] {
    return real::clEnqueueNativeKernel(queue, function, data, bytes, count, objects, addresses,
                                       waits, list, event);
  });
}

/// `waits`, `list`, `event`: the names of the parameters for the wait list and the command's event.
#define SENDS(name, parameters, arguments, waits, list, event, kind, bytes)    \
  Int name parameters {                                                        \
    const int place = place_of_queue(queue);                                   \
    Timed timed(place, queue, {waits, list}, event);                           \
    const Int result = real::name arguments;                                   \
    timed.sent(result == kSuccess);                                            \
    if (place >= 0 && result == kSuccess)                                      \
      count_work(counters(place), Work::kind, bytes);                          \
    return result;                                                             \
  }

SENDS(clEnqueueNDRangeKernel,
      (Queue queue, Kernel b, Uint c, const std::size_t* d, const std::size_t* e,
       const std::size_t* f, Uint g, const Event* h, Event* i),
      (queue, b, c, d, e, f, g, h, i), g, h, i, kLaunch, 0)
SENDS(clEnqueueTask, (Queue queue, Kernel b, Uint c, const Event* d, Event* e),
      (queue, b, c, d, e), c, d, e, kLaunch, 0)
SENDS(clEnqueueReadBuffer,
      (Queue queue, Buffer b, Uint c, std::size_t d, std::size_t size, void* f, Uint g,
       const Event* h, Event* i),
      (queue, b, c, d, size, f, g, h, i), g, h, i, kCopyOut, size)
SENDS(clEnqueueWriteBuffer,
      (Queue queue, Buffer b, Uint c, std::size_t d, std::size_t size, const void* f, Uint g,
       const Event* h, Event* i),
      (queue, b, c, d, size, f, g, h, i), g, h, i, kCopyIn, size)
SENDS(clEnqueueReadBufferRect,
      (Queue queue, Buffer b, Uint c, const std::size_t* d, const std::size_t* e,
       const std::size_t* size, std::size_t g, std::size_t h, std::size_t i, std::size_t j, void* k,
       Uint l, const Event* m, Event* n),
      (queue, b, c, d, e, size, g, h, i, j, k, l, m, n), l, m, n, kCopyOut, volume(size))
SENDS(clEnqueueWriteBufferRect,
      (Queue queue, Buffer b, Uint c, const std::size_t* d, const std::size_t* e,
       const std::size_t* size, std::size_t g, std::size_t h, std::size_t i, std::size_t j,
       const void* k, Uint l, const Event* m, Event* n),
      (queue, b, c, d, e, size, g, h, i, j, k, l, m, n), l, m, n, kCopyIn, volume(size))
SENDS(clEnqueueCopyBuffer,
      (Queue queue, Buffer b, Buffer c, std::size_t d, std::size_t e, std::size_t size, Uint g,
       const Event* h, Event* i),
      (queue, b, c, d, e, size, g, h, i), g, h, i, kCopyOn, size)
SENDS(clEnqueueCopyBufferRect,
      (Queue queue, Buffer b, Buffer c, const std::size_t* d, const std::size_t* e,
       const std::size_t* size, std::size_t g, std::size_t h, std::size_t i, std::size_t j, Uint k,
       const Event* l, Event* m),
      (queue, b, c, d, e, size, g, h, i, j, k, l, m), k, l, m, kCopyOn, volume(size))
SENDS(clEnqueueReadImage,
      (Queue queue, Buffer image, Uint c, const std::size_t* d, const std::size_t* size,
       std::size_t f, std::size_t g, void* h, Uint i, const Event* j, Event* k),
      (queue, image, c, d, size, f, g, h, i, j, k), i, j, k, kCopyOut, volume(size, element_of(image)))
SENDS(clEnqueueWriteImage,
      (Queue queue, Buffer image, Uint c, const std::size_t* d, const std::size_t* size,
       std::size_t f, std::size_t g, const void* h, Uint i, const Event* j, Event* k),
      (queue, image, c, d, size, f, g, h, i, j, k), i, j, k, kCopyIn, volume(size, element_of(image)))
SENDS(clEnqueueCopyImage,
      (Queue queue, Buffer image, Buffer c, const std::size_t* d, const std::size_t* e,
       const std::size_t* size, Uint g, const Event* h, Event* i),
      (queue, image, c, d, e, size, g, h, i), g, h, i, kCopyOn, volume(size, element_of(image)))
SENDS(clEnqueueCopyImageToBuffer,
      (Queue queue, Buffer image, Buffer c, const std::size_t* d, const std::size_t* size,
       std::size_t f, Uint g, const Event* h, Event* i),
      (queue, image, c, d, size, f, g, h, i), g, h, i, kCopyOn, volume(size, element_of(image)))
SENDS(clEnqueueCopyBufferToImage,
      (Queue queue, Buffer b, Buffer image, std::size_t d, const std::size_t* e,
       const std::size_t* size, Uint g, const Event* h, Event* i),
      (queue, b, image, d, e, size, g, h, i), g, h, i, kCopyOn, volume(size, element_of(image)))
SENDS(clEnqueueFillBuffer,
      (Queue queue, Buffer b, const void* c, std::size_t d, std::size_t e, std::size_t size, Uint g,
       const Event* h, Event* i),
      (queue, b, c, d, e, size, g, h, i), g, h, i, kFill, size)
SENDS(clEnqueueFillImage,
      (Queue queue, Buffer image, const void* c, const std::size_t* d, const std::size_t* size,
       Uint f, const Event* g, Event* h),
      (queue, image, c, d, size, f, g, h), f, g, h, kFill, volume(size, element_of(image)))
SENDS(clEnqueueSVMMemcpy,
      (Queue queue, Uint b, void* c, const void* d, std::size_t size, Uint f, const Event* g,
       Event* h),
      (queue, b, c, d, size, f, g, h), f, g, h, kCopyOther, size)
SENDS(clEnqueueSVMMemFill,
      (Queue queue, void* b, const void* c, std::size_t d, std::size_t size, Uint f, const Event* g,
       Event* h),
      (queue, b, c, d, size, f, g, h), f, g, h, kFill, size)

}  // namespace berth::guard::cl
