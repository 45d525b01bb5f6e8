// The rest of OpenCL's ABI that the layer wraps; see also vendor/opencl/abi.hpp. Values and layouts
// are those of the Khronos headers (OpenCL-Headers, CL/cl.h, CL/cl_ext.h and CL/cl_layer.h,
// Apache-2.0).
#pragma once

#include <cstddef>
#include <cstdint>

#include "vendor/opencl/abi.hpp"

namespace berth::opencl {

using Int = std::int32_t;
using Uint = std::uint32_t;
using Flags = std::uint64_t;

struct ImageFormat {
  Uint order, type;
};
static_assert(sizeof(ImageFormat) == 8);

struct ImageDescription {
  Uint type;
  std::size_t width, height, depth, array_size, row_pitch, slice_pitch;
  Uint mip_levels, samples;
  Buffer parent;  // the image uses the memory of this object
};
static_assert(sizeof(ImageDescription) == 72 && offsetof(ImageDescription, parent) == 64);

constexpr Int kDeviceNotAvailable = -2, kInvalidValue = -30;
constexpr Int kComplete = 0, kRunning = 1;
constexpr Int kProfilingInfoNotAvailable = -7;
constexpr Uint kLayerApiVersion = 0x4240, kLayerName = 0x4241, kLayerApi100 = 100;
constexpr Uint kDeviceParent = 0x1042;
// the value is two size_t in KiB: the free memory and the largest free block
constexpr Uint kDeviceGlobalFreeMemoryAmd = 0x4039;
// of cl_khr_device_uuid; the value has 16 bytes
constexpr Uint kDeviceUuidKhr = 0x106A;
constexpr Flags kDeviceTypeGpu = 1U << 2U;
constexpr Uint kContextDevices = 0x1081;
constexpr Uint kDevicePlatform = 0x1031;
constexpr Uint kQueueContext = 0x1090, kQueueDevice = 0x1091;
constexpr Uint kQueueProperties = 0x1093, kQueuePropertiesArray = 0x1098;
constexpr Flags kQueueOutOfOrder = 1U << 0U, kQueueOnDevice = 1U << 2U;
constexpr Uint kEventQueue = 0x11D0, kEventCommandType = 0x11D1, kEventStatus = 0x11D3;
constexpr Uint kCommandUser = 0x1204;
constexpr Uint kMemSize = 0x1102;
constexpr Uint kImageElementSize = 0x1111;

}  // namespace berth::opencl
