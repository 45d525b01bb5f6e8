// Sizes in bytes: of array elements, and of the copies of planes and boxes.
#pragma once

#include <cstdint>

/// Returns the bytes of an array element with this CUarray_format. For packed and planar video
/// formats, the result may be larger than the real size.
inline constexpr std::uint64_t bytes_of_format(unsigned format, unsigned channels) {
  switch (format) {
    case 0x02:  // 16-bit integers
    case 0x09:
    case 0x10:  // half
    case 0xc3:  // normalized 16-bit integers
    case 0xc4:
    case 0xc5:
    case 0xc9:
    case 0xca:
    case 0xcb:
    case 0x54:  // video of 10 to 16 bits a sample
    case 0x56:
    case 0x58:
    case 0x5a:
    case 0x5c:
    case 0x5e:
    case 0x9f:
    case 0xa1:
    case 0xa3:
    case 0xa4:
    case 0xa6:
    case 0xa7:
    case 0xa9:
    case 0xb1:
    case 0xb3:
    case 0xb5:
      return 2ULL * channels;
    case 0x03:  // 32-bit integers
    case 0x0a:
    case 0x20:  // float
      return 4ULL * channels;
    default:
      return channels;
  }
}

/// Computes how many bytes a CUDA_MEMCPY2D or CUDA_MEMCPY3D copies. Returns false if the product
/// overflows.
template <typename Copy>
[[nodiscard]] constexpr bool bytes_of_copy(const Copy& copy, std::uint64_t& bytes) {
  bytes = copy.WidthInBytes;
  bool fits = !__builtin_mul_overflow(bytes, std::uint64_t{copy.Height}, &bytes);
  if constexpr (requires { copy.Depth; })
    fits = fits && !__builtin_mul_overflow(bytes, std::uint64_t{copy.Depth}, &bytes);
  return fits;
}
