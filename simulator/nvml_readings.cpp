// Values that change over time: memory, utilization, clocks, power, temperature, errors.
// wire/sim_load.hpp computes them.
#include "simulator/nvml_core.hpp"
#include "simulator/nvml_structs.hpp"

using namespace berth::simulator;

namespace {

constexpr Ask needs(std::uint32_t ability) {
  return {ability, false, false};
}

nvmlReturn_t give(std::uint32_t value, std::uint32_t* into) {
  *into = value;
  return NVML_SUCCESS;
}

struct Memory {
  std::uint64_t total, reserved, used;
};

Memory memory_of(const Call& call) {
  const wire::Moment at = call.moment();
  if (!call.on_partition()) {
    const std::uint64_t most = call.device().memory_total - call.device().memory_reserved;
    std::uint64_t used = at.memory_used();
    for_cuda_users(call.number(), [&](std::int64_t, std::uint64_t bytes) { used += bytes; });
    return {call.device().memory_total, call.device().memory_reserved, used < most ? used : most};
  }
  const wire::Partition partition = call.partition_info();
  return {partition.memory_total, 0, at.memory_used(call.partition())};
}

constexpr Ask kMemory{wire::k_memory, false, true};
constexpr std::uint32_t kSamplePeriodUs = wire::kSamplePeriod / 1000;

/// Returns 0 % for an engine, such as the video encoder, that no simulated process uses.
nvmlReturn_t give_engine(std::uint32_t* percent, std::uint32_t* period) {
  *period = kSamplePeriodUs;
  return give(0, percent);
}

nvmlReturn_t give_clock(const Call& call, nvmlClockType_t clock, bool highest, std::uint32_t* mhz) {
  const wire::Moment at = call.moment();
  const wire::Device& d = call.device();
  switch (clock) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM:
      return give(highest ? d.clock_graphics_max : at.clock_graphics(), mhz);
    case NVML_CLOCK_MEM:
      return give(highest ? d.clock_memory_max : at.clock_memory(), mhz);
    case NVML_CLOCK_VIDEO:
      return give(highest ? d.clock_video_max : at.clock_video(), mhz);
    default:
      return NVML_ERROR_INVALID_ARGUMENT;
  }
}

}  // namespace

NVML(nvmlDeviceGetMemoryInfo)(nvmlDevice_t device, nvmlMemory_t* memory) {
  ENTER(nvmlDeviceGetMemoryInfo, device, memory != nullptr, kMemory);
  const Memory m = memory_of(call);
  *memory = {m.total, m.total - m.reserved - m.used, m.used + m.reserved};
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetMemoryInfo_v2)(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  ENTER(nvmlDeviceGetMemoryInfo_v2, device, memory != nullptr, kMemory);
  if (memory->version != nvml_struct_version<nvmlMemory_v2_t>(2))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const Memory m = memory_of(call);
  memory->total = m.total;
  memory->reserved = m.reserved;
  memory->used = m.used;
  memory->free = m.total - m.reserved - m.used;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetBAR1MemoryInfo)(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  ENTER(nvmlDeviceGetBAR1MemoryInfo, device, memory != nullptr, Ask{wire::k_bar1, false, true});
  const wire::Device& d = call.device();
  *memory = {d.bar1_total, d.bar1_total - d.bar1_used, d.bar1_used};
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetConfComputeMemSizeInfo)
(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t* memory) {
  ENTER(nvmlDeviceGetConfComputeMemSizeInfo, device, memory != nullptr, needs(wire::k_memory));
  *memory = {0, call.device().memory_total >> 10U};
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetUtilizationRates)(nvmlDevice_t device, nvmlUtilization_t* percent) {
  ENTER(nvmlDeviceGetUtilizationRates, device, percent != nullptr, needs(wire::k_utilization));
  if (call.device().mig_enabled != 0)
    return NVML_ERROR_NOT_SUPPORTED;  // with MIG enabled, NVML reports utilization only through GPM
  const wire::Moment at = call.moment();
  const std::uint32_t sum = at.utilization() + cuda_utilization(call.number());
  const std::uint32_t load = sum < 100 ? sum : 100;
  *percent = {load, load * 55 / 100};
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetEncoderUtilization)
(nvmlDevice_t device, std::uint32_t* percent, std::uint32_t* period) {
  ENTER(nvmlDeviceGetEncoderUtilization, device, percent != nullptr && period != nullptr,
        needs(wire::k_encoder));
  return give_engine(percent, period);
}
NVML(nvmlDeviceGetDecoderUtilization)
(nvmlDevice_t device, std::uint32_t* percent, std::uint32_t* period) {
  ENTER(nvmlDeviceGetDecoderUtilization, device, percent != nullptr && period != nullptr,
        needs(wire::k_encoder));
  return give_engine(percent, period);
}
NVML(nvmlDeviceGetJpgUtilization)
(nvmlDevice_t device, std::uint32_t* percent, std::uint32_t* period) {
  ENTER(nvmlDeviceGetJpgUtilization, device, percent != nullptr && period != nullptr,
        needs(wire::k_encoder));
  return give_engine(percent, period);
}
NVML(nvmlDeviceGetOfaUtilization)
(nvmlDevice_t device, std::uint32_t* percent, std::uint32_t* period) {
  ENTER(nvmlDeviceGetOfaUtilization, device, percent != nullptr && period != nullptr,
        needs(wire::k_encoder));
  return give_engine(percent, period);
}
NVML(nvmlDeviceGetEncoderStats)
(nvmlDevice_t device, std::uint32_t* sessions, std::uint32_t* fps, std::uint32_t* latency) {
  ENTER(nvmlDeviceGetEncoderStats, device,
        sessions != nullptr && fps != nullptr && latency != nullptr, needs(wire::k_encoder));
  *sessions = *fps = *latency = 0;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetTemperature)
