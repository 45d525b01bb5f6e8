// Maps an OpenCL device to its entry in the region: by uuid or PCI address, or by name if it has
// neither.
#include <string.h>

#include "preload/ledger.hpp"
#include "preload/opencl/layer.hpp"

namespace berth::guard::cl {
namespace {

constexpr Uint kMostPlatforms = 32, kMostDevices = 64;

/// A device that was looked up. Parts of devices are not stored, because they may be freed; the
/// driver never frees a device. Entries are only appended.
struct Known {
  DeviceId device;
  int place;
};
constinit Known g_known[kMostDevices] = {};
constinit Uint g_count = 0;
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

template <typename T>
bool value_of(DeviceId device, Uint key, T& value) {
  T answer = {};
  std::size_t size = 0;
  if (real::clGetDeviceInfo == nullptr ||
      real::clGetDeviceInfo(device, key, sizeof(T), &answer, &size) != kSuccess ||
      size != sizeof(T))
    return false;
  value = answer;
  return true;
}

/// The device's PCI address as a number, read as in vendor/opencl; 0: not known.
std::uint64_t pci_of(DeviceId device) {
  PciBusInfo info = {};
  if (value_of(device, kDevicePciBusInfoKhr, info))
    return wire::pci_word(info.domain, info.bus, info.device, info.function);
  Uint bus = 0, slot = 0, domain = 0;
  if (value_of(device, kDevicePciBusIdNv, bus) && value_of(device, kDevicePciSlotIdNv, slot)) {
    static_cast<void>(value_of(device, kDevicePciDomainIdNv, domain));
    return wire::pci_word(domain, bus, slot >> 3U, slot & 7U);
  }
  TopologyAmd topology = {};
  if (value_of(device, kDeviceTopologyAmd, topology) && topology.type == 1)
    return wire::pci_word(0, topology.bus, topology.device, topology.function);
  return 0;
}

std::uint64_t name_of(DeviceId device) {
  char text[1025] = {};
  std::size_t size = 0;
  if (real::clGetDeviceInfo(device, kDeviceName, sizeof(text) - 1, text, &size) != kSuccess)
    return 0;
  return wire::name_word(text, strlen(text));
}

/// The device's number among those with the same name, in the order in which the loader lists
/// them.
std::uint64_t number_of(DeviceId device, std::uint64_t name) {
  Platform platforms[kMostPlatforms] = {};
  DeviceId devices[kMostDevices] = {};
  Uint count = 0;
  std::uint64_t before = 0;
  if (real::clGetPlatformIDs == nullptr || real::clGetDeviceIDs == nullptr ||
      real::clGetPlatformIDs(kMostPlatforms, platforms, &count) != kSuccess)
    return 0;
  for (Uint i = 0; i < count && i < kMostPlatforms; ++i) {
    Uint found = 0;
    if (real::clGetDeviceIDs(platforms[i], kDeviceTypeAll, kMostDevices, devices, &found) !=
        kSuccess)
      continue;
    for (Uint j = 0; j < found && j < kMostDevices; ++j) {
      if (devices[j] == device) return before;
      if (name_of(devices[j]) == name) ++before;
    }
  }
  return before;
}

bool find_known(DeviceId device, int& place) {
  const Uint count = __atomic_load_n(&g_count, __ATOMIC_ACQUIRE);
  for (Uint i = 0; i < count; ++i) {
    if (g_known[i].device != device) continue;
    place = g_known[i].place;
    return true;
  }
  return false;
}

/// The device's uuid, as CUDA reports it; all 0: not known.
struct Uuid {
  unsigned char bytes[16];
};
Uuid uuid_of(DeviceId device) {
  Uuid uuid = {};
  static_cast<void>(value_of(device, kDeviceUuidKhr, uuid));
  return uuid;
}

/// Whether this is the limit for the device with this uuid or PCI address.
bool is_of(const wire::DeviceLimit& limit, const Uuid& uuid, std::uint64_t pci) {
  constexpr Uuid kNone = {};
  const bool has_uuid = memcmp(uuid.bytes, kNone.bytes, sizeof(kNone)) != 0;
  return (has_uuid && memcmp(limit.uuid, uuid.bytes, sizeof(uuid)) == 0) ||
         (pci != 0 && limit.pci == pci);
}

int find_device(DeviceId device) {
  const Uuid uuid = uuid_of(device);
  const std::uint64_t pci = pci_of(device), name = pci == 0 ? name_of(device) : 0;
  const std::uint64_t number = pci == 0 ? number_of(device, name) : 0;
  const wire::Limits& limits = *region()->limits;
  for (std::uint32_t i = 0; i < limits.devices && i < wire::kMaxDevices; ++i) {
    const wire::DeviceLimit& limit = limits.device[i];
    std::uint64_t words[2] = {};
    memcpy(words, limit.uuid, sizeof(words));
    const bool by_name = (limit.flags & wire::kNamedDevice) != 0;
    if (by_name ? pci == 0 && words[0] == name && words[1] == number : is_of(limit, uuid, pci))
      return static_cast<int>(i);
  }
  Flags type = 0;
  // Report that a GPU was not identified, because it may be one of the job's GPUs.
  if (pci == 0 && value_of(device, kDeviceType, type) && (type & kDeviceTypeGpu) != 0)
    __atomic_store_n(&region()->usage->trouble, wire::kUnknownDevice, __ATOMIC_RELAXED);
  return -1;
}

}  // namespace

int place_of(DeviceId device) {
  if (device == nullptr || region() == nullptr) return -1;
  int place = -1;
  if (find_known(device, place)) return place;
  for (DeviceId parent = nullptr; value_of(device, kDeviceParent, parent) && parent != nullptr;) {
    device = parent;
    parent = nullptr;
  }
  if (find_known(device, place)) return place;
  place = find_device(device);
  const Locked lock(g_lock);
  int other = -1;
  if (g_count < kMostDevices && !find_known(device, other)) {
    g_known[g_count] = {device, place};
    __atomic_store_n(&g_count, g_count + 1, __ATOMIC_RELEASE);
  }
  return place;
}

int place_of_queue(Queue queue) {
  DeviceId device = nullptr;
  if (region() == nullptr || real::clGetCommandQueueInfo == nullptr ||
      real::clGetCommandQueueInfo(queue, kQueueDevice, sizeof(device), &device, nullptr) !=
          kSuccess)
    return -1;
  return place_of(device);
}

namespace {

Uint devices_of(Context context, DeviceId* devices) {
  std::size_t size = 0;
  if (context == nullptr || real::clGetContextInfo == nullptr ||
      real::clGetContextInfo(context, kContextDevices, kMostDevices * sizeof(DeviceId), devices,
                             &size) != kSuccess)
    return 0;
  return static_cast<Uint>(size / sizeof(DeviceId));
}

}  // namespace

Places places_of(Context context) {
  if (context == nullptr || region() == nullptr) return 0;
  DeviceId devices[kMostDevices] = {};
  Places places = 0;
  const Uint count = devices_of(context, devices);
  for (Uint i = 0; i < count && i < kMostDevices; ++i) {
    const int place = place_of(devices[i]);
    if (place >= 0) places |= 1U << static_cast<Uint>(place);
  }
  return places;
}

void* extension_of(Context context, const char* name) {
  DeviceId devices[kMostDevices] = {};
  Platform platform = nullptr;
  if (devices_of(context, devices) == 0 || !value_of(devices[0], kDevicePlatform, platform) ||
      platform == nullptr || real::clGetExtensionFunctionAddressForPlatform == nullptr)
    return nullptr;
  return real::clGetExtensionFunctionAddressForPlatform(platform, name);
}

/// Shows the quota as the device's memory.
Int clGetDeviceInfo(DeviceId device, Uint key, std::size_t room, void* value, std::size_t* size) {
  const Int result = real::clGetDeviceInfo(device, key, room, value, size);
  const bool is_total = key == kDeviceGlobalMemSize || key == kDeviceMaxMemAllocSize;
  if (result != kSuccess || value == nullptr || (!is_total && key != kDeviceGlobalFreeMemoryAmd))
    return result;
  const int place = place_of(device);
  if (place < 0) return result;
  auto* number = static_cast<std::uint64_t*>(value);
  const std::uint64_t limit = memory_limit(place),
                      used = wire::sum_of(*region()->usage, static_cast<Uint>(place)).used;
  const std::uint64_t most = is_total ? quota_of(place) : limit > used ? (limit - used) >> 10U : 0;
  for (std::size_t i = 0; i < (is_total ? 1 : 2) && (i + 1) * sizeof(*number) <= room; ++i) {
    std::uint64_t shown = 0;
    memcpy(&shown, number + i, sizeof(shown));
    if (shown > most) memcpy(number + i, &most, sizeof(most));
  }
  return result;
}

namespace {

Context refused_context(Int* error) {
  if (error != nullptr) *error = kDeviceNotAvailable;
  return nullptr;
}

}  // namespace

Context clCreateContext(const std::intptr_t* properties, Uint count, const DeviceId* devices,
                        void* notify, void* data, Int* error) {
  if (must_refuse()) return refused_context(error);
  return real::clCreateContext(properties, count, devices, notify, data, error);
}
Context clCreateContextFromType(const std::intptr_t* properties, Flags type, void* notify,
                                void* data, Int* error) {
  if (must_refuse()) return refused_context(error);
  return real::clCreateContextFromType(properties, type, notify, data, error);
}

}  // namespace berth::guard::cl
