// The constants of NVML's ABI: return codes, enumerations, buffer sizes, bits. Enumerations have a
// fixed underlying type, so that an unknown value from the driver is not undefined behaviour.
// Source: nvml.h of API version 13 (as published with NVIDIA/go-nvml 2f9e261, 2026-07-01).
#pragma once

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names, so that its documentation can be
// searched for them.

enum nvmlReturn_t : std::uint32_t {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_ALREADY_INITIALIZED = 5,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_INSUFFICIENT_POWER = 8,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_IRQ_ISSUE = 11,
  NVML_ERROR_LIBRARY_NOT_FOUND = 12,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_CORRUPTED_INFOROM = 14,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_RESET_REQUIRED = 16,
  NVML_ERROR_OPERATING_SYSTEM = 17,
  NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
  NVML_ERROR_IN_USE = 19,
  NVML_ERROR_MEMORY = 20,
  NVML_ERROR_NO_DATA = 21,
  NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
  NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
  NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_ERROR_DEPRECATED = 26,
  NVML_ERROR_NOT_READY = 27,
  NVML_ERROR_GPU_NOT_FOUND = 28,
  NVML_ERROR_INVALID_STATE = 29,
  NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
  NVML_ERROR_UNKNOWN = 999,
};

inline constexpr std::uint32_t NVML_INIT_FLAG_NO_GPUS = 1;
inline constexpr std::uint32_t NVML_INIT_FLAG_NO_ATTACH = 2;

inline constexpr std::size_t NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE = 32;
inline constexpr std::size_t NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE = 16;
inline constexpr std::size_t NVML_DEVICE_UUID_V2_BUFFER_SIZE = 96;
inline constexpr std::size_t NVML_DEVICE_NAME_V2_BUFFER_SIZE = 96;
inline constexpr std::size_t NVML_DEVICE_SERIAL_BUFFER_SIZE = 30;
inline constexpr std::size_t NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE = 32;
inline constexpr std::size_t NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80;
inline constexpr std::size_t NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE = 80;

/// The value "not available" of 64-bit members (usedGpuMemory under WDDM and WSL) and of 32-bit
/// members (gpuInstanceId without MIG).
inline constexpr std::uint64_t NVML_VALUE_NOT_AVAILABLE_64 = ~std::uint64_t{0};
inline constexpr std::uint32_t NVML_VALUE_NOT_AVAILABLE_32 = ~std::uint32_t{0};

