// Calls the OpenCL library. This runs the vendors' code, so only a child process does it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "vendor/opencl/abi.hpp"
#include "vendor/opencl/facts.hpp"

namespace berth::opencl {
namespace {

constexpr std::uint32_t kMostPlatforms = 32;
constexpr std::uint32_t kMostDevicesEach = 32;
constexpr std::size_t kLongestText = 1024;

struct Library {
#define BERTH_OPENCL_FUNCTION(name, result, parameters) result(*name) parameters = nullptr;
#include "vendor/opencl/functions.inc"
#undef BERTH_OPENCL_FUNCTION
};

std::string loader_message() {
  const char* message = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one thread
  return message == nullptr ? std::string() : message;
}

/// Opens a library. Returns the loader's error message; "" on success. The library is never closed,
/// because its threads may still run when this process exits.
std::string open(const std::string& file, Library& library) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return loader_message();
#define BERTH_OPENCL_FUNCTION(name, result, parameters)                          \
  library.name = reinterpret_cast<result(*) parameters>(::dlsym(handle, #name)); \
  if (library.name == nullptr) return fmt::format("{} has no function {}", file, #name);
#include "vendor/opencl/functions.inc"
#undef BERTH_OPENCL_FUNCTION
  return {};
}

/// Returns the text that an info function of OpenCL writes, up to the first NUL.
template <typename Call>
std::string text_of(Call&& call) {
  std::array<char, kLongestText + 1> bytes{};
  std::size_t size = 0;
  if (call(kLongestText, bytes.data(), &size) != kSuccess) return {};
  return std::string(bytes.data());
}

template <typename T>
bool value_of(const Library& library, DeviceId device, std::uint32_t key, T& value) {
  T answer{};
  std::size_t size = 0;
  if (library.clGetDeviceInfo(device, key, sizeof(T), &answer, &size) != kSuccess) return false;
  if (size != sizeof(T)) return false;
  value = answer;
  return true;
}

std::string address(std::uint32_t domain, std::uint32_t bus, std::uint32_t slot,
                    std::uint32_t function) {
  if (bus > 0xFF || slot > 0x1F || function > 7) return {};
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, slot, function);
}

/// Reads the PCI address of a device. Tries the standard extension first, then the older extensions
/// of NVIDIA and AMD.
std::string pci_address(const Library& library, DeviceId device) {
  PciBusInfo info{};
  if (value_of(library, device, kDevicePciBusInfoKhr, info))
    return address(info.domain, info.bus, info.device, info.function);
  std::uint32_t bus = 0;
  std::uint32_t slot = 0;
  std::uint32_t domain = 0;
  if (value_of(library, device, kDevicePciBusIdNv, bus) &&
      value_of(library, device, kDevicePciSlotIdNv, slot)) {
    static_cast<void>(value_of(library, device, kDevicePciDomainIdNv, domain));
    return address(domain, bus, slot >> 3, slot & 7);
  }
  TopologyAmd topology{};
  if (value_of(library, device, kDeviceTopologyAmd, topology) && topology.type == 1)
    return address(0, topology.bus, topology.device, topology.function);
  return {};
}

DeviceFacts facts_of(const Library& library, DeviceId device) {
  const auto text = [&](std::uint32_t key) {
    return text_of([&](std::size_t room, char* bytes, std::size_t* size) {
      return library.clGetDeviceInfo(device, key, room, bytes, size);
    });
  };
  DeviceFacts facts;
  facts.handle = device;
  facts.name = text(kDeviceName);
  facts.vendor = text(kDeviceVendor);
  facts.driver_version = text(kDriverVersion);
  static_cast<void>(value_of(library, device, kDeviceType, facts.type));
  static_cast<void>(value_of(library, device, kDeviceGlobalMemSize, facts.memory_bytes));
  static_cast<void>(value_of(library, device, kDeviceMaxComputeUnits, facts.compute_units));
  static_cast<void>(value_of(library, device, kDeviceMaxClockFrequency, facts.clock_mhz));
  std::uint32_t yes = 0;
  facts.available = value_of(library, device, kDeviceAvailable, yes) && yes != 0;
  facts.unified = value_of(library, device, kDeviceHostUnifiedMemory, yes) && yes != 0;
  facts.pci_address = pci_address(library, device);
  return facts;
}

}  // namespace

Facts ask_library(const std::string& file) {
  Facts facts;
  Library library;
  facts.problem = open(file, library);
  facts.loaded = facts.problem.empty();
  if (!facts.loaded) return facts;
  std::array<Platform, kMostPlatforms> platforms{};
  std::uint32_t platform_count = 0;
  // If no platform is installed, the loader returns an error, which is not a failure here.
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): open() has found every function
  if (library.clGetPlatformIDs(kMostPlatforms, platforms.data(), &platform_count) != kSuccess)
    return facts;
  for (std::uint32_t i = 0; i < std::min(platform_count, kMostPlatforms); ++i) {
    const std::string platform = text_of([&](std::size_t room, char* bytes, std::size_t* size) {
      return library.clGetPlatformInfo(platforms.at(i), kPlatformName, room, bytes, size);
    });
    std::array<DeviceId, kMostDevicesEach> devices{};
    std::uint32_t count = 0;
    if (library.clGetDeviceIDs(platforms.at(i), kDeviceTypeAll, kMostDevicesEach, devices.data(),
                               &count) != kSuccess)
      continue;
    for (std::uint32_t j = 0; j < std::min(count, kMostDevicesEach); ++j) {
      facts.devices.push_back(facts_of(library, devices.at(j)));
      facts.devices.back().platform = platform;
    }
  }
  return facts;
}

}  // namespace berth::opencl
