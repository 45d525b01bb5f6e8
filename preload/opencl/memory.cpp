// Memory objects and shared virtual memory are charged before the driver is called, to every
// limited device of their context, because the driver may put them on any. The charge is returned
// when the driver deletes the object, which it announces by a callback: later than the program's
// last release, if a command still uses it.
#include <stdlib.h>

#include "preload/ledger.hpp"
#include "preload/opencl/layer.hpp"
#include "wire/address_table.hpp"

namespace berth::guard::cl {
namespace {

struct Held {
  std::uint64_t bytes;
  Places places;
  Context context;
};
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
constinit berth::wire::AddressTable<Held> g_objects;
constinit berth::wire::AddressTable<Held> g_shared;  // shared virtual memory, by address

template <typename Visit>
void for_each_place(Places places, Visit&& visit) {
  for (int place = 0; places != 0; ++place, places >>= 1U)
    if ((places & 1U) != 0) visit(place);
}
void set(Int* error, Int value) {
  if (error != nullptr) *error = value;
}

void give_back(Places places, std::uint64_t bytes) {
  for_each_place(places, [&](int place) { wire::give_back(counters(place), bytes); });
}

void drop(const Held& held) {
  if (region() == nullptr) return;
  give_back(held.places, held.bytes);
  for_each_place(held.places, [](int place) { count(counters(place).frees); });
}

/// The charge of one request that is in progress.
class Charge {
 public:
  Charge(Context context, std::uint64_t bytes)
      : context_(context), places_(bytes == 0 ? 0 : places_of(context)) {
    refused_ = !add(bytes, bytes);
  }
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] bool is_limited() const { return places_ != 0; }
  void cancel() {
    give_back(places_, bytes_);
    bytes_ = 0;
  }
  /// Corrects the charge to what the driver took. False: the quota does not allow the difference.
  [[nodiscard]] bool correct(std::uint64_t bytes) {
    if (bytes > bytes_) return add(bytes - bytes_, bytes);
    give_back(places_, bytes_ - bytes);
    bytes_ = bytes;
    return true;
  }
  void keep(berth::wire::AddressTable<Held>& table, const void* handle) {
    for_each_place(places_, [](int place) { count(counters(place).allocations); });
    Held before = {};
    bool stale = false;
    {
      const Locked lock(g_lock);
      // If there is an entry already, the driver has freed the object that had this handle without
      // announcing it.
      stale = table.take(key_of(handle), before);
      table.put(key_of(handle), {bytes_, places_, context_});
    }
    if (stale) drop(before);
  }

 private:
  bool add(std::uint64_t bytes, std::uint64_t wanted) {
    Places charged = 0;
    int full = -1;
    for_each_place(places_, [&](int place) {
      if (full >= 0) return;
      if (wire::charge(*region()->usage, counters(place), static_cast<std::uint32_t>(place), bytes,
                       memory_limit(place)) == wire::Answer::kGranted)
        charged |= 1U << static_cast<Uint>(place);
      else
        full = place;
    });
    if (full < 0) {
      bytes_ += bytes;
      return true;
    }
    give_back(charged, bytes);
    count(counters(full).refusals);
    tell_refused(full, wanted);
    return false;
  }

  Context context_;
  Places places_;
  std::uint64_t bytes_ = 0;
  bool refused_ = false;
};

void deleted(Buffer object, void* /*data*/) {
  Held held = {};
  bool known = false;
  {
    const Locked lock(g_lock);
    known = g_objects.take(key_of(object), held);
  }
  if (known) drop(held);
}

/// Keeps the object charged until the driver announces that it deletes the object. If the driver
/// cannot announce this, the object stays charged.
void watch(Charge& charge, Buffer object) {
  charge.keep(g_objects, object);
  if (real::clSetMemObjectDestructorCallback != nullptr)
    real::clSetMemObjectDestructorCallback(object, deleted, nullptr);
}

template <typename Create>
Buffer create(Context context, std::uint64_t bytes, Int* error, Create&& real_create) {
  Charge charge(context, bytes);
  if (charge.refused()) {
    set(error, kMemObjectAllocationFailure);
    return nullptr;
  }
  const Buffer object = real_create();
  if (!charge.is_limited()) return object;
  if (object == nullptr)
    charge.cancel();
  else
    watch(charge, object);
  return object;
}

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t all = 0;
  return __builtin_mul_overflow(a, b, &all) ? ~std::uint64_t{0} : all;
}

