// Records of a driver's process list: any bytes, any count.
#include <cstddef>
#include <cstdint>
#include <span>

#include "vendor/nvml/processes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t count = data[0] | static_cast<std::size_t>(data[1]) << 8U;
  const std::span<const unsigned char> buffer(data + 2, size - 2);
  if (const auto stride = berth::nvml::record_stride(buffer, count)) {
    for (const auto& record : berth::nvml::plausible_records(buffer, count, *stride)) {
      if (record.pid == 0) __builtin_trap();
    }
  }
  return 0;
}
