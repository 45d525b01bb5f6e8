// Structs that only the simulator fills, for tools that read more than Berth does. Source: the
// ctypes classes of nvidia-ml-py 13.615, which copy nvml.h of API version 13.
#pragma once

#include "vendor/nvml/abi.hpp"

// NOLINTBEGIN(readability-identifier-naming)

struct nvmlPciInfo_v2_t {  // version 1 has no pciSubSystemId
  char busId[16];
  std::uint32_t domain, bus, device, pciDeviceId, pciSubSystemId;
};
static_assert(sizeof(nvmlPciInfo_v2_t) == 36);

struct nvmlMarginTemperature_t {
  std::uint32_t version;
  std::int32_t marginTemperature;
};
static_assert(sizeof(nvmlMarginTemperature_t) == 8);

struct nvmlViolationTime_t {
  std::uint64_t referenceTime, violationTime;
};

struct nvmlRowRemapperHistogramValues_t {
  std::uint32_t max, high, partial, low, none;
};

struct nvmlConfComputeMemSizeInfo_t {
  std::uint64_t protectedMemSizeKib, unprotectedMemSizeKib;
};

// NOLINTEND(readability-identifier-naming)