/// The minimum size of an element in bytes; 0: not known here. The charge is corrected when the
/// driver reports the real size.
std::uint64_t element_bytes(const ImageFormat& format) {
  std::uint64_t channels = 0;
  switch (format.order) {
    case 0x10B0:  // R
    case 0x10B1:  // A
    case 0x10B8:  // INTENSITY
    case 0x10B9:  // LUMINANCE
    case 0x10BA:  // Rx
    case 0x10BD:  // DEPTH
      channels = 1;
      break;
    case 0x10B2:  // RG
    case 0x10B3:  // RA
    case 0x10BB:  // RGx
      channels = 2;
      break;
    case 0x10B5:  // RGBA
    case 0x10B6:  // BGRA
    case 0x10B7:  // ARGB
    case 0x10C1:  // sRGBA
    case 0x10C2:  // sBGRA
      channels = 4;
      break;
    default:
      break;
  }
  switch (format.type) {
    case 0x10D0:  // SNORM_INT8
    case 0x10D2:  // UNORM_INT8
    case 0x10D7:  // SIGNED_INT8
    case 0x10DA:  // UNSIGNED_INT8
      return channels;
    case 0x10D1:  // SNORM_INT16
    case 0x10D3:  // UNORM_INT16
    case 0x10D8:  // SIGNED_INT16
    case 0x10DB:  // UNSIGNED_INT16
    case 0x10DD:  // HALF_FLOAT
      return 2 * channels;
    case 0x10D9:  // SIGNED_INT32
    case 0x10DC:  // UNSIGNED_INT32
    case 0x10DE:  // FLOAT
      return 4 * channels;
    default:
      return 0;
  }
}

/// The minimum size of an image in bytes. The description is not checked, because the driver
/// refuses an impossible one.
std::uint64_t image_bytes(const ImageFormat* format, const ImageDescription& image) {
  if (format == nullptr) return 0;
  const std::uint64_t row = product(at_least_one(image.width), element_bytes(*format));
  // Fields that do not belong to the image's type may hold anything.
  constexpr Uint kImage2D = 0x10F1, kImage3D = 0x10F2, kArray2D = 0x10F3, kArray1D = 0x10F5;
  const bool is_high = image.type == kImage2D || image.type == kImage3D || image.type == kArray2D;
  const bool is_array = image.type == kArray2D || image.type == kArray1D;
  std::uint64_t bytes = is_high ? product(row, at_least_one(image.height)) : row;
  if (image.type == kImage3D) bytes = product(bytes, at_least_one(image.depth));
  return is_array ? product(bytes, at_least_one(image.array_size)) : bytes;
}

/// Creates an image, and charges its real size. Only the driver knows the pitch and the padding.
template <typename Create>
Buffer create_image(Context context, const ImageFormat* format, const ImageDescription* image,
                    Int* error, Create&& real_create) {
  if (image == nullptr || image->parent != nullptr) return real_create(error);
  // At least one byte: an image of unknown size is charged, too, and its size is corrected below.
  Charge charge(context, at_least_one(image_bytes(format, *image)));
  if (charge.refused()) {
    set(error, kMemObjectAllocationFailure);
    return nullptr;
  }
  Int result = kSuccess;
  const Buffer object = real_create(&result);
  set(error, result);
  if (!charge.is_limited()) return object;
  if (object == nullptr) {
    charge.cancel();
    return nullptr;
  }
  std::size_t bytes = 0;
  const bool is_told =
      real::clGetMemObjectInfo(object, kMemSize, sizeof(bytes), &bytes, nullptr) == kSuccess;
  if (is_told && !charge.correct(bytes)) {
    real::clReleaseMemObject(object);
    charge.cancel();
    set(error, kMemObjectAllocationFailure);
    return nullptr;
  }
  watch(charge, object);
  return object;
}

bool take_shared(Context context, void* address, Held& held) {
  const Locked lock(g_lock);
  const Held* found = g_shared.find(key_of(address));
  return found != nullptr && found->context == context && g_shared.take(key_of(address), held);
}

/// The memory that a queued clEnqueueSVMFree frees.
struct Freed {
  std::size_t count;
  Held held[1];
};
void freed(Event /*event*/, Int status, void* data) {
  auto* all = static_cast<Freed*>(data);
  // A command that failed has freed nothing.
  for (std::size_t i = 0; status == kComplete && i < all->count; ++i) drop(all->held[i]);
  free(all);
}

}  // namespace

