// Calls that send work to a device or wait for it. Each of them waits in work.cpp until it may
// continue, and is counted by its kind and size.
#include "preload/cuda/hooks.hpp"
#include "vendor/cuda/formats.hpp"

using namespace berth::guard;

#define SENDS(name, parameters, arguments, stream, kind, bytes) \
  CUresult name parameters {                                    \
    NEED_REAL(name);                                            \
    const int at = begin_work(stream);                          \
    const CUresult result = real::name arguments;               \
    if (result == CUDA_SUCCESS) end_work(at, kind, bytes);      \
    return result;                                              \
  }
#define WAITS(name, parameters, arguments)        \
  CUresult name parameters {                      \
    NEED_REAL(name);                              \
    begin_wait();                                 \
    const CUresult result = real::name arguments; \
    end_wait();                                   \
    return result;                                \
  }

using enum Work;

namespace {

/// A product that overflows counts as 0, because no copy has that size.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t all = 0;
  return __builtin_mul_overflow(a, b, &all) ? 0 : all;
}
template <typename Copy>
std::uint64_t bytes_of(const Copy* copy) {
  std::uint64_t bytes = 0;
  return copy != nullptr && bytes_of_copy(*copy, bytes) ? bytes : 0;
}

std::uint64_t sum(const std::size_t* sizes, std::size_t count) {
  std::uint64_t all = 0;
  for (std::size_t i = 0; sizes != nullptr && i < count; ++i) all += sizes[i];
  return all;
}

constexpr bool on_device(unsigned kind) {
  return kind == CU_MEMORYTYPE_DEVICE || kind == CU_MEMORYTYPE_ARRAY;
}
constexpr bool on_host(unsigned kind) {
  return kind == CU_MEMORYTYPE_HOST;
}
template <typename Copy>
Work direction(const Copy* copy) {
  if (copy == nullptr) return Work::kCopyOther;
  const unsigned from = copy->srcMemoryType, to = copy->dstMemoryType;
  if (on_host(from) && on_device(to)) return Work::kCopyIn;
  if (on_device(from) && on_host(to)) return Work::kCopyOut;
  return on_device(from) && on_device(to) ? Work::kCopyOn : Work::kCopyOther;
}

}  // namespace

WAITS(cuCtxSynchronize, (), ())
WAITS(cuCtxSynchronize_v2, (CUcontext a), (a))
WAITS(cuEventSynchronize, (CUevent a), (a))
WAITS(cuStreamSynchronize, (CUstream a), (a))
WAITS(cuStreamSynchronize_ptsz, (CUstream a), (a))
SENDS(cuLaunch, (CUfunction a), (a), nullptr, kLaunch, 0)
SENDS(cuLaunchCooperativeKernel,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j),
      (a, b, c, d, e, f, g, h, i, j), i, kLaunch, 0)
SENDS(cuLaunchCooperativeKernel_ptsz,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j),
      (a, b, c, d, e, f, g, h, i, j), per_thread(i), kLaunch, 0)
SENDS(cuLaunchGrid, (CUfunction a, int b, int c), (a, b, c), nullptr, kLaunch, 0)
SENDS(cuLaunchGridAsync, (CUfunction a, int b, int c, CUstream d), (a, b, c, d), d, kLaunch, 0)
SENDS(cuLaunchKernel,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j, void** k),
      (a, b, c, d, e, f, g, h, i, j, k), i, kLaunch, 0)
SENDS(cuLaunchKernelEx, (const CUlaunchConfig* a, CUfunction b, void** c, void** d), (a, b, c, d),
      a == nullptr ? nullptr : a->hStream, kLaunch, 0)
SENDS(cuLaunchKernelEx_ptsz, (const CUlaunchConfig* a, CUfunction b, void** c, void** d),
      (a, b, c, d), a == nullptr ? nullptr : per_thread(a->hStream), kLaunch, 0)
SENDS(cuLaunchKernel_ptsz,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j, void** k),
      (a, b, c, d, e, f, g, h, i, j, k), per_thread(i), kLaunch, 0)
#include "preload/cuda/copies.inc"
