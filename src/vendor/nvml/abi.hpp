// NVML's ABI, written by hand: only the structs that Berth or its simulator use. Includes only
// freestanding headers and nothing from Berth, so that the simulator and the preloaded guard can
// share it. Source: nvml.h of API version 13 (as published with NVIDIA/go-nvml 2f9e261,
// 2026-07-01), except where noted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vendor/nvml/abi_constants.hpp"

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names, so that its documentation can be
// searched for them.

struct nvmlDevice_st;
using nvmlDevice_t = nvmlDevice_st*;
struct nvmlEventSet_st;
using nvmlEventSet_t = nvmlEventSet_st*;
struct nvmlGpmSample_st;
using nvmlGpmSample_t = nvmlGpmSample_st*;
struct nvmlGpuInstance_st;
using nvmlGpuInstance_t = nvmlGpuInstance_st*;
struct nvmlComputeInstance_st;
using nvmlComputeInstance_t = nvmlComputeInstance_st*;

// The value of a `version` member: the size of the struct, and the struct's version in the top byte
// (nvml.h, NVML_STRUCT_VERSION).
template <typename Struct>
constexpr std::uint32_t nvml_struct_version(std::uint32_t version) {
  return static_cast<std::uint32_t>(sizeof(Struct)) | (version << 24U);
}

struct nvmlPciInfo_t {  // the result of nvmlDeviceGetPciInfo_v3
  /// Printf format of the text: "%04X:%02X:%02X.0".
  char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
  std::uint32_t domain, bus, device;
  std::uint32_t pciDeviceId;  // device id in the upper 16 bits, vendor id in the lower 16 bits
  std::uint32_t pciSubSystemId;
  char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];  // printf format of the text: "%08X:%02X:%02X.0"
};
static_assert(sizeof(nvmlPciInfo_t) == 68);

struct nvmlPciInfoExt_t {
  std::uint32_t version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
  char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
};
static_assert(sizeof(nvmlPciInfoExt_t) == 64);

struct nvmlEccErrorCounts_t {
  std::uint64_t l1Cache, l2Cache, deviceMemory, registerFile;
};
static_assert(sizeof(nvmlEccErrorCounts_t) == 32);

struct nvmlUtilization_t {
  std::uint32_t gpu, memory;  // percent
};
static_assert(sizeof(nvmlUtilization_t) == 8);

struct nvmlMemory_t {
  std::uint64_t total, free, used;  // in this version, `used` includes reserved memory
};
static_assert(sizeof(nvmlMemory_t) == 24);

struct nvmlMemory_v2_t {
  std::uint32_t version;  // nvml_struct_version<nvmlMemory_v2_t>(2)
  std::uint64_t total, reserved, free, used;
};
static_assert(sizeof(nvmlMemory_v2_t) == 40 &&
              nvml_struct_version<nvmlMemory_v2_t>(2) == 0x02000028);

/// Memory limits of a control group, without a version member (nvml.h of CUDA 13.5).
struct nvmlSetMemoryLimits_v1_t {
  const char* nameSpace;  // the full path of the control group in sysfs
  std::uint64_t softLimit, hardLimit;
};
static_assert(sizeof(nvmlSetMemoryLimits_v1_t) == 24);
struct nvmlGetMemoryLimits_v1_t {
  const char* nameSpace;
  std::uint64_t softLimit, hardLimit, currentUsed;
};
static_assert(sizeof(nvmlGetMemoryLimits_v1_t) == 32);
inline constexpr std::uint64_t NVML_DEVICE_MEMORY_LIMIT_MAX = ~std::uint64_t{0};  // no limit

struct nvmlBAR1Memory_t {
  std::uint64_t bar1Total, bar1Free, bar1Used;
};
static_assert(sizeof(nvmlBAR1Memory_t) == 24);

struct nvmlProcessInfo_v1_t {
  std::uint32_t pid;
  std::uint64_t usedGpuMemory;
};
static_assert(sizeof(nvmlProcessInfo_v1_t) == 16);

