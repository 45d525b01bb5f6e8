// The GPUs that an ELF file was compiled for, from the headers of nvcc's embedded GPU code. Never
// reads the code itself. Every number in the file is untrusted.
#pragma once

#include <vector>

#include "doctor/read/elf.hpp"

namespace berth::doctor {

/// Compute capabilities as in nvcc (87 for 8.7), sorted.
struct GpuCode {
  std::vector<unsigned> sass, ptx;
};

/// Absent: not a 64-bit ELF file with a valid .nv_fatbin section. Unreadable (E2BIG): too large to
/// read completely, so code may have been missed.
[[nodiscard]] Fact<GpuCode> gpu_code(const ReadAt& read);

}  // namespace berth::doctor
