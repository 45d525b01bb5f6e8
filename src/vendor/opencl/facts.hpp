// What the child that calls the OpenCL library tells its parent, and its form on the pipe between
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::opencl {

struct DeviceFacts {
  std::string platform, name, vendor, driver_version;
  std::uint64_t type = 0;  // CL_DEVICE_TYPE bits
  std::uint64_t memory_bytes = 0;
  std::uint32_t compute_units = 0, clock_mhz = 0;
  bool available = false, unified = false;
  std::string pci_address;  // "" unknown
};

struct Facts {
  bool loaded = false;  // false: `problem` is the loader's sentence
  std::string problem;
  std::vector<DeviceFacts> devices;
};

[[nodiscard]] std::string encode(const Facts& facts);
/// nullopt for bytes that no child of ours would write.
[[nodiscard]] std::optional<Facts> decode(std::string_view bytes);

/// Opens the library and asks it everything. Calls into a vendor's code: it may hang or crash, so
/// only a child does it.
[[nodiscard]] Facts ask_library(const std::string& file);

}  // namespace berth::opencl
