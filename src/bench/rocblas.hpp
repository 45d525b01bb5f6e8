// Products on AMD's GPUs with rocBLAS and HIP, which are opened at run time and never linked. Only
// a child process opens them.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "bench/case.hpp"

namespace berth::bench {

/// The product in "fp32", "fp64", "fp16" or "bf16". nullopt: rocBLAS is not installed, or HIP does
/// not offer the GPU at the target's PCI address. Fails with kUnavailable (E1099) or kUnsupported
/// (E1054).
[[nodiscard]] std::optional<Result<Measured>> rocblas_product(const Target& target,
                                                              const Effort& effort,
                                                              std::string_view precision);

}  // namespace berth::bench
