#include "vendor/nvml/device.hpp"

#include <fmt/format.h>

#include <array>

#include "vendor/nvml/activity.hpp"

namespace berth::nvml {

using model::Absence;
using model::Device;
using model::Health;
using model::Reading;

namespace {

using Text =
    std::array<char, 128>;  // larger than any NVML buffer size, so a terminator always fits

std::string architecture_name(std::uint32_t architecture) {
  switch (architecture) {
    case NVML_DEVICE_ARCH_KEPLER:
      return "kepler";
    case NVML_DEVICE_ARCH_MAXWELL:
      return "maxwell";
    case NVML_DEVICE_ARCH_PASCAL:
      return "pascal";
    case NVML_DEVICE_ARCH_VOLTA:
      return "volta";
    case NVML_DEVICE_ARCH_TURING:
      return "turing";
    case NVML_DEVICE_ARCH_AMPERE:
      return "ampere";
    case NVML_DEVICE_ARCH_ADA:
      return "ada";
    case NVML_DEVICE_ARCH_HOPPER:
      return "hopper";
    case NVML_DEVICE_ARCH_BLACKWELL:
      return "blackwell";
    case NVML_DEVICE_ARCH_RUBIN:
      return "rubin";
    default:
      return "";
  }
}

std::string compute_mode_name(std::uint32_t mode) {
  switch (mode) {
    case NVML_COMPUTEMODE_DEFAULT:
      return "default";
    case NVML_COMPUTEMODE_EXCLUSIVE_THREAD:
      return "exclusive thread";
    case NVML_COMPUTEMODE_PROHIBITED:
      return "prohibited";
    case NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
      return "exclusive process";
    default:
      return "";
  }
}

void read_pci(Look& look, Device& device) {
  nvmlPciInfo_t pci{};
  if (look(look.api.DeviceGetPciInfo, look.device, &pci) != NVML_SUCCESS) return;
  if (pci.bus > 0xff || pci.device > 0x1f) return;
  if (pci.domain == 0 && pci.bus == 0 && pci.device == 0 && pci.pciDeviceId == 0) return;  // Jetson
  device.pci_address = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
  // Swap the two halves: NVML has the device id in the upper half, and pci_id has the vendor id
  // there.
  if (pci.pciDeviceId != 0) {
    device.pci_id = (pci.pciDeviceId << 16U) | (pci.pciDeviceId >> 16U);
  }
}

void read_modes(Look& look, Device& device) {
  const Api& api = look.api;
  nvmlComputeMode_t mode{};
  if (look(api.DeviceGetComputeMode, look.device, &mode) == NVML_SUCCESS) {
    device.compute_mode = compute_mode_name(mode);
  }
  nvmlEnableState_t persistence{};
  if (look(api.DeviceGetPersistenceMode, look.device, &persistence) == NVML_SUCCESS) {
    device.persistence_mode = persistence == NVML_FEATURE_ENABLED;
  }
  std::uint32_t current = 0;
  std::uint32_t pending = 0;
  if (look(api.DeviceGetMigMode, look.device, &current, &pending) == NVML_SUCCESS) {
    device.mig_enabled = current == NVML_DEVICE_MIG_ENABLE;
  }
}

struct Memory {
  Reading<std::uint64_t> total, used, reserved = Absence::kNotSupported;
  bool unified = false;
};

// The memory of a GPU without memory of its own (GB10, Grace, Jetson). For such a GPU, drivers
// return NOT_SUPPORTED, or SUCCESS with zeros.
Memory no_memory(nvmlReturn_t code) {
  const bool unified = code == NVML_SUCCESS || code == NVML_ERROR_NOT_SUPPORTED;
  const Absence why = unified ? Absence::kNotSupported : absence(code);
  return {why, why, why, unified};
}

Reading<std::uint64_t> part_of(std::uint64_t part, const Reading<std::uint64_t>& total) {
  if (!total) return total.why;
  return checked<std::uint64_t>(NVML_SUCCESS, part, {0, *total});
}

// Reads the memory sizes. Tries version 2 of the call first, because only that separates reserved
// from used memory. If it fails, version 1 may still work.
Memory read_memory(Look& look, nvmlDevice_t handle) {
  nvmlMemory_v2_t second{};
  second.version = nvml_struct_version<nvmlMemory_v2_t>(2);
  const nvmlReturn_t code2 = look(look.api.DeviceGetMemoryInfo_v2, handle, &second);
  if (code2 == NVML_SUCCESS && second.total != 0) {
    Memory memory;
    memory.total = checked<std::uint64_t>(code2, second.total, kMemory);
    memory.used = part_of(second.used, memory.total);
    memory.reserved = part_of(second.reserved, memory.total);
    return memory;
  }
  if (code2 == NVML_ERROR_NO_PERMISSION)
    return no_memory(code2);  // The GPU has MIG enabled, so version 1 of the call would fail, too.
  nvmlMemory_t first{};
  const nvmlReturn_t code1 = look(look.api.DeviceGetMemoryInfo, handle, &first);
  if (code1 == NVML_ERROR_FUNCTION_NOT_FOUND) return no_memory(code2);
  if (code1 != NVML_SUCCESS || first.total == 0) return no_memory(code1);
  Memory memory;
  memory.total = checked<std::uint64_t>(code1, first.total, kMemory);
  memory.used = part_of(first.used, memory.total);
  return memory;
}

void read_device_memory(Look& look, Device& device) {
  const Memory memory = read_memory(look, look.device);
  device.readings.memory_total_bytes = memory.total;
  device.readings.memory_used_bytes = memory.used;
  device.readings.memory_reserved_bytes = memory.reserved;
  device.memory_unified = memory.unified;
}

template <typename To>
Reading<To> number(Look& look, nvmlReturn_t (*function)(nvmlDevice_t, std::uint32_t*),
                   Range range) {
  std::uint32_t value = 0;
  const nvmlReturn_t code = look(function, look.device, &value);
  return checked<To>(code, value, range);
}

Reading<std::uint64_t> clock_of(Look& look,
                                nvmlReturn_t (*function)(nvmlDevice_t, nvmlClockType_t,
                                                         std::uint32_t*),
                                nvmlClockType_t which) {
  std::uint32_t mhz = 0;
  const nvmlReturn_t code = look(function, look.device, which, &mhz);
  return checked<std::uint64_t>(code, mhz, kMegahertz);
}

Reading<double> engine(Look& look,
                       nvmlReturn_t (*function)(nvmlDevice_t, std::uint32_t*, std::uint32_t*)) {
  std::uint32_t percent = 0;
  std::uint32_t period = 0;
  const nvmlReturn_t code = look(function, look.device, &percent, &period);
  const auto reading = checked<double>(code, percent, kPercent);
  constexpr std::uint32_t kMostMicroseconds = 60'000'000;
  return period > 0 && period < kMostMicroseconds ? reading.over(period / 1e6) : reading;
}

Reading<double> temperature_of(Look& look) {
  if (look.api.DeviceGetTemperature != nullptr) {
    std::uint32_t celsius = 0;
    const nvmlReturn_t code =
        look(look.api.DeviceGetTemperature, look.device, NVML_TEMPERATURE_GPU, &celsius);
    return checked<double>(code, celsius, kCelsius);
  }
  nvmlTemperature_t newer{nvml_struct_version<nvmlTemperature_t>(1), NVML_TEMPERATURE_GPU, 0};
  const nvmlReturn_t code = look(look.api.DeviceGetTemperatureV, look.device, &newer);
  return checked<double>(code, static_cast<std::uint32_t>(newer.temperature), kCelsius);
}

void read_utilization(Look& look, model::DeviceReadings& readings) {
  nvmlUtilization_t percent{};
  const nvmlReturn_t code = look(look.api.DeviceGetUtilizationRates, look.device, &percent);
  readings.utilization_percent = checked<double>(code, percent.gpu, kPercent);
  readings.memory_utilization_percent = checked<double>(code, percent.memory, kPercent);
}

void read_energy(Look& look, model::DeviceReadings& readings) {
  std::uint64_t millijoules = 0;
  const nvmlReturn_t code =
      look(look.api.DeviceGetTotalEnergyConsumption, look.device, &millijoules);
  readings.energy_millijoules = checked<std::uint64_t>(code, millijoules, kMillijoules);
}

void read_clocks(Look& look, model::DeviceReadings& readings) {
  const Api& api = look.api;
  readings.clock_graphics_mhz = clock_of(look, api.DeviceGetClockInfo, NVML_CLOCK_GRAPHICS);
  readings.clock_sm_mhz = clock_of(look, api.DeviceGetClockInfo, NVML_CLOCK_SM);
  readings.clock_memory_mhz = clock_of(look, api.DeviceGetClockInfo, NVML_CLOCK_MEM);
  readings.clock_graphics_max_mhz = clock_of(look, api.DeviceGetMaxClockInfo, NVML_CLOCK_GRAPHICS);
  readings.clock_memory_max_mhz = clock_of(look, api.DeviceGetMaxClockInfo, NVML_CLOCK_MEM);
}

Reading<std::uint64_t> throughput(Look& look, nvmlPcieUtilCounter_t counter) {
  std::uint32_t kilobytes = 0;  // in KiB per second, despite the name
  const nvmlReturn_t code =
      look(look.api.DeviceGetPcieThroughput, look.device, counter, &kilobytes);
  Reading<std::uint64_t> reading = checked<std::uint64_t>(code, kilobytes, {0, 1U << 30U});
  constexpr double kWindow = 0.02;  // seconds over which the driver measures (nvml.h)
  if (reading) reading = *reading * 1024;
  return reading.over(kWindow);
}

void read_pcie(Look& look, bool with_throughput, model::DeviceReadings& readings) {
  const Api& api = look.api;
  using Count = std::uint64_t;
  readings.pcie_generation =
      number<Count>(look, api.DeviceGetCurrPcieLinkGeneration, kPcieGeneration);
  readings.pcie_generation_max =
      number<Count>(look, api.DeviceGetMaxPcieLinkGeneration, kPcieGeneration);
  readings.pcie_width = number<Count>(look, api.DeviceGetCurrPcieLinkWidth, kPcieWidth);
  readings.pcie_width_max = number<Count>(look, api.DeviceGetMaxPcieLinkWidth, kPcieWidth);
  if (!with_throughput) return;
  readings.pcie_rx_bytes_per_second = throughput(look, NVML_PCIE_UTIL_RX_BYTES);
  readings.pcie_tx_bytes_per_second = throughput(look, NVML_PCIE_UTIL_TX_BYTES);
}

void read_performance_state(Look& look, model::DeviceReadings& readings) {
  nvmlPstates_t state{};
  const nvmlReturn_t code = look(look.api.DeviceGetPerformanceState, look.device, &state);
  readings.performance_state =
      checked<std::uint64_t>(code, static_cast<std::uint32_t>(state), {0, 15});
  if (code == NVML_SUCCESS && state == NVML_PSTATE_UNKNOWN) {
    readings.performance_state = Absence::kNotSupported;
  }
}

Reading<std::uint64_t> ecc_errors(Look& look, nvmlMemoryErrorType_t type) {
  std::uint64_t count = 0;
  const nvmlReturn_t code =
      look(look.api.DeviceGetTotalEccErrors, look.device, type, NVML_VOLATILE_ECC, &count);
  return checked<std::uint64_t>(code, count, kCount);
}

// Reads the counts of ECC errors since the driver was loaded. If the GPU has no ECC, only one call
// is made.
void read_ecc(Look& look, model::DeviceReadings& readings) {
  readings.ecc_uncorrected = ecc_errors(look, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
  const bool unsupported =
      !readings.ecc_uncorrected && readings.ecc_uncorrected.why == Absence::kNotSupported;
  readings.ecc_corrected =
      unsupported ? readings.ecc_uncorrected : ecc_errors(look, NVML_MEMORY_ERROR_TYPE_CORRECTED);
}

void read_remapped_rows(Look& look, model::DeviceReadings& readings) {
  std::uint32_t corrected = 0;
  std::uint32_t uncorrected = 0;
  std::uint32_t pending = 0;
  std::uint32_t failed = 0;
  const nvmlReturn_t code = look(look.api.DeviceGetRemappedRows, look.device, &corrected,
                                 &uncorrected, &pending, &failed);
  const std::uint64_t rows = std::uint64_t{corrected} + uncorrected;
  readings.remapped_rows = checked<std::uint64_t>(code, rows, {0, 1'000'000});
  readings.remap_pending = checked<std::uint64_t>(code, pending, {0, 1});
  readings.remap_failed = checked<std::uint64_t>(code, failed, {0, 1});
}

struct Bit {
  std::uint64_t mask;
  const char* name;
};
constexpr std::array<Bit, 9> kThrottleBits = {{
    {NVML_CLOCKS_GPU_IDLE, "idle"},
    {NVML_CLOCKS_APPLICATIONS_SETTING, "applications_clocks"},
    {NVML_CLOCKS_SW_POWER_CAP, "sw_power_cap"},
    {NVML_CLOCKS_HW_SLOWDOWN, "hw_slowdown"},
    {NVML_CLOCKS_SYNC_BOOST, "sync_boost"},
    {NVML_CLOCKS_SW_THERMAL, "sw_thermal"},
    {NVML_CLOCKS_HW_THERMAL, "hw_thermal"},
    {NVML_CLOCKS_HW_POWER_BRAKE, "hw_power_brake"},
    {NVML_CLOCKS_DISPLAY_SETTING, "display_clocks"},
}};

// Sets the health. It is "ok" only if at least one check ran and found nothing. If the device
// answered none of the calls, it is "not checked".
void judge(bool throttle_answered, Device& device) {
  const model::DeviceReadings& readings = device.readings;
  if (readings.ecc_uncorrected.value_or(0) > 0)
    device.health_reasons.emplace_back("ecc_uncorrected");
  if (readings.remap_pending.value_or(0) > 0) device.health_reasons.emplace_back("remap_pending");
  if (readings.remap_failed.value_or(0) > 0) device.health_reasons.emplace_back("remap_failed");
  const bool asked = throttle_answered || readings.temperature_celsius ||
                     readings.ecc_uncorrected || readings.remap_pending;
  device.health = asked ? Health::kOk : Health::kNotChecked;
  if (!device.health_reasons.empty()) device.health = Health::kDegraded;
}

/// Returns the number of seconds over which nvmlDeviceGetPowerUsage averages (nvml.h). 0: the value
/// is not an average, as before Ampere and on GA100 (A100, A30). Below 0: unknown.
double power_window(const Device& device) {
  const std::string& name = device.architecture;
  const bool is_instant = name == "kepler" || name == "maxwell" || name == "pascal" ||
                          name == "volta" || name == "turing" || device.compute_capability == "8.0";
  return name.empty() ? -1 : is_instant ? 0 : 1;
}

/// Returns the average power. If the driver does not report it, returns the momentary power.
Reading<std::uint64_t> power_of(Look& look, const Device& device) {
  auto power = number<std::uint64_t>(look, look.api.DeviceGetPowerUsage, kMilliwatts);
  if (power || power.why != Absence::kNotSupported) return power.over(power_window(device));
  nvmlFieldValue_t field{};
  field.fieldId = NVML_FI_DEV_POWER_INSTANT;
  field.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  const nvmlReturn_t code = look(look.api.DeviceGetFieldValues, look.device, 1, &field);
  if (code != NVML_SUCCESS || field.nvmlReturn != NVML_SUCCESS) return power;
  if (field.valueType != NVML_VALUE_TYPE_UNSIGNED_INT) return power;
  return checked<std::uint64_t>(NVML_SUCCESS, field.value.uiVal, kMilliwatts).over(0);
}

std::string partition_name(const std::string& full) {
  const std::size_t at = full.find("MIG ");  // The name is "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
  return at == std::string::npos ? full : full.substr(at);
}

void read_partition(Look& look, nvmlDevice_t handle, model::Partition& partition) {
  const Api& api = look.api;
  Text text{};
  if (look(api.DeviceGetName, handle, text.data(), NVML_DEVICE_NAME_V2_BUFFER_SIZE) ==
      NVML_SUCCESS) {
    partition.name = partition_name(text_of(text.data(), text.size()));
  }
  text.fill(0);
  if (look(api.DeviceGetUUID, handle, text.data(), NVML_DEVICE_UUID_V2_BUFFER_SIZE) ==
      NVML_SUCCESS) {
    partition.uuid = uuid_of(text.data(), text.size());
  }
  std::uint32_t id = 0;
  if (look(api.DeviceGetGpuInstanceId, handle, &id) == NVML_SUCCESS) partition.gpu_instance = id;
  if (look(api.DeviceGetComputeInstanceId, handle, &id) == NVML_SUCCESS)
    partition.compute_instance = id;
  const Memory memory = read_memory(look, handle);
  partition.memory_total_bytes = memory.total;
  partition.memory_used_bytes = memory.used;
  partition.utilization_percent = Absence::kNotSupported;
}

}  // namespace

bool read_throttle(Look& look, Device& device) {
  std::uint64_t reasons = 0;
  if (look(look.api.DeviceGetCurrentClocksEventReasons, look.device, &reasons) != NVML_SUCCESS) {
    return false;
  }
  if (reasons == NVML_VALUE_NOT_AVAILABLE_64) return false;
  for (const Bit& bit : kThrottleBits) {
    if ((reasons & bit.mask) != 0) device.throttle_reasons.emplace_back(bit.name);
  }
  // hw_slowdown is also set while clocks change. So it alone is only a throttle reason, and the
  // device still counts as healthy.
  if ((reasons & NVML_CLOCKS_HW_THERMAL) != 0)
    device.health_reasons.emplace_back("throttle:hw_thermal");
  if ((reasons & NVML_CLOCKS_HW_POWER_BRAKE) != 0) {
    device.health_reasons.emplace_back("throttle:hw_power_brake");
  }
  return true;
}

DriverWords read_driver(const Api& api) {
  DriverWords words;
  Look look{api};
  Text text{};
  if (look(api.SystemGetDriverVersion, text.data(), NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE) ==
      NVML_SUCCESS) {
    words.version = text_of(text.data(), text.size());
  }
  std::int32_t cuda = 0;
  if (look(api.SystemGetCudaDriverVersion, &cuda) == NVML_SUCCESS && cuda >= 1000 &&
      cuda < 1'000'000) {
    words.cuda_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  }
  return words;
}

void read_identity(Look& look, Device& device) {
  const Api& api = look.api;
  device.kind = model::DeviceKind::kGpu;
  device.vendor = model::Vendor::kNvidia;
  device.vendor_name = "NVIDIA";
  Text text{};
  if (look(api.DeviceGetName, look.device, text.data(), NVML_DEVICE_NAME_V2_BUFFER_SIZE) ==
      NVML_SUCCESS) {
    device.name = text_of(text.data(), text.size());
  }
  text.fill(0);
  if (look(api.DeviceGetUUID, look.device, text.data(), NVML_DEVICE_UUID_V2_BUFFER_SIZE) ==
      NVML_SUCCESS) {
    device.uuid = uuid_of(text.data(), text.size());
  }
  read_pci(look, device);
  std::uint32_t number_of_node = 0;
  if (look(api.DeviceGetMinorNumber, look.device, &number_of_node) == NVML_SUCCESS &&
      number_of_node < 65536) {
    device.minor_number = number_of_node;
  }
  nvmlDeviceArchitecture_t architecture = 0;
  if (look(api.DeviceGetArchitecture, look.device, &architecture) == NVML_SUCCESS) {
    device.architecture = architecture_name(architecture);
  }
  std::int32_t major = 0;
  std::int32_t minor = 0;
  if (look(api.DeviceGetCudaComputeCapability, look.device, &major, &minor) == NVML_SUCCESS &&
      major > 0 && major < 100 && minor >= 0 && minor < 100) {
    device.compute_capability = fmt::format("{}.{}", major, minor);
  }
  read_modes(look, device);
  if (look.lost) mark_unreadable(NVML_ERROR_GPU_IS_LOST, device);
}

void read_readings(Look& look, Device& device) {
  model::DeviceReadings& readings = device.readings;
  read_device_memory(look, device);
  read_utilization(look, readings);
  readings.temperature_celsius = temperature_of(look);
  readings.power_milliwatts = power_of(look, device);
  const bool throttle_answered = read_throttle(look, device);
  read_ecc(look, readings);
  read_remapped_rows(look, readings);
  readings.power_limit_milliwatts =
      number<std::uint64_t>(look, look.api.DeviceGetEnforcedPowerLimit, kMilliwatts);
  judge(throttle_answered, device);
  if (look.late && device.health == Health::kNotChecked) device.health = Health::kNoAnswer;
  if (look.lost) mark_unreadable(NVML_ERROR_GPU_IS_LOST, device);
}

void read_more(Look& look, const Wanted& wanted, Device& device) {
  const Api& api = look.api;
  model::DeviceReadings& readings = device.readings;
  readings.encoder_utilization_percent = engine(look, api.DeviceGetEncoderUtilization);
  readings.decoder_utilization_percent = engine(look, api.DeviceGetDecoderUtilization);
  read_energy(look, readings);
  readings.fan_percent = number<double>(look, api.DeviceGetFanSpeed, kFanPercent);
  read_clocks(look, readings);
  read_pcie(look, wanted.pcie_throughput, readings);
  read_performance_state(look, readings);
  read_nvlinks(look, device);
  if (look.lost) mark_unreadable(NVML_ERROR_GPU_IS_LOST, device);
}

void read_sample(Look& look, Device& device) {
  model::DeviceReadings& readings = device.readings;
  read_device_memory(look, device);
  read_utilization(look, readings);
  readings.temperature_celsius = temperature_of(look);
  readings.power_milliwatts = power_of(look, device);
  read_energy(look, readings);
  device.health = Health::kNotChecked;
  if (look.lost) mark_unreadable(NVML_ERROR_GPU_IS_LOST, device);
}

model::Partition partition_of(Look& look, nvmlDevice_t handle, std::uint32_t index) {
  model::Partition partition;
  partition.index = index;
  read_partition(look, handle, partition);
  return partition;
}

void read_partitions(Look& look, Device& device) {
  constexpr std::uint32_t kMost = 64;  // devices have 7 or 8; protects against invalid counts
  if (!device.mig_enabled.value_or(false)) return;
  std::uint32_t count = 0;
  const nvmlReturn_t counted = look(look.api.DeviceGetMaxMigDeviceCount, look.device, &count);
  if (counted != NVML_SUCCESS) device.partitions_unknown = absence(counted);
  for (std::uint32_t index = 0; index < count && index < kMost; ++index) {
    nvmlDevice_t handle = nullptr;
    const nvmlReturn_t code =
        look(look.api.DeviceGetMigDeviceHandleByIndex, look.device, index, &handle);
    if (code == NVML_ERROR_NOT_FOUND) continue;  // no partition has this index
    if (code != NVML_SUCCESS || handle == nullptr) {
      device.partitions_unknown = code == NVML_SUCCESS ? model::Absence::kFailed : absence(code);
      continue;
    }
    device.partitions.push_back(partition_of(look, handle, index));
  }
  if (look.lost) mark_unreadable(NVML_ERROR_GPU_IS_LOST, device);
}

void mark_unreadable(nvmlReturn_t code, Device& device) {
  device.health = Health::kDegraded;
  if (code == NVML_ERROR_GPU_IS_LOST) device.health = Health::kLost;
  if (code == NVML_ERROR_TIMEOUT) device.health = Health::kNoAnswer;
  if (code == NVML_ERROR_NO_PERMISSION) device.health = Health::kNotChecked;
  device.health_reasons = {fmt::format("nvml:{}", static_cast<std::uint32_t>(code))};
  device.throttle_reasons.clear();
  device.partitions.clear();
  set_all_absent(device.readings, absence(code));
}

}  // namespace berth::nvml