(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, std::uint32_t* celsius) {
  ENTER(nvmlDeviceGetTemperature, device, celsius != nullptr && sensor == NVML_TEMPERATURE_GPU,
        needs(wire::k_temperature));
  return give(call.moment().temperature(), celsius);
}
NVML(nvmlDeviceGetTemperatureV)(nvmlDevice_t device, nvmlTemperature_t* temperature) {
  ENTER(nvmlDeviceGetTemperatureV, device, temperature != nullptr, needs(wire::k_temperature));
  if (temperature->version != nvml_struct_version<nvmlTemperature_t>(1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (temperature->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  temperature->temperature = static_cast<std::int32_t>(call.moment().temperature());
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetMarginTemperature)(nvmlDevice_t device, nvmlMarginTemperature_t* margin) {
  ENTER(nvmlDeviceGetMarginTemperature, device, margin != nullptr, needs(wire::k_temperature));
  if (margin->version != nvml_struct_version<nvmlMarginTemperature_t>(1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  margin->marginTemperature = static_cast<std::int32_t>(call.device().temperature_slowdown) -
                              static_cast<std::int32_t>(call.moment().temperature());
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetTemperatureThreshold)
(nvmlDevice_t device, nvmlTemperatureThresholds_t which, std::uint32_t* celsius) {
  ENTER(nvmlDeviceGetTemperatureThreshold, device, celsius != nullptr, needs(wire::k_temperature));
  const wire::Device& d = call.device();
  switch (which) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
      return give(d.temperature_shutdown, celsius);
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
      return give(d.temperature_slowdown, celsius);
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
      return give(d.temperature_slowdown - 2, celsius);
    default:
      return NVML_ERROR_NOT_SUPPORTED;
  }
}
NVML(nvmlDeviceGetNumFans)(nvmlDevice_t device, std::uint32_t* count) {
  ENTER(nvmlDeviceGetNumFans, device, count != nullptr, needs(wire::k_fan));
  return give(call.device().fans, count);
}
NVML(nvmlDeviceGetFanSpeed)(nvmlDevice_t device, std::uint32_t* percent) {
  ENTER(nvmlDeviceGetFanSpeed, device, percent != nullptr, needs(wire::k_fan));
  if (call.device().fans == 0) return NVML_ERROR_NOT_SUPPORTED;
  return give(call.moment().fan_percent(), percent);
}
NVML(nvmlDeviceGetFanSpeed_v2)(nvmlDevice_t device, std::uint32_t fan, std::uint32_t* percent) {
  ENTER(nvmlDeviceGetFanSpeed_v2, device, percent != nullptr, needs(wire::k_fan));
  if (call.device().fans == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (fan >= call.device().fans) return NVML_ERROR_INVALID_ARGUMENT;
  return give(call.moment().fan_percent(), percent);
}

NVML(nvmlDeviceGetPowerUsage)(nvmlDevice_t device, std::uint32_t* milliwatts) {
  ENTER(nvmlDeviceGetPowerUsage, device, milliwatts != nullptr, needs(wire::k_power));
  return give(call.moment().power(), milliwatts);
}
NVML(nvmlDeviceGetEnforcedPowerLimit)(nvmlDevice_t device, std::uint32_t* milliwatts) {
  ENTER(nvmlDeviceGetEnforcedPowerLimit, device, milliwatts != nullptr, needs(wire::k_power));
  return give(call.device().power_limit, milliwatts);
}
NVML(nvmlDeviceGetPowerManagementLimit)(nvmlDevice_t device, std::uint32_t* milliwatts) {
  ENTER(nvmlDeviceGetPowerManagementLimit, device, milliwatts != nullptr, needs(wire::k_power));
  return give(call.device().power_limit, milliwatts);
}
NVML(nvmlDeviceGetPowerManagementDefaultLimit)(nvmlDevice_t device, std::uint32_t* milliwatts) {
  ENTER(nvmlDeviceGetPowerManagementDefaultLimit, device, milliwatts != nullptr,
        needs(wire::k_power));
  return give(call.device().power_limit_default, milliwatts);
}
NVML(nvmlDeviceGetPowerManagementLimitConstraints)
(nvmlDevice_t device, std::uint32_t* least, std::uint32_t* most) {
  ENTER(nvmlDeviceGetPowerManagementLimitConstraints, device, least != nullptr && most != nullptr,
        needs(wire::k_power));
  *least = call.device().power_limit_min;
  *most = call.device().power_limit_max;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetPowerManagementMode)(nvmlDevice_t device, nvmlEnableState_t* mode) {
  ENTER(nvmlDeviceGetPowerManagementMode, device, mode != nullptr, needs(wire::k_power));
  *mode = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetTotalEnergyConsumption)(nvmlDevice_t device, std::uint64_t* millijoules) {
  ENTER(nvmlDeviceGetTotalEnergyConsumption, device, millijoules != nullptr, needs(wire::k_energy));
  *millijoules = call.moment().energy();
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetClockInfo)(nvmlDevice_t device, nvmlClockType_t clock, std::uint32_t* mhz) {
  ENTER(nvmlDeviceGetClockInfo, device, mhz != nullptr, needs(wire::k_clocks));
  return give_clock(call, clock, false, mhz);
}
NVML(nvmlDeviceGetMaxClockInfo)(nvmlDevice_t device, nvmlClockType_t clock, std::uint32_t* mhz) {
  ENTER(nvmlDeviceGetMaxClockInfo, device, mhz != nullptr, needs(wire::k_clocks));
  return give_clock(call, clock, true, mhz);
}
NVML(nvmlDeviceGetClock)
(nvmlDevice_t device, nvmlClockType_t clock, nvmlClockId_t id, std::uint32_t* mhz) {
  ENTER(nvmlDeviceGetClock, device, mhz != nullptr, needs(wire::k_clocks));
  return give_clock(call, clock, id != NVML_CLOCK_ID_CURRENT, mhz);
}
NVML(nvmlDeviceGetPerformanceState)(nvmlDevice_t device, nvmlPstates_t* state) {
  ENTER(nvmlDeviceGetPerformanceState, device, state != nullptr, needs(wire::k_performance_state));
  *state = static_cast<nvmlPstates_t>(call.moment().performance_state());
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetPowerState)(nvmlDevice_t device, nvmlPstates_t* state) {
  ENTER(nvmlDeviceGetPowerState, device, state != nullptr, needs(wire::k_performance_state));
  *state = static_cast<nvmlPstates_t>(call.moment().performance_state());
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetCurrentClocksEventReasons)(nvmlDevice_t device, std::uint64_t* reasons) {
  ENTER(nvmlDeviceGetCurrentClocksEventReasons, device, reasons != nullptr,
        needs(wire::k_throttle_reasons));
  *reasons = call.moment().throttle_reasons();
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetCurrentClocksThrottleReasons)(nvmlDevice_t device, std::uint64_t* reasons) {
  ENTER(nvmlDeviceGetCurrentClocksThrottleReasons, device, reasons != nullptr,
        needs(wire::k_throttle_reasons));
  *reasons = call.moment().throttle_reasons();
  return NVML_SUCCESS;
}
