// Copies and fills of the simulated CUDA driver. They copy real bytes, and the device is busy for
// as long as the transfer over a PCIe link would take.
#include <string.h>

#include "simulator/cuda_core.hpp"
#include "vendor/cuda/formats.hpp"

using namespace berth::simulator;

namespace {

constexpr std::uint64_t kBytesPerNanosecond = 16, kStart = 2000, kFillsPerCopy = 16;

enum class Wait { kNo, kYes };

CUresult send_bytes(std::uint64_t bytes, Wait wait) {
  const CUdevice device = current_context()->device;
  const CUresult result = submit(device, kStart + bytes / kBytesPerNanosecond, false);
  if (wait == Wait::kYes) wait_for_all(device);
  return result;
}

CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, Wait wait) {
  NEED_CONTEXT();
  if (bytes == 0) return CUDA_SUCCESS;
  NEED(to != 0 && from != 0);
  if (wait == Wait::kYes) wait_for_all(current_context()->device);
  memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return send_bytes(bytes, wait);
}

CUdeviceptr address_of(const void* host) {
  return reinterpret_cast<std::uintptr_t>(host);
}
/// An array's handle is the address of its memory.
CUdeviceptr inside(CUarray array, std::size_t offset) {
  return array == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(array) + offset;
}

/// Copies all bytes of a 2D or 3D box as one contiguous block. Pitches and offsets of rows are
/// ignored.
template <typename Box>
CUresult copy_box(const Box* box, Wait wait) {
  NEED_CONTEXT();
  NEED(box != nullptr);
  const auto place = [](unsigned kind, const void* host, CUdeviceptr device, CUarray array) {
    if (kind == CU_MEMORYTYPE_HOST) return address_of(host);
    return kind == CU_MEMORYTYPE_ARRAY ? inside(array, 0) : device;
  };
  std::uint64_t bytes = 0;
  NEED(bytes_of_copy(*box, bytes));
  return copy(place(box->dstMemoryType, box->dstHost, box->dstDevice, box->dstArray),
              place(box->srcMemoryType, box->srcHost, box->srcDevice, box->srcArray), bytes, wait);
}

template <typename Value>
CUresult fill(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width,
              std::size_t height) {
  NEED_CONTEXT();
  NEED(to != 0);
  for (std::size_t row = 0; row < height; ++row) {
    auto* at = reinterpret_cast<unsigned char*>(to) + row * pitch;
    for (std::size_t i = 0; i < width; ++i) memcpy(at + i * sizeof(Value), &value, sizeof(Value));
  }
  return send_bytes(width * height * sizeof(Value) / kFillsPerCopy, Wait::kNo);
}

}  // namespace

