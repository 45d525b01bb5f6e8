#include "vendor/nvml/value.hpp"

#include <algorithm>
#include <cstring>

#include "base/text_parts.hpp"

namespace berth::nvml {

model::Absence absence(nvmlReturn_t code) {
  switch (code) {
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED:
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
    case NVML_ERROR_DEPRECATED:
      return model::Absence::kNotSupported;
    case NVML_ERROR_NO_PERMISSION:
    case NVML_ERROR_OPERATING_SYSTEM:
      return model::Absence::kNoPermission;
    case NVML_ERROR_TIMEOUT:
      return model::Absence::kNoAnswer;
    case NVML_ERROR_GPU_IS_LOST:
      return model::Absence::kLost;
    default:
      return model::Absence::kFailed;
  }
}

std::string text_of(const char* buffer, std::size_t size) {
  std::string text = printable({buffer, strnlen(buffer, size)});
  if (text == "N/A") text.clear();  // Jetson reports "N/A" as driver version
  return text;
}

std::string uuid_of(const char* buffer, std::size_t size) {
  const std::string_view text(buffer, strnlen(buffer, size));
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
  return plain ? std::string(text) : std::string();
}

}  // namespace berth::nvml
