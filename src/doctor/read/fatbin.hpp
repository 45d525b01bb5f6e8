// The GPUs for which an ELF file was compiled, according to the headers of the GPU code that nvcc
// embeds. Does not read the code itself. Every number in the file is untrusted.
#pragma once

#include <vector>

#include "doctor/read/elf.hpp"

namespace berth::doctor {

/// Compute capabilities as nvcc writes them (87 for 8.7), sorted.
struct GpuCode {
  std::vector<unsigned> sass, ptx;
};

/// Absent if this is not a 64-bit ELF file with a valid .nv_fatbin section. Unreadable (E2BIG) if
/// the section has too many pieces of code to read all.
[[nodiscard]] Fact<GpuCode> gpu_code(const ReadAt& read);

}  // namespace berth::doctor