CUDA(cuMemPrefetchAsync)(CUdeviceptr address, std::size_t count, CUdevice, CUstream) {
  NEED_CONTEXT();
  Allocation managed = {};
  NEED(find_memory(address, Kind::kManaged, managed) && count <= managed.bytes);
  return send_bytes(count, Wait::kNo);
}
CUDA_ALIAS(cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync);
CUDA(cuMemPrefetchAsync_v2)
(CUdeviceptr address, std::size_t count, CUmemLocation, unsigned, CUstream) {
  NEED_CONTEXT();
  Allocation managed = {};
  NEED(find_memory(address, Kind::kManaged, managed) && count <= managed.bytes);
  return send_bytes(count, Wait::kNo);
}
CUDA_ALIAS(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2);
CUDA(cuMemcpy)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(to, from, bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpy_ptds, cuMemcpy);
CUDA(cuMemcpy2D)(const CUDA_MEMCPY2D_v1* box) {
  return copy_box(box, Wait::kYes);
}
CUDA(cuMemcpy2DAsync)(const CUDA_MEMCPY2D_v1* box, CUstream) {
  return copy_box(box, Wait::kNo);
}
CUDA(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D* box, CUstream) {
  return copy_box(box, Wait::kNo);
}
CUDA_ALIAS(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2);
CUDA(cuMemcpy2DUnaligned)(const CUDA_MEMCPY2D_v1* box) {
  return copy_box(box, Wait::kYes);
}
CUDA(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D* box) {
  return copy_box(box, Wait::kYes);
}
CUDA_ALIAS(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned_v2);
CUDA(cuMemcpy2D_v2)(const CUDA_MEMCPY2D* box) {
  return copy_box(box, Wait::kYes);
}
CUDA_ALIAS(cuMemcpy2D_v2_ptds, cuMemcpy2D_v2);
CUDA(cuMemcpy3D)(const CUDA_MEMCPY3D_v1* box) {
  return copy_box(box, Wait::kYes);
}
CUDA(cuMemcpy3DAsync)(const CUDA_MEMCPY3D_v1* box, CUstream) {
  return copy_box(box, Wait::kNo);
}
CUDA(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D* box, CUstream) {
  return copy_box(box, Wait::kNo);
}
CUDA_ALIAS(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync_v2);
CUDA(cuMemcpy3DBatchAsync)(std::size_t, const void*, std::size_t*, unsigned long long, CUstream) {
  NEED_CONTEXT();
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUDA_ALIAS(cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync);
CUDA(cuMemcpy3DBatchAsync_v2)(std::size_t, const void*, unsigned long long, CUstream) {
  NEED_CONTEXT();
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUDA_ALIAS(cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync_v2);
CUDA(cuMemcpy3DPeer)(const CUDA_MEMCPY3D_PEER* box) {
  return copy_box(box, Wait::kYes);
}
CUDA_ALIAS(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer);
CUDA(cuMemcpy3DPeerAsync)(const CUDA_MEMCPY3D_PEER* box, CUstream) {
  return copy_box(box, Wait::kNo);
}
CUDA_ALIAS(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync);
CUDA(cuMemcpy3DWithAttributesAsync)(const void*, unsigned long long, CUstream) {
  NEED_CONTEXT();
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUDA_ALIAS(cuMemcpy3DWithAttributesAsync_ptsz, cuMemcpy3DWithAttributesAsync);
CUDA(cuMemcpy3D_v2)(const CUDA_MEMCPY3D* box) {
  return copy_box(box, Wait::kYes);
}
CUDA_ALIAS(cuMemcpy3D_v2_ptds, cuMemcpy3D_v2);
CUDA(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return copy(to, from, bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyAsync_ptsz, cuMemcpyAsync);
CUDA(cuMemcpyAtoA)
(CUarray to, unsigned to_offset, CUarray from, unsigned from_offset, unsigned bytes) {
  return copy(inside(to, to_offset), inside(from, from_offset), bytes, Wait::kYes);
}
CUDA(cuMemcpyAtoA_v2)
(CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset, std::size_t bytes) {
  return copy(inside(to, to_offset), inside(from, from_offset), bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyAtoA_v2_ptds, cuMemcpyAtoA_v2);
CUDA(cuMemcpyAtoD)(CUdeviceptr_v1 to, CUarray from, unsigned from_offset, unsigned bytes) {
  return copy(to, inside(from, from_offset), bytes, Wait::kYes);
}
CUDA(cuMemcpyAtoD_v2)(CUdeviceptr to, CUarray from, std::size_t from_offset, std::size_t bytes) {
  return copy(to, inside(from, from_offset), bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyAtoD_v2_ptds, cuMemcpyAtoD_v2);
CUDA(cuMemcpyAtoH)(void* to, CUarray from, unsigned from_offset, unsigned bytes) {
  return copy(address_of(to), inside(from, from_offset), bytes, Wait::kYes);
}
CUDA(cuMemcpyAtoHAsync)(void* to, CUarray from, unsigned from_offset, unsigned bytes, CUstream) {
  return copy(address_of(to), inside(from, from_offset), bytes, Wait::kNo);
}
CUDA(cuMemcpyAtoHAsync_v2)
(void* to, CUarray from, std::size_t from_offset, std::size_t bytes, CUstream) {
  return copy(address_of(to), inside(from, from_offset), bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyAtoHAsync_v2_ptsz, cuMemcpyAtoHAsync_v2);
CUDA(cuMemcpyAtoH_v2)(void* to, CUarray from, std::size_t from_offset, std::size_t bytes) {
  return copy(address_of(to), inside(from, from_offset), bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyAtoH_v2_ptds, cuMemcpyAtoH_v2);
CUDA(cuMemcpyBatchAsync)
(CUdeviceptr* dsts, CUdeviceptr* srcs, std::size_t* sizes, std::size_t count, void*, std::size_t*,
 std::size_t, std::size_t*, CUstream) {
  NEED_CONTEXT();
  NEED(dsts != nullptr && srcs != nullptr && sizes != nullptr);
  CUresult result = CUDA_SUCCESS;
  for (std::size_t i = 0; i < count && result == CUDA_SUCCESS; ++i)
    result = copy(dsts[i], srcs[i], sizes[i], Wait::kNo);
  return result;
}
CUDA_ALIAS(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync);
CUDA(cuMemcpyBatchAsync_v2)
(CUdeviceptr* dsts, CUdeviceptr* srcs, std::size_t* sizes, std::size_t count, void*, std::size_t*,
 std::size_t, CUstream) {
  NEED_CONTEXT();
  NEED(dsts != nullptr && srcs != nullptr && sizes != nullptr);
  CUresult result = CUDA_SUCCESS;
  for (std::size_t i = 0; i < count && result == CUDA_SUCCESS; ++i)
    result = copy(dsts[i], srcs[i], sizes[i], Wait::kNo);
  return result;
}
CUDA_ALIAS(cuMemcpyBatchAsync_v2_ptsz, cuMemcpyBatchAsync_v2);
CUDA(cuMemcpyDtoA)(CUarray to, unsigned to_offset, CUdeviceptr_v1 from, unsigned bytes) {
  return copy(inside(to, to_offset), from, bytes, Wait::kYes);
}
CUDA(cuMemcpyDtoA_v2)(CUarray to, std::size_t to_offset, CUdeviceptr from, std::size_t bytes) {
  return copy(inside(to, to_offset), from, bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyDtoA_v2_ptds, cuMemcpyDtoA_v2);
CUDA(cuMemcpyDtoD)(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned bytes) {
  return copy(to, from, bytes, Wait::kYes);
}
CUDA(cuMemcpyDtoDAsync)(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned bytes, CUstream) {
  return copy(to, from, bytes, Wait::kNo);
}
CUDA(cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return copy(to, from, bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2);
CUDA(cuMemcpyDtoD_v2)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(to, from, bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2);
CUDA(cuMemcpyDtoH)(void* to, CUdeviceptr_v1 from, unsigned bytes) {
  return copy(address_of(to), from, bytes, Wait::kYes);
}
CUDA(cuMemcpyDtoHAsync)(void* to, CUdeviceptr_v1 from, unsigned bytes, CUstream) {
  return copy(address_of(to), from, bytes, Wait::kNo);
}
CUDA(cuMemcpyDtoHAsync_v2)(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return copy(address_of(to), from, bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2);
CUDA(cuMemcpyDtoH_v2)(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy(address_of(to), from, bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2);
CUDA(cuMemcpyHtoA)(CUarray to, unsigned to_offset, const void* from, unsigned bytes) {
  return copy(inside(to, to_offset), address_of(from), bytes, Wait::kYes);
}
CUDA(cuMemcpyHtoAAsync)
(CUarray to, unsigned to_offset, const void* from, unsigned bytes, CUstream) {
  return copy(inside(to, to_offset), address_of(from), bytes, Wait::kNo);
}
CUDA(cuMemcpyHtoAAsync_v2)
(CUarray to, std::size_t to_offset, const void* from, std::size_t bytes, CUstream) {
  return copy(inside(to, to_offset), address_of(from), bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyHtoAAsync_v2_ptsz, cuMemcpyHtoAAsync_v2);
CUDA(cuMemcpyHtoA_v2)(CUarray to, std::size_t to_offset, const void* from, std::size_t bytes) {
  return copy(inside(to, to_offset), address_of(from), bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyHtoA_v2_ptds, cuMemcpyHtoA_v2);
CUDA(cuMemcpyHtoD)(CUdeviceptr_v1 to, const void* from, unsigned bytes) {
  return copy(to, address_of(from), bytes, Wait::kYes);
}
CUDA(cuMemcpyHtoDAsync)(CUdeviceptr_v1 to, const void* from, unsigned bytes, CUstream) {
  return copy(to, address_of(from), bytes, Wait::kNo);
}
CUDA(cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  return copy(to, address_of(from), bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2);
CUDA(cuMemcpyHtoD_v2)(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy(to, address_of(from), bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2);
CUDA(cuMemcpyPeer)(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes) {
  return copy(to, from, bytes, Wait::kYes);
}
CUDA_ALIAS(cuMemcpyPeer_ptds, cuMemcpyPeer);
CUDA(cuMemcpyPeerAsync)
(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes, CUstream) {
  return copy(to, from, bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync);
CUDA(cuMemcpyWithAttributesAsync)
(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, void*, CUstream) {
  return copy(to, from, bytes, Wait::kNo);
}
CUDA_ALIAS(cuMemcpyWithAttributesAsync_ptsz, cuMemcpyWithAttributesAsync);
CUDA(cuMemsetD16)(CUdeviceptr_v1 to, unsigned short value, unsigned count) {
  return fill(to, 0, value, count, 1);
}
CUDA(cuMemsetD16Async)(CUdeviceptr to, unsigned short value, std::size_t count, CUstream) {
  return fill(to, 0, value, count, 1);
}
CUDA_ALIAS(cuMemsetD16Async_ptsz, cuMemsetD16Async);
CUDA(cuMemsetD16_v2)(CUdeviceptr to, unsigned short value, std::size_t count) {
  return fill(to, 0, value, count, 1);
}
CUDA_ALIAS(cuMemsetD16_v2_ptds, cuMemsetD16_v2);
CUDA(cuMemsetD2D16)
(CUdeviceptr_v1 to, unsigned pitch, unsigned short value, unsigned width, unsigned height) {
  return fill(to, pitch, value, width, height);
}
CUDA(cuMemsetD2D16Async)
(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height,
 CUstream) {
  return fill(to, pitch, value, width, height);
}
CUDA_ALIAS(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async);
CUDA(cuMemsetD2D16_v2)
(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height) {
  return fill(to, pitch, value, width, height);
}
CUDA_ALIAS(cuMemsetD2D16_v2_ptds, cuMemsetD2D16_v2);
CUDA(cuMemsetD2D32)
(CUdeviceptr_v1 to, unsigned pitch, unsigned value, unsigned width, unsigned height) {
  return fill(to, pitch, value, width, height);
}
CUDA(cuMemsetD2D32Async)
(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height,
 CUstream) {
  return fill(to, pitch, value, width, height);
}
CUDA_ALIAS(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async);
CUDA(cuMemsetD2D32_v2)
(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height) {
  return fill(to, pitch, value, width, height);
}
CUDA_ALIAS(cuMemsetD2D32_v2_ptds, cuMemsetD2D32_v2);
CUDA(cuMemsetD2D8)
(CUdeviceptr_v1 to, unsigned pitch, unsigned char value, unsigned width, unsigned height) {
  return fill(to, pitch, value, width, height);
}
CUDA(cuMemsetD2D8Async)
(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height,
 CUstream) {
  return fill(to, pitch, value, width, height);
}
CUDA_ALIAS(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async);
CUDA(cuMemsetD2D8_v2)
(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height) {
  return fill(to, pitch, value, width, height);
}
CUDA_ALIAS(cuMemsetD2D8_v2_ptds, cuMemsetD2D8_v2);
CUDA(cuMemsetD32)(CUdeviceptr_v1 to, unsigned value, unsigned count) {
  return fill(to, 0, value, count, 1);
}
CUDA(cuMemsetD32Async)(CUdeviceptr to, unsigned value, std::size_t count, CUstream) {
  return fill(to, 0, value, count, 1);
}
CUDA_ALIAS(cuMemsetD32Async_ptsz, cuMemsetD32Async);
CUDA(cuMemsetD32_v2)(CUdeviceptr to, unsigned value, std::size_t count) {
  return fill(to, 0, value, count, 1);
}
CUDA_ALIAS(cuMemsetD32_v2_ptds, cuMemsetD32_v2);
CUDA(cuMemsetD8)(CUdeviceptr_v1 to, unsigned char value, unsigned count) {
  return fill(to, 0, value, count, 1);
}
CUDA(cuMemsetD8Async)(CUdeviceptr to, unsigned char value, std::size_t count, CUstream) {
  return fill(to, 0, value, count, 1);
}
CUDA_ALIAS(cuMemsetD8Async_ptsz, cuMemsetD8Async);
CUDA(cuMemsetD8_v2)(CUdeviceptr to, unsigned char value, std::size_t count) {
  return fill(to, 0, value, count, 1);
}
CUDA_ALIAS(cuMemsetD8_v2_ptds, cuMemsetD8_v2);
