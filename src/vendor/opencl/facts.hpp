// The result of the child that calls the OpenCL library, and its encoding on the pipe.
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
  std::uint64_t type = 0;  // CL_DEVICE_TYPE bits
  std::uint64_t memory_bytes = 0;
  std::uint32_t compute_units = 0, clock_mhz = 0;
  bool available = false, unified = false;
  std::string pci_address;    // "" unknown
  DeviceId handle = nullptr;  // only in the process that asked; encode() leaves it out
};

struct Facts {
  bool loaded = false;  // false: `problem` is the loader's message
  std::string problem;
  std::vector<DeviceFacts> devices;
};

[[nodiscard]] std::string encode(const Facts& facts);
/// nullopt if no child of ours would write these bytes.
[[nodiscard]] std::optional<Facts> decode(std::string_view bytes);

/// Opens the library and reads everything. This calls a vendor's code, which may hang or crash, so
/// only a child does it.
[[nodiscard]] Facts ask_library(const std::string& file);

}  // namespace berth::opencl