/// The process record that functions named _v2 and _v3 write.
struct nvmlProcessInfo_v2_t {
  std::uint32_t pid;
  std::uint64_t usedGpuMemory;
  std::uint32_t gpuInstanceId, computeInstanceId;  // 0xffffffff if the process does not use MIG
};
static_assert(sizeof(nvmlProcessInfo_v2_t) == 24);

/// The process record of nvmlDeviceGetRunningProcessDetailList. The _v3 functions of drivers 535.43
/// to 535.86 wrote this record, too (nvitop issue 79).
struct nvmlProcessDetail_v1_t {
  std::uint32_t pid;
  std::uint64_t usedGpuMemory;
  std::uint32_t gpuInstanceId, computeInstanceId;
  std::uint64_t usedGpuCcProtectedMemory;
};
static_assert(sizeof(nvmlProcessDetail_v1_t) == 32);

struct nvmlProcessDetailList_t {
  std::uint32_t version, mode, numProcArrayEntries;
  nvmlProcessDetail_v1_t* procArray;
};
static_assert(sizeof(void*) != 8 || sizeof(nvmlProcessDetailList_t) == 24);

struct nvmlProcessUtilizationSample_t {
  std::uint32_t pid;
  std::uint64_t timeStamp;  // CPU time stamp in microseconds
  std::uint32_t smUtil, memUtil, encUtil, decUtil;
};
static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32);

struct nvmlProcessUtilizationInfo_v1_t {
  std::uint64_t timeStamp;
  std::uint32_t pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
};
static_assert(sizeof(nvmlProcessUtilizationInfo_v1_t) == 40);

struct nvmlProcessesUtilizationInfo_t {
  std::uint32_t version, processSamplesCount;
  std::uint64_t lastSeenTimeStamp;
  nvmlProcessUtilizationInfo_v1_t* procUtilArray;
};
static_assert(sizeof(void*) != 8 || sizeof(nvmlProcessesUtilizationInfo_t) == 24);

struct nvmlTemperature_t {  // argument of nvmlDeviceGetTemperatureV
  std::uint32_t version;    // nvml_struct_version<nvmlTemperature_t>(1)
  nvmlTemperatureSensors_t sensorType;
  std::int32_t temperature;
};
static_assert(sizeof(nvmlTemperature_t) == 12);

union nvmlValue_t {
  double dVal;
  std::int32_t siVal;
  std::uint32_t uiVal;
  unsigned long ulVal;
  std::uint64_t ullVal;
  std::int64_t sllVal;
  std::uint16_t usVal;
};
static_assert(sizeof(nvmlValue_t) == 8);

struct nvmlFieldValue_t {
  std::uint32_t fieldId, scopeId;
  std::int64_t timestamp, latencyUsec;
  nvmlValueType_t valueType;
  nvmlReturn_t nvmlReturn;  // result for this field only; check it before `value`
  nvmlValue_t value;
};
static_assert(sizeof(nvmlFieldValue_t) == 40);

struct nvmlRemappedRowsInfo_v2_t {
  std::uint32_t corrActiveRemaps, corrInactiveRemaps, uncActiveRemaps, uncInactiveRemaps, bPending,
      bFailureOccurred;
};
static_assert(sizeof(nvmlRemappedRowsInfo_v2_t) == 24);

struct nvmlDeviceAttributes_t {  // attributes of a MIG device
  std::uint32_t multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
  std::uint32_t sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
  std::uint64_t memorySizeMB;  // MiB
};
static_assert(sizeof(nvmlDeviceAttributes_t) == 40);

// A MIG partition is a GPU instance (memory and engines) with a compute instance inside.
struct nvmlGpuInstancePlacement_t {
  std::uint32_t start, size;  // both are counted in memory slices of the device
};
static_assert(sizeof(nvmlGpuInstancePlacement_t) == 8);