Buffer clCreateBuffer(Context context, Flags flags, std::size_t bytes, void* host, Int* error) {
  return create(context, bytes, error,
                [&] { return real::clCreateBuffer(context, flags, bytes, host, error); });
}
Buffer clCreateBufferWithProperties(Context context, const Flags* properties, Flags flags,
                                    std::size_t bytes, void* host, Int* error) {
  return create(context, bytes, error, [&] {
    return real::clCreateBufferWithProperties(context, properties, flags, bytes, host, error);
  });
}
Buffer clCreatePipe(Context context, Flags flags, Uint packet, Uint packets,
                    const std::intptr_t* properties, Int* error) {
  return create(context, product(packet, packets), error, [&] {
    return real::clCreatePipe(context, flags, packet, packets, properties, error);
  });
}
Buffer clCreateImage(Context context, Flags flags, const ImageFormat* format,
                     const ImageDescription* image, void* host, Int* error) {
  return create_image(context, format, image, error, [&](Int* result) {
    return real::clCreateImage(context, flags, format, image, host, result);
  });
}
Buffer clCreateImageWithProperties(Context context, const Flags* properties, Flags flags,
                                   const ImageFormat* format, const ImageDescription* image,
                                   void* host, Int* error) {
  return create_image(context, format, image, error, [&](Int* result) {
    return real::clCreateImageWithProperties(context, properties, flags, format, image, host,
                                             result);
  });
}
Buffer clCreateImage2D(Context context, Flags flags, const ImageFormat* format, std::size_t width,
                       std::size_t height, std::size_t pitch, void* host, Int* error) {
  const ImageDescription image = {0x10F1, width, height, 0, 0, 0, 0, 0, 0, nullptr};
  return create_image(context, format, &image, error, [&](Int* result) {
    return real::clCreateImage2D(context, flags, format, width, height, pitch, host, result);
  });
}
Buffer clCreateImage3D(Context context, Flags flags, const ImageFormat* format, std::size_t width,
                       std::size_t height, std::size_t depth, std::size_t pitch, std::size_t slice,
                       void* host, Int* error) {
  const ImageDescription image = {0x10F2, width, height, depth, 0, 0, 0, 0, 0, nullptr};
  return create_image(context, format, &image, error, [&](Int* result) {
    return real::clCreateImage3D(context, flags, format, width, height, depth, pitch, slice, host,
                                 result);
  });
}

void* clSVMAlloc(Context context, Flags flags, std::size_t bytes, Uint alignment) {
  Charge charge(context, bytes);
  if (charge.refused()) return nullptr;
  void* address = real::clSVMAlloc(context, flags, bytes, alignment);
  if (!charge.is_limited()) return address;
  if (address == nullptr)
    charge.cancel();
  else
    charge.keep(g_shared, address);
  return address;
}
/// Remove the entry before the driver frees the address, because another thread may get it right
/// after that.
void clSVMFree(Context context, void* address) {
  Held held = {};
  const bool known = context != nullptr && take_shared(context, address, held);
  real::clSVMFree(context, address);
  if (known) drop(held);
}
Int clEnqueueSVMFree(Queue queue, Uint count, void** addresses, void* free_function, void* data,
                     Uint waits, const Event* wait_for, Event* event) {
  // If the program passes a function of its own, that function frees the memory by other calls. So
  // nothing is recorded here.
  Freed* all = nullptr;
  Context context = nullptr;
  if (free_function == nullptr && addresses != nullptr && count > 0 && queue != nullptr &&
      region() != nullptr && real::clSetEventCallback != nullptr &&
      real::clGetCommandQueueInfo(queue, kQueueContext, sizeof(Context), &context, nullptr) ==
          kSuccess)
    all = static_cast<Freed*>(malloc(sizeof(Freed) + count * sizeof(Held)));
  if (all == nullptr)
    return real::clEnqueueSVMFree(queue, count, addresses, free_function, data, waits, wait_for,
                                  event);
  all->count = 0;
  void** kept = static_cast<void**>(malloc(count * sizeof(void*)));
  for (Uint i = 0; kept != nullptr && i < count; ++i) {
    if (!take_shared(context, addresses[i], all->held[all->count])) continue;
    kept[all->count++] = addresses[i];
  }
  Event own = nullptr;
  Event* const mark = event == nullptr ? &own : event;
  const Int result =
      real::clEnqueueSVMFree(queue, count, addresses, nullptr, data, waits, wait_for, mark);
  if (result != kSuccess) {
    const Locked lock(g_lock);
    for (std::size_t i = 0; i < all->count; ++i) g_shared.put(key_of(kept[i]), all->held[i]);
  }
  free(kept);
  if (result != kSuccess || real::clSetEventCallback(*mark, kComplete, freed, all) != kSuccess)
    free(all);
  if (own != nullptr) real::clReleaseEvent(own);
  return result;
}

