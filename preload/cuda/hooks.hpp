// The driver's functions behind the guard, and the guard's wrappers with the same names.
#pragma once

#include "preload/cuda/guard.hpp"

#define HOOK(name, parameters) GUARD_EXPORT CUresult name parameters;
#include "preload/cuda/hooks.inc"
#undef HOOK

namespace berth::guard::real {
#define HOOK(name, parameters) extern decltype(&::name) name;
#include "preload/cuda/hooks.inc"
#undef HOOK
}  // namespace berth::guard::real

/// Returns an error from the function if the driver lacks it.
#define NEED_REAL(name)                                                    \
  if (!berth::guard::load_driver() || berth::guard::real::name == nullptr) \
  return CUDA_ERROR_NOT_FOUND