struct nvmlGpuInstanceProfileInfo_v2_t {
  std::uint32_t version;  // nvml_struct_version<nvmlGpuInstanceProfileInfo_v2_t>(2)
  std::uint32_t id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
  std::uint32_t copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  std::uint64_t memorySizeMB;                  // MiB
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];  // name of the profile, such as "MIG 1g.10gb"
};
static_assert(sizeof(nvmlGpuInstanceProfileInfo_v2_t) == 152);

struct nvmlGpuInstanceInfo_t {
  nvmlDevice_t device;
  std::uint32_t id, profileId;
  nvmlGpuInstancePlacement_t placement;
};
static_assert(sizeof(nvmlGpuInstanceInfo_t) == 24);

struct nvmlComputeInstanceProfileInfo_t {
  std::uint32_t id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount;
  std::uint32_t sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
};
static_assert(sizeof(nvmlComputeInstanceProfileInfo_t) == 36);

struct nvmlComputeInstanceInfo_t {  // the result of nvmlComputeInstanceGetInfo_v2
  nvmlDevice_t device;
  nvmlGpuInstance_t gpuInstance;
  std::uint32_t id, profileId;
  nvmlGpuInstancePlacement_t placement;
};
static_assert(sizeof(nvmlComputeInstanceInfo_t) == 32);

struct nvmlGpuFabricInfo_t {
  std::uint8_t clusterUuid[16];
  nvmlReturn_t status;  // the result of the fabric registration, when `state` is "completed"
  std::uint32_t cliqueId;
  std::uint8_t state;  // NVML_GPU_FABRIC_STATE_…
};
static_assert(sizeof(nvmlGpuFabricInfo_t) == 28);

struct nvmlGridLicenseExpiry_t {
  std::uint32_t year;
  std::uint16_t month, day, hour, min, sec;
  std::uint8_t status;
};
static_assert(sizeof(nvmlGridLicenseExpiry_t) == 16);

struct nvmlGridLicensableFeature_t {
  nvmlGridLicenseFeatureCode_t featureCode;
  std::uint32_t featureState;  // nonzero: the feature has a licence
  char licenseInfo[128], productName[128];
  std::uint32_t featureEnabled;
  nvmlGridLicenseExpiry_t licenseExpiry;
};
static_assert(sizeof(nvmlGridLicensableFeature_t) == 284);

struct nvmlGridLicensableFeatures_t {  // the result of nvmlDeviceGetGridLicensableFeatures_v4
  std::int32_t isGridLicenseSupported;
  std::uint32_t licensableFeaturesCount;
  nvmlGridLicensableFeature_t gridLicensableFeatures[3];
};
static_assert(sizeof(nvmlGridLicensableFeatures_t) == 860);

struct nvmlConfComputeSystemState_t {
  /// ccFeature is 1 if confidential computing is on.
  std::uint32_t environment, ccFeature, devToolsMode;
};
static_assert(sizeof(nvmlConfComputeSystemState_t) == 12);

struct nvmlGpmSupport_t {
  std::uint32_t version;
  std::uint32_t isSupportedDevice;
};
static_assert(sizeof(nvmlGpmSupport_t) == 8);

struct nvmlGpmMetric_t {
  std::uint32_t metricId;
  nvmlReturn_t nvmlReturn;
  double value;  // only valid if nvmlReturn is NVML_SUCCESS
  struct {
    char *shortName, *longName, *unit;
  } metricInfo;
};
static_assert(sizeof(void*) != 8 || sizeof(nvmlGpmMetric_t) == 40);

struct nvmlGpmMetricsGet_t {
  std::uint32_t version;
  std::uint32_t numMetrics;
  nvmlGpmSample_t sample1, sample2;
  nvmlGpmMetric_t metrics[NVML_GPM_METRIC_MAX];
};

struct nvmlEventData_t {  // the result of nvmlEventSetWait_v2
  nvmlDevice_t device;
  std::uint64_t eventType, eventData;  // for Xid events, eventData is the Xid
  std::uint32_t gpuInstanceId, computeInstanceId;
};
static_assert(sizeof(void*) != 8 || sizeof(nvmlEventData_t) == 32);

// NOLINTEND(readability-identifier-naming)