enum nvmlEnableState_t : std::uint32_t { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 };
enum nvmlIntNvLinkDeviceType_t : std::uint32_t {
  NVML_NVLINK_DEVICE_TYPE_GPU = 0,
  NVML_NVLINK_DEVICE_TYPE_IBMNPU = 1,
  NVML_NVLINK_DEVICE_TYPE_SWITCH = 2,
  NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 255
};
enum nvmlDriverModel_t : std::uint32_t {
  NVML_DRIVER_WDDM = 0,
  NVML_DRIVER_WDM = 1,
  NVML_DRIVER_MCDM = 2
};
enum nvmlComputeMode_t : std::uint32_t {
  NVML_COMPUTEMODE_DEFAULT = 0,
  NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
  NVML_COMPUTEMODE_PROHIBITED = 2,
  NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
};
enum nvmlClockType_t : std::uint32_t {
  NVML_CLOCK_GRAPHICS = 0,
  NVML_CLOCK_SM = 1,
  NVML_CLOCK_MEM = 2,
  NVML_CLOCK_VIDEO = 3,
  NVML_CLOCK_COUNT = 4,
};
enum nvmlClockId_t : std::uint32_t {
  NVML_CLOCK_ID_CURRENT = 0,
  NVML_CLOCK_ID_APP_CLOCK_TARGET = 1,
  NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 2,
  NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 3,
};
enum nvmlTemperatureSensors_t : std::uint32_t { NVML_TEMPERATURE_GPU = 0 };
enum nvmlTemperatureThresholds_t : std::uint32_t {
  NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
  NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
  NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
  NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
  NVML_TEMPERATURE_THRESHOLD_COUNT = 8,
};
enum nvmlPstates_t : std::uint32_t {
  NVML_PSTATE_0 = 0,
  NVML_PSTATE_15 = 15,
  NVML_PSTATE_UNKNOWN = 32
};
enum nvmlMemoryErrorType_t : std::uint32_t {
  NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
  NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
};
enum nvmlEccCounterType_t : std::uint32_t { NVML_VOLATILE_ECC = 0, NVML_AGGREGATE_ECC = 1 };
enum nvmlMemoryLocation_t : std::uint32_t {
  NVML_MEMORY_LOCATION_L1_CACHE = 0,
  NVML_MEMORY_LOCATION_L2_CACHE = 1,
  NVML_MEMORY_LOCATION_DRAM = 2,
  NVML_MEMORY_LOCATION_REGISTER_FILE = 3,
  NVML_MEMORY_LOCATION_SRAM = 7,
};
enum nvmlPcieUtilCounter_t : std::uint32_t {
  NVML_PCIE_UTIL_TX_BYTES = 0,
  NVML_PCIE_UTIL_RX_BYTES = 1
};
enum nvmlBrandType_t : std::uint32_t {
  NVML_BRAND_UNKNOWN = 0,
  NVML_BRAND_QUADRO = 1,
  NVML_BRAND_TESLA = 2,
  NVML_BRAND_GEFORCE = 5,
  NVML_BRAND_TITAN = 6,
  NVML_BRAND_NVIDIA_RTX = 13,
  NVML_BRAND_NVIDIA = 14,
};
enum nvmlValueType_t : std::uint32_t {
  NVML_VALUE_TYPE_DOUBLE = 0,
  NVML_VALUE_TYPE_UNSIGNED_INT = 1,
  NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
  NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
  NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
  NVML_VALUE_TYPE_SIGNED_INT = 5,
  NVML_VALUE_TYPE_UNSIGNED_SHORT = 6,
};
/// Field ids for nvmlDeviceGetFieldValues.
inline constexpr std::uint32_t NVML_FI_DEV_ECC_SBE_VOL_TOTAL = 3, NVML_FI_DEV_ECC_DBE_VOL_TOTAL = 4,
                               NVML_FI_DEV_RETIRED_PENDING = 31, NVML_FI_DEV_MEMORY_TEMP = 82,
                               NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83,
                               NVML_FI_DEV_NVLINK_LINK_COUNT = 91,
                               NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX = 138,
                               NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139,
                               NVML_FI_DEV_REMAPPED_COR = 142, NVML_FI_DEV_REMAPPED_UNC = 143,
                               NVML_FI_DEV_REMAPPED_PENDING = 144,
                               NVML_FI_DEV_REMAPPED_FAILURE = 145, NVML_FI_DEV_POWER_AVERAGE = 185,
                               NVML_FI_DEV_POWER_INSTANT = 186,
                               NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230;
/// Scope id of a field that sums over all NVLinks.
inline constexpr std::uint32_t NVML_ALL_LINKS = 0xffffffff;
/// Ids of GPM metrics, whose values are in percent. NVML_GPM_METRIC_MAX differs between versions of
/// the header. The largest value is used here; drivers read only the first numMetrics entries.
inline constexpr std::uint32_t NVML_GPM_METRIC_SM_UTIL = 2, NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5,
                               NVML_GPM_METRIC_DRAM_BW_UTIL = 10, NVML_GPM_METRIC_MAX = 333;
