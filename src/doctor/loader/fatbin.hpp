// For which GPUs an ELF file was compiled: the headers of the code for GPUs that nvcc puts into it.
// The code itself, packed or not, is never read; every number in the file may be a lie.
#pragma once

#include <vector>

#include "doctor/loader/elf.hpp"

namespace berth::doctor {

/// Compute capabilities as nvcc writes them, 87 for 8.7, sorted.
struct GpuCode {
  std::vector<unsigned> sass, ptx;
};

/// Absent: no 64-bit ELF file with a section .nv_fatbin that reads as one. Unreadable (E2BIG):
/// there is more in it than is looked at, so that what was not seen may be there.
[[nodiscard]] Fact<GpuCode> gpu_code(const ReadAt& read);

}  // namespace berth::doctor
