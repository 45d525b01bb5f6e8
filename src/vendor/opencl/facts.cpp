#include "vendor/opencl/facts.hpp"

#include <utility>

#include "wire/codec.hpp"

namespace berth::opencl {
namespace {
constexpr std::uint32_t kMark = 0x4C434F42;  // "BOCL"
constexpr std::uint32_t kMostDevices = 1024;
}  // namespace

std::string encode(const Facts& facts) {
  wire::Writer out;
  out.put(kMark);
  out.put(facts.loaded);
  out.put(std::string_view(facts.problem));
  out.put(static_cast<std::uint32_t>(facts.devices.size()));
  for (const DeviceFacts& device : facts.devices) {
    for (const std::string* text : {&device.platform, &device.name, &device.vendor,
                                    &device.driver_version, &device.pci_address})
      out.put(std::string_view(*text));
    out.put(device.type);
    out.put(device.memory_bytes);
    out.put(device.compute_units);
    out.put(device.clock_mhz);
    out.put(device.available);
    out.put(device.unified);
  }
  return out.bytes();
}

std::optional<Facts> decode(std::string_view bytes) {
  wire::Reader in(bytes);
  Facts facts;
  if (in.get<std::uint32_t>() != kMark) return std::nullopt;
  facts.loaded = in.get<bool>();
  facts.problem = in.text();
  const auto count = in.get<std::uint32_t>();
  if (in.failed() || count > kMostDevices) return std::nullopt;
  for (std::uint32_t i = 0; i < count && !in.failed(); ++i) {
    DeviceFacts device;
    for (std::string* text : {&device.platform, &device.name, &device.vendor,
                              &device.driver_version, &device.pci_address})
      *text = in.text();
    device.type = in.get<std::uint64_t>();
    device.memory_bytes = in.get<std::uint64_t>();
    device.compute_units = in.get<std::uint32_t>();
    device.clock_mhz = in.get<std::uint32_t>();
    device.available = in.get<bool>();
    device.unified = in.get<bool>();
    facts.devices.push_back(std::move(device));
  }
  if (in.failed() || in.left() != 0) return std::nullopt;
  return facts;
}

}  // namespace berth::opencl