inline constexpr std::uint32_t NVML_GPM_METRICS_GET_VERSION = 1, NVML_GPM_SUPPORT_VERSION = 1;
/// An architecture's number; also a plain integer in NVML. 2 is Kepler, and 3 is Maxwell. The
/// numbers 11 and 12 were never published.
using nvmlDeviceArchitecture_t = std::uint32_t;
inline constexpr std::uint32_t NVML_DEVICE_ARCH_KEPLER = 2, NVML_DEVICE_ARCH_MAXWELL = 3,
                               NVML_DEVICE_ARCH_PASCAL = 4, NVML_DEVICE_ARCH_VOLTA = 5,
                               NVML_DEVICE_ARCH_TURING = 6, NVML_DEVICE_ARCH_AMPERE = 7,
                               NVML_DEVICE_ARCH_ADA = 8, NVML_DEVICE_ARCH_HOPPER = 9,
                               NVML_DEVICE_ARCH_BLACKWELL = 10, NVML_DEVICE_ARCH_RUBIN = 13,
                               NVML_DEVICE_ARCH_UNKNOWN = 0xffffffff;
inline constexpr std::uint32_t NVML_DEVICE_MIG_DISABLE = 0, NVML_DEVICE_MIG_ENABLE = 1;
/// All profile ids of MIG are below these counts. A device supports only some of the profiles.
inline constexpr std::uint32_t NVML_GPU_INSTANCE_PROFILE_COUNT = 0x11,
                               NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 0x8,
                               NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0;
/// Clock event reasons, called "throttle reasons" before driver 535, as a set of bits.
inline constexpr std::uint64_t NVML_CLOCKS_GPU_IDLE = 0x1, NVML_CLOCKS_APPLICATIONS_SETTING = 0x2,
                               NVML_CLOCKS_SW_POWER_CAP = 0x4, NVML_CLOCKS_HW_SLOWDOWN = 0x8,
                               NVML_CLOCKS_SYNC_BOOST = 0x10, NVML_CLOCKS_SW_THERMAL = 0x20,
                               NVML_CLOCKS_HW_THERMAL = 0x40, NVML_CLOCKS_HW_POWER_BRAKE = 0x80,
                               NVML_CLOCKS_DISPLAY_SETTING = 0x100;
inline constexpr std::uint64_t NVML_EVENT_SINGLE_BIT_ECC = 0x1, NVML_EVENT_DOUBLE_BIT_ECC = 0x2,
                               NVML_EVENT_PSTATE = 0x4, NVML_EVENT_XID = 0x8,
                               NVML_EVENT_CLOCK = 0x10;

inline constexpr std::uint8_t NVML_GPU_FABRIC_STATE_NOT_SUPPORTED = 0,
                              NVML_GPU_FABRIC_STATE_NOT_STARTED = 1,
                              NVML_GPU_FABRIC_STATE_IN_PROGRESS = 2,
                              NVML_GPU_FABRIC_STATE_COMPLETED = 3;
enum nvmlGpuVirtualizationMode_t : std::uint32_t {
  NVML_GPU_VIRTUALIZATION_MODE_NONE = 0,
  NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH = 1,
  NVML_GPU_VIRTUALIZATION_MODE_VGPU = 2,  // this process runs in a virtual machine with a vGPU
};
enum nvmlGridLicenseFeatureCode_t : std::uint32_t {
  NVML_GRID_LICENSE_FEATURE_CODE_VGPU = 1,
};
enum nvmlGpuP2PCapsIndex_t : std::uint32_t {
  NVML_P2P_CAPS_INDEX_READ = 0,
  NVML_P2P_CAPS_INDEX_WRITE = 1,
};
enum nvmlGpuP2PStatus_t : std::uint32_t {
  NVML_P2P_STATUS_OK = 0,
  NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
  NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
  NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3,
  NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4,
  NVML_P2P_STATUS_NOT_SUPPORTED = 5,
  NVML_P2P_STATUS_UNKNOWN = 6,
};

enum nvmlProcessMode_t : std::uint32_t {
  NVML_PROCESS_MODE_COMPUTE = 0,
  NVML_PROCESS_MODE_GRAPHICS = 1,
  NVML_PROCESS_MODE_MPS = 2,
  NVML_PROCESS_MODE_ALL = 3,
};

// NOLINTEND(readability-identifier-naming)
