// What the child that calls the OpenCL library has found, and how it is encoded on the pipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vendor/opencl/abi.hpp"

namespace berth::opencl {

struct DeviceFacts {
  std::string platform, name, vendor, driver_version;
  std::uint64_t type = 0;  // bits such as CL_DEVICE_TYPE_GPU
  std::uint64_t memory_bytes = 0;
  std::uint32_t compute_units = 0, clock_mhz = 0;
  bool available = false, unified = false;
  std::string pci_address;  // "": unknown
  DeviceId handle =
      nullptr;  // only valid in the process that called the library; encode() leaves it out
};

struct Facts {
  bool loaded = false;  // false: `problem` is the error message of the loader
  std::string problem;
  std::vector<DeviceFacts> devices;
};

[[nodiscard]] std::string encode(const Facts& facts);
/// Decodes the bytes that encode() made; nullopt if they are invalid.
[[nodiscard]] std::optional<Facts> decode(std::string_view bytes);

/// Opens the library and reads all devices. This runs vendors' code, which may hang or crash. So
/// only a child process may call it.
[[nodiscard]] Facts ask_library(const std::string& file);

}  // namespace berth::opencl