namespace {

// Intel's unified shared memory. Its functions belong to an extension, and every platform may have
// its own.

template <typename Function>
Function* of_platform(Context context, const char* name) {
  return reinterpret_cast<Function*>(extension_of(context, name));
}

using UsmAllocate = void*(Context, DeviceId, const Flags*, std::size_t, Uint, Int*);
using UsmFree = Int(Context, void*);

void* allocate_usm(const char* name, Context context, DeviceId device, const Flags* properties,
                   std::size_t bytes, Uint alignment, Int* error) {
  constexpr Int kInvalidOperation = -59;
  auto* function = of_platform<UsmAllocate>(context, name);
  if (function == nullptr) {
    set(error, kInvalidOperation);
    return nullptr;
  }
  Charge charge(context, bytes);
  if (charge.refused()) {
    set(error, kOutOfResources);
    return nullptr;
  }
  void* address = function(context, device, properties, bytes, alignment, error);
  if (!charge.is_limited()) return address;
  if (address == nullptr)
    charge.cancel();
  else
    charge.keep(g_shared, address);
  return address;
}
Int free_usm(const char* name, Context context, void* address) {
  constexpr Int kInvalidOperation = -59;
  auto* function = of_platform<UsmFree>(context, name);
  if (function == nullptr) return kInvalidOperation;
  Held held = {};
  const bool known = take_shared(context, address, held);
  const Int result = function(context, address);
  if (known && result == kSuccess) drop(held);
  if (known && result != kSuccess) {
    const Locked lock(g_lock);
    g_shared.put(key_of(address), held);
  }
  return result;
}

void* device_memory(Context context, DeviceId device, const Flags* properties, std::size_t bytes,
                    Uint alignment, Int* error) {
  return allocate_usm("clDeviceMemAllocINTEL", context, device, properties, bytes, alignment,
                      error);
}
void* shared_memory(Context context, DeviceId device, const Flags* properties, std::size_t bytes,
                    Uint alignment, Int* error) {
  return allocate_usm("clSharedMemAllocINTEL", context, device, properties, bytes, alignment,
                      error);
}
Int free_memory(Context context, void* address) {
  return free_usm("clMemFreeINTEL", context, address);
}
Int free_blocking(Context context, void* address) {
  return free_usm("clMemBlockingFreeINTEL", context, address);
}
Buffer buffer_of_intel(Context context, const Flags* properties, Flags flags, std::size_t bytes,
                       void* host, Int* error) {
  using Function = Buffer(Context, const Flags*, Flags, std::size_t, void*, Int*);
  auto* function = of_platform<Function>(context, "clCreateBufferWithPropertiesINTEL");
  if (function == nullptr) {
    set(error, -34);  // CL_INVALID_CONTEXT
    return nullptr;
  }
  return create(context, bytes, error,
                [&] { return function(context, properties, flags, bytes, host, error); });
}

}  // namespace

bool is_same(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

void* instead_of(const char* name, void* function) {
  if (function == nullptr || name == nullptr) return function;
  if (is_same(name, "clDeviceMemAllocINTEL")) return reinterpret_cast<void*>(device_memory);
  if (is_same(name, "clSharedMemAllocINTEL")) return reinterpret_cast<void*>(shared_memory);
  if (is_same(name, "clMemFreeINTEL")) return reinterpret_cast<void*>(free_memory);
  if (is_same(name, "clMemBlockingFreeINTEL")) return reinterpret_cast<void*>(free_blocking);
  if (is_same(name, "clCreateBufferWithPropertiesINTEL"))
    return reinterpret_cast<void*>(buffer_of_intel);
  return instead_of_command(name, function);
}

void* clGetExtensionFunctionAddress(const char* name) {
  return instead_of(name, real::clGetExtensionFunctionAddress(name));
}
void* clGetExtensionFunctionAddressForPlatform(Platform platform, const char* name) {
  return instead_of(name, real::clGetExtensionFunctionAddressForPlatform(platform, name));
}

}  // namespace berth::guard::cl

namespace berth::guard {

/// Forgets the parent's memory in a forked child, because the driver's callbacks run only in the
/// parent.
void forget_all() {
  cl::g_objects = {};
  cl::g_shared = {};
  cl::forget_time();
  cl::forget_command_buffers();
  make_fresh(cl::g_lock);
}

}  // namespace berth::guard
