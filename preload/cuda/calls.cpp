// Calls that send work to a device or wait for it: each passes the gate of work.cpp.
#include "preload/cuda/hooks.hpp"

using namespace berth::guard;

#define SENDS(name, parameters, arguments, stream, is_copy) \
  CUresult name parameters {                                \
    NEED_REAL(name);                                        \
    const int at = begin_work(stream);                      \
    const CUresult result = real::name arguments;           \
    end_work(at, result == CUDA_SUCCESS, is_copy);          \
    return result;                                          \
  }
#define WAITS(name, parameters, arguments)        \
  CUresult name parameters {                      \
    NEED_REAL(name);                              \
    begin_wait();                                 \
    const CUresult result = real::name arguments; \
    end_wait();                                   \
    return result;                                \
  }

WAITS(cuCtxSynchronize, (), ())
WAITS(cuEventSynchronize, (CUevent a), (a))
SENDS(cuLaunchCooperativeKernel,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j),
      (a, b, c, d, e, f, g, h, i, j), i, false)
SENDS(cuLaunchCooperativeKernel_ptsz,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j),
      (a, b, c, d, e, f, g, h, i, j), i, false)
SENDS(cuLaunchKernel,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j, void** k),
      (a, b, c, d, e, f, g, h, i, j, k), i, false)
SENDS(cuLaunchKernelEx, (const CUlaunchConfig* a, CUfunction b, void** c, void** d), (a, b, c, d),
      a == nullptr ? nullptr : a->hStream, false)
SENDS(cuLaunchKernelEx_ptsz, (const CUlaunchConfig* a, CUfunction b, void** c, void** d),
      (a, b, c, d), a == nullptr ? nullptr : a->hStream, false)
SENDS(cuLaunchKernel_ptsz,
      (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,
       unsigned h, CUstream i, void** j, void** k),
      (a, b, c, d, e, f, g, h, i, j, k), i, false)
SENDS(cuMemcpy, (CUdeviceptr a, CUdeviceptr b, std::size_t c), (a, b, c), nullptr, true)
SENDS(cuMemcpyAsync, (CUdeviceptr a, CUdeviceptr b, std::size_t c, CUstream d), (a, b, c, d), d,
      true)
SENDS(cuMemcpyAsync_ptsz, (CUdeviceptr a, CUdeviceptr b, std::size_t c, CUstream d), (a, b, c, d),
      d, true)
SENDS(cuMemcpyDtoDAsync_v2, (CUdeviceptr a, CUdeviceptr b, std::size_t c, CUstream d), (a, b, c, d),
      d, true)
SENDS(cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr a, CUdeviceptr b, std::size_t c, CUstream d),
      (a, b, c, d), d, true)
SENDS(cuMemcpyDtoD_v2, (CUdeviceptr a, CUdeviceptr b, std::size_t c), (a, b, c), nullptr, true)
SENDS(cuMemcpyDtoD_v2_ptds, (CUdeviceptr a, CUdeviceptr b, std::size_t c), (a, b, c),
      per_thread(nullptr), true)
SENDS(cuMemcpyDtoHAsync_v2, (void* a, CUdeviceptr b, std::size_t c, CUstream d), (a, b, c, d), d,
      true)
SENDS(cuMemcpyDtoHAsync_v2_ptsz, (void* a, CUdeviceptr b, std::size_t c, CUstream d), (a, b, c, d),
      d, true)
SENDS(cuMemcpyDtoH_v2, (void* a, CUdeviceptr b, std::size_t c), (a, b, c), nullptr, true)
SENDS(cuMemcpyDtoH_v2_ptds, (void* a, CUdeviceptr b, std::size_t c), (a, b, c), per_thread(nullptr),
      true)
SENDS(cuMemcpyHtoDAsync_v2, (CUdeviceptr a, const void* b, std::size_t c, CUstream d), (a, b, c, d),
      d, true)
SENDS(cuMemcpyHtoDAsync_v2_ptsz, (CUdeviceptr a, const void* b, std::size_t c, CUstream d),
      (a, b, c, d), d, true)
SENDS(cuMemcpyHtoD_v2, (CUdeviceptr a, const void* b, std::size_t c), (a, b, c), nullptr, true)
SENDS(cuMemcpyHtoD_v2_ptds, (CUdeviceptr a, const void* b, std::size_t c), (a, b, c),
      per_thread(nullptr), true)
SENDS(cuMemcpy_ptds, (CUdeviceptr a, CUdeviceptr b, std::size_t c), (a, b, c), per_thread(nullptr),
      true)
SENDS(cuMemsetD8Async, (CUdeviceptr a, unsigned char b, std::size_t c, CUstream d), (a, b, c, d), d,
      true)
SENDS(cuMemsetD8Async_ptsz, (CUdeviceptr a, unsigned char b, std::size_t c, CUstream d),
      (a, b, c, d), d, true)
SENDS(cuMemsetD8_v2, (CUdeviceptr a, unsigned char b, std::size_t c), (a, b, c), nullptr, true)
SENDS(cuMemsetD8_v2_ptds, (CUdeviceptr a, unsigned char b, std::size_t c), (a, b, c),
      per_thread(nullptr), true)
WAITS(cuStreamSynchronize, (CUstream a), (a))
WAITS(cuStreamSynchronize_ptsz, (CUstream a), (a))
