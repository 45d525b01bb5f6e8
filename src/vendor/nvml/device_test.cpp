// Each test case simulates one known deviation of drivers from the documentation.
#include "vendor/nvml/device.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using berth::model::Absence;
using berth::model::Device;
using berth::model::Health;
using berth::nvml::Api;
using berth::nvml::Look;

namespace {

// Functions in the table are plain pointers and cannot capture. They keep their state in these
// variables.
int calls = 0;
std::uint32_t seen_version = 0;

nvmlDevice_t handle() {
  static int here = 0;
  return reinterpret_cast<nvmlDevice_t>(&here);
}

nvmlReturn_t put_text(char* out, std::uint32_t size, const char* text) {
  std::strncpy(out, text, size);
  return NVML_SUCCESS;
}

Device read(const Api& api, bool throughput = false) {
  Look look{api, handle()};
  Device device;
  berth::nvml::read_identity(look, device);
  berth::nvml::read_readings(look, device);
  berth::nvml::read_partitions(look, device);
  berth::nvml::read_more(look, {throughput}, device);
  return device;
}

nvmlReturn_t healthy_memory(nvmlDevice_t, nvmlMemory_v2_t* memory) {
  seen_version = memory->version;
  if (memory->version != 0x02000028) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  memory->total = 80ULL << 30U;
  memory->reserved = 1ULL << 30U;
  memory->used = 10ULL << 30U;
  memory->free = 69ULL << 30U;
  return NVML_SUCCESS;
}

Api healthy() {
  Api api;
  api.DeviceGetName = [](nvmlDevice_t, char* out, std::uint32_t size) {
    return put_text(out, size, "NVIDIA H100 80GB HBM3");
  };
  api.DeviceGetUUID = [](nvmlDevice_t, char* out, std::uint32_t size) {
    return put_text(out, size, "GPU-12345678-1234-1234-1234-123456789abc");
  };
  api.DeviceGetPciInfo = [](nvmlDevice_t, nvmlPciInfo_t* pci) {
    *pci = {};
    pci->domain = 0x10000;
    pci->bus = 0x81;
    pci->pciDeviceId = 0x233010de;
    return NVML_SUCCESS;
  };
  api.DeviceGetMemoryInfo_v2 = healthy_memory;
  api.DeviceGetTemperature = [](nvmlDevice_t, nvmlTemperatureSensors_t, std::uint32_t* celsius) {
    *celsius = 64;
    return NVML_SUCCESS;
  };
  api.DeviceGetCurrentClocksEventReasons = [](nvmlDevice_t, std::uint64_t* reasons) {
    *reasons = NVML_CLOCKS_SW_POWER_CAP;
    return NVML_SUCCESS;
  };
  return api;
}

template <typename Number, Number value>
nvmlReturn_t answer(nvmlDevice_t, Number* out) {
  *out = value;
  return NVML_SUCCESS;
}

}  // namespace

TEST_CASE("all readings of a healthy device are read") {
  const Device device = read(healthy());
  CHECK(device.name == "NVIDIA H100 80GB HBM3");
  CHECK(device.uuid == "GPU-12345678-1234-1234-1234-123456789abc");
  CHECK(device.pci_address == "10000:81:00.0");
  CHECK(device.pci_id == 0x10de2330U);
  CHECK(device.health == Health::kOk);
  CHECK(device.health_reasons.empty());
  CHECK(device.throttle_reasons == std::vector<std::string>{"sw_power_cap"});
  CHECK(*device.readings.temperature_celsius == 64);
  CHECK(device.readings.power_milliwatts.why == Absence::kNotSupported);
}

TEST_CASE("trap 2: memory is queried with the size and version that drivers require") {
  const Device device = read(healthy());
  CHECK(seen_version == 0x02000028);
  CHECK(*device.readings.memory_used_bytes == 10ULL << 30U);
  CHECK(*device.readings.memory_reserved_bytes == 1ULL << 30U);
  CHECK_FALSE(device.memory_unified);
}

TEST_CASE(
    "trap 2: where version 2 is refused version 1 answers, and nothing is known of reserved "
    "memory") {
  for (const bool missing : {false, true}) {
    Api api = healthy();
    api.DeviceGetMemoryInfo_v2 = [](nvmlDevice_t, nvmlMemory_v2_t*) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    };
    if (missing) api.DeviceGetMemoryInfo_v2 = nullptr;
    api.DeviceGetMemoryInfo = [](nvmlDevice_t, nvmlMemory_t* memory) {
      *memory = {24ULL << 30U, 20ULL << 30U, 4ULL << 30U};
      return NVML_SUCCESS;
    };
    const Device device = read(api);
    CHECK(*device.readings.memory_total_bytes == 24ULL << 30U);
    CHECK(*device.readings.memory_used_bytes == 4ULL << 30U);
    CHECK_FALSE(device.readings.memory_reserved_bytes);
    CHECK_FALSE(device.memory_unified);
  }
}

TEST_CASE("trap 6: no memory of its own is unified memory, whether refused or zero") {
  for (const bool zeros : {false, true}) {
    Api api = healthy();
    api.DeviceGetMemoryInfo_v2 = [](nvmlDevice_t, nvmlMemory_v2_t*) {
      return NVML_ERROR_NOT_SUPPORTED;
    };
    api.DeviceGetMemoryInfo = [](nvmlDevice_t, nvmlMemory_t*) { return NVML_ERROR_NOT_SUPPORTED; };
    if (zeros) {
      api.DeviceGetMemoryInfo_v2 = [](nvmlDevice_t, nvmlMemory_v2_t*) { return NVML_SUCCESS; };
      api.DeviceGetMemoryInfo = [](nvmlDevice_t, nvmlMemory_t*) { return NVML_SUCCESS; };
    }
    const Device device = read(api);
    CHECK(device.memory_unified);
    CHECK_FALSE(device.readings.memory_total_bytes);
    CHECK(device.readings.memory_used_bytes.why == Absence::kNotSupported);
  }
}

TEST_CASE("a library without any memory function does not make memory unified") {
  Api api = healthy();
  api.DeviceGetMemoryInfo_v2 = nullptr;
  const Device device = read(api);
  CHECK_FALSE(device.memory_unified);
  CHECK(device.readings.memory_total_bytes.why == Absence::kNotSupported);
}

TEST_CASE("trap 8: a MIG parent may refuse its memory while its partitions tell theirs") {
  static int parent_marker = 0;
  static int part_marker = 0;
  static const auto parent = reinterpret_cast<nvmlDevice_t>(&parent_marker);
  static const auto part = reinterpret_cast<nvmlDevice_t>(&part_marker);
  Api api;
  api.DeviceGetMigMode = [](nvmlDevice_t, std::uint32_t* current, std::uint32_t* pending) {
    *current = *pending = NVML_DEVICE_MIG_ENABLE;
    return NVML_SUCCESS;
  };
  api.DeviceGetMaxMigDeviceCount = answer<std::uint32_t, 7>;
  api.DeviceGetMigDeviceHandleByIndex = [](nvmlDevice_t, std::uint32_t index, nvmlDevice_t* out) {
    *out = part;
    return index == 2 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
  };
  api.DeviceGetName = [](nvmlDevice_t device, char* out, std::uint32_t size) {
    return put_text(out, size,
                    device == part ? "NVIDIA A100-SXM4-40GB MIG 1g.5gb" : "NVIDIA A100-SXM4-40GB");
  };
  api.DeviceGetUUID = [](nvmlDevice_t device, char* out, std::uint32_t size) {
    return put_text(out, size, device == part ? "MIG-1" : "GPU-1");
  };
  api.DeviceGetGpuInstanceId = answer<std::uint32_t, 9>;
  api.DeviceGetComputeInstanceId = answer<std::uint32_t, 0>;
  api.DeviceGetMemoryInfo_v2 = [](nvmlDevice_t device, nvmlMemory_v2_t* memory) {
    return device == part ? healthy_memory(device, memory) : NVML_ERROR_NO_PERMISSION;
  };
  Look look{api, parent};
  Device device;
  berth::nvml::read_identity(look, device);
  berth::nvml::read_readings(look, device);
  berth::nvml::read_partitions(look, device);
  CHECK(device.mig_enabled == true);
  CHECK(device.readings.memory_used_bytes.why == Absence::kNoPermission);
  CHECK(device.readings.utilization_percent.why == Absence::kNotSupported);
  CHECK_FALSE(device.memory_unified);
  REQUIRE(device.partitions.size() == 1);
  CHECK(device.partitions[0].index == 2);
  CHECK(device.partitions[0].name == "MIG 1g.5gb");
  CHECK(device.partitions[0].uuid == "MIG-1");
  CHECK(device.partitions[0].gpu_instance == 9U);
  CHECK(*device.partitions[0].memory_used_bytes == 10ULL << 30U);
}

TEST_CASE("an impossible number of partitions is ignored") {
  Api api = healthy();
  api.DeviceGetMigMode = [](nvmlDevice_t, std::uint32_t* current, std::uint32_t*) {
    *current = NVML_DEVICE_MIG_ENABLE;
    return NVML_SUCCESS;
  };
  api.DeviceGetMaxMigDeviceCount = answer<std::uint32_t, 0xffffffff>;
  calls = 0;
  api.DeviceGetMigDeviceHandleByIndex = [](nvmlDevice_t, std::uint32_t, nvmlDevice_t*) {
    ++calls;
    return NVML_ERROR_NOT_FOUND;
  };
  CHECK(read(api).partitions.empty());
  CHECK(calls <= 64);
}

TEST_CASE("trap 9: a vGPU guest has no temperature and no power, and nothing of it becomes zero") {
  Api api = healthy();
  api.DeviceGetTemperature = [](nvmlDevice_t, nvmlTemperatureSensors_t, std::uint32_t*) {
    return NVML_ERROR_NOT_SUPPORTED;
  };
  api.DeviceGetPowerUsage = [](nvmlDevice_t, std::uint32_t*) { return NVML_ERROR_NOT_SUPPORTED; };
  api.DeviceGetCurrentClocksEventReasons = nullptr;
  const Device device = read(api);
  CHECK(device.readings.temperature_celsius.why == Absence::kNotSupported);
  CHECK(device.readings.power_milliwatts.why == Absence::kNotSupported);
  CHECK(device.health == Health::kNotChecked);
}

TEST_CASE("a GPU without average power reports instantaneous power") {
  Api api = healthy();
  api.DeviceGetPowerUsage = [](nvmlDevice_t, std::uint32_t*) { return NVML_ERROR_NOT_SUPPORTED; };
  api.DeviceGetFieldValues = [](nvmlDevice_t, std::int32_t count, nvmlFieldValue_t* values) {
    if (count != 1 || values->fieldId != NVML_FI_DEV_POWER_INSTANT)
      return NVML_ERROR_INVALID_ARGUMENT;
    values->nvmlReturn = NVML_SUCCESS;
    values->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    values->value.uiVal = 71'000;
    return NVML_SUCCESS;
  };
  CHECK(*read(api).readings.power_milliwatts == 71'000);
  api.DeviceGetFieldValues = [](nvmlDevice_t, std::int32_t, nvmlFieldValue_t* values) {
    values->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    values->value.uiVal = 0;
    return NVML_SUCCESS;
  };
  CHECK(read(api).readings.power_milliwatts.why == Absence::kNotSupported);
}

TEST_CASE("trap 7: a Jetson answers nothing or zeros, so its readings are absent") {
  Api api;
  api.DeviceGetName = [](nvmlDevice_t, char* out, std::uint32_t size) {
    return put_text(out, size, "Orin (nvgpu)");
  };
  api.DeviceGetPciInfo = [](nvmlDevice_t, nvmlPciInfo_t* pci) {
    *pci = {};
    return NVML_SUCCESS;
  };
  api.DeviceGetTemperature = [](nvmlDevice_t, nvmlTemperatureSensors_t, std::uint32_t* celsius) {
    *celsius = 0;
    return NVML_SUCCESS;
  };
  api.DeviceGetPowerUsage = answer<std::uint32_t, 0>;
  api.SystemGetDriverVersion = [](char* out, std::uint32_t size) {
    return put_text(out, size, "N/A");
  };
  const Device device = read(api);
  CHECK(device.name == "Orin (nvgpu)");
  CHECK(device.pci_address.empty());
  CHECK_FALSE(device.pci_id);
  CHECK(device.readings.temperature_celsius.why == Absence::kFailed);
  CHECK(device.readings.power_milliwatts.why == Absence::kFailed);
  CHECK(device.health == Health::kNotChecked);
  CHECK(berth::nvml::read_driver(api).version.empty());
}

TEST_CASE("sentinels mean not available") {
  Api api = healthy();
  api.DeviceGetPowerUsage = answer<std::uint32_t, 0xffffffff>;
  api.DeviceGetTotalEnergyConsumption = answer<std::uint64_t, ~0ULL>;
  api.DeviceGetPerformanceState = answer<nvmlPstates_t, NVML_PSTATE_UNKNOWN>;
  const Device device = read(api);
  CHECK(device.readings.power_milliwatts.why == Absence::kNotSupported);
  CHECK(device.readings.energy_millijoules.why == Absence::kNotSupported);
  CHECK(device.readings.performance_state.why == Absence::kNotSupported);
}

TEST_CASE("impossible numbers are failures, not readings") {
  Api api = healthy();
  api.DeviceGetPowerUsage = answer<std::uint32_t, 2'000'001>;
  api.DeviceGetFanSpeed = answer<std::uint32_t, 151>;
  api.DeviceGetCurrPcieLinkWidth = answer<std::uint32_t, 0>;
  api.DeviceGetTemperature = [](nvmlDevice_t, nvmlTemperatureSensors_t, std::uint32_t* celsius) {
    *celsius = 201;
    return NVML_SUCCESS;
  };
  api.DeviceGetUtilizationRates = [](nvmlDevice_t, nvmlUtilization_t* percent) {
    *percent = {101, 100};
    return NVML_SUCCESS;
  };
  api.DeviceGetMemoryInfo_v2 = [](nvmlDevice_t, nvmlMemory_v2_t* memory) {
    memory->total = 1ULL << 30U;
    memory->used = 2ULL << 30U;
    return NVML_SUCCESS;
  };
  const berth::model::DeviceReadings readings = read(api).readings;
  CHECK(readings.power_milliwatts.why == Absence::kFailed);
  CHECK_FALSE(readings.power_milliwatts);
  CHECK_FALSE(readings.fan_percent);
  CHECK_FALSE(readings.pcie_width);
  CHECK_FALSE(readings.temperature_celsius);
  CHECK_FALSE(readings.utilization_percent);
  CHECK(*readings.memory_utilization_percent == 100);
  CHECK(*readings.memory_total_bytes == 1ULL << 30U);
  CHECK_FALSE(readings.memory_used_bytes);
}

TEST_CASE("trap 11: a lost device has no readings and is not queried again") {
  Api api = healthy();
  calls = 0;
  api.DeviceGetUtilizationRates = [](nvmlDevice_t, nvmlUtilization_t*) {
    return NVML_ERROR_GPU_IS_LOST;
  };
  api.DeviceGetPowerUsage = [](nvmlDevice_t, std::uint32_t*) {
    ++calls;
    return NVML_SUCCESS;
  };
  const Device device = read(api);
  CHECK(device.health == Health::kLost);
  CHECK(device.health_reasons == std::vector<std::string>{"nvml:15"});
  CHECK(device.readings.memory_used_bytes.why == Absence::kLost);
  CHECK(device.readings.power_milliwatts.why == Absence::kLost);
  CHECK(calls == 0);
  CHECK(device.name == "NVIDIA H100 80GB HBM3");
}

TEST_CASE("trap 11: one call that times out or fails costs one reading") {
  Api api = healthy();
  api.DeviceGetPowerUsage = [](nvmlDevice_t, std::uint32_t*) { return NVML_ERROR_UNKNOWN; };
  api.DeviceGetFanSpeed = [](nvmlDevice_t, std::uint32_t*) { return NVML_ERROR_TIMEOUT; };
  const Device device = read(api);
  CHECK(device.readings.power_milliwatts.why == Absence::kFailed);
  CHECK(device.readings.fan_percent.why == Absence::kNoAnswer);
  CHECK(*device.readings.temperature_celsius == 64);
  CHECK(device.health == Health::kOk);
}

TEST_CASE(
    "a slow driver gives the most important readings, and the others have no answer in time") {
  static Look* slow = nullptr;
  Api api = healthy();
  api.DeviceGetTemperature = [](nvmlDevice_t, nvmlTemperatureSensors_t, std::uint32_t* celsius) {
    slow->slowest = std::chrono::hours(1);  // as if this call had taken an hour
    *celsius = 64;
    return NVML_SUCCESS;
  };
  api.DeviceGetFanSpeed = [](nvmlDevice_t, std::uint32_t*) { return NVML_ERROR_UNKNOWN; };
  Look look{api, handle(), Look::Clock::now() + std::chrono::minutes(30)};
  slow = &look;
  Device device;
  berth::nvml::read_identity(look, device);
  berth::nvml::read_readings(look, device);
  berth::nvml::read_more(look, {}, device);
  CHECK(look.late);
  CHECK(device.name == "NVIDIA H100 80GB HBM3");
  CHECK(*device.readings.memory_used_bytes == 10ULL << 30U);
  CHECK(*device.readings.temperature_celsius == 64);
  CHECK(device.readings.fan_percent.why == Absence::kNoAnswer);
  CHECK(device.health == Health::kOk);  // at least one check ran and found nothing
}

TEST_CASE("if a driver is too slow for a device's health, the device does not answer") {
  const Api api = healthy();
  Look look{api, handle(), Look::Clock::now()};
  Device device;
  berth::nvml::read_identity(look, device);
  berth::nvml::read_readings(look, device);
  CHECK(device.health == Health::kNoAnswer);
  CHECK(device.readings.memory_used_bytes.why == Absence::kNoAnswer);
}

TEST_CASE("a refused handle is explained by health and reasons") {
  Device device;
  berth::nvml::mark_unreadable(NVML_ERROR_GPU_IS_LOST, device);
  CHECK(device.health == Health::kLost);
  berth::nvml::mark_unreadable(NVML_ERROR_UNKNOWN, device);
  CHECK(device.health == Health::kDegraded);
  CHECK(device.health_reasons == std::vector<std::string>{"nvml:999"});
  berth::nvml::mark_unreadable(NVML_ERROR_TIMEOUT, device);
  CHECK(device.health == Health::kNoAnswer);
  berth::nvml::mark_unreadable(NVML_ERROR_NO_PERMISSION, device);
  CHECK(device.health == Health::kNotChecked);
  CHECK(device.readings.power_milliwatts.why == Absence::kNoPermission);
}

TEST_CASE("memory errors, remapped rows and hardware slowdowns degrade a device") {
  Api api = healthy();
  api.DeviceGetTotalEccErrors = [](nvmlDevice_t, nvmlMemoryErrorType_t type, nvmlEccCounterType_t,
                                   std::uint64_t* count) {
    *count = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? 2 : 40;
    return NVML_SUCCESS;
  };
  api.DeviceGetRemappedRows = [](nvmlDevice_t, std::uint32_t* corrected, std::uint32_t* uncorrected,
                                 std::uint32_t* pending, std::uint32_t* failed) {
    *corrected = 1;
    *uncorrected = 2;
    *pending = 1;
    *failed = 1;
    return NVML_SUCCESS;
  };
  api.DeviceGetCurrentClocksEventReasons =
      answer<std::uint64_t,
             NVML_CLOCKS_HW_THERMAL | NVML_CLOCKS_HW_POWER_BRAKE | NVML_CLOCKS_HW_SLOWDOWN>;
  const Device device = read(api);
  CHECK(device.health == Health::kDegraded);
  CHECK(device.health_reasons ==
        std::vector<std::string>{"throttle:hw_thermal", "throttle:hw_power_brake",
                                 "ecc_uncorrected", "remap_pending", "remap_failed"});
  CHECK(device.throttle_reasons ==
        std::vector<std::string>{"hw_slowdown", "hw_thermal", "hw_power_brake"});
  CHECK(*device.readings.ecc_corrected == 40);
  CHECK(*device.readings.remapped_rows == 3);
}

TEST_CASE("corrected errors alone, a software cap and a bare slowdown leave a device well") {
  Api api = healthy();
  api.DeviceGetTotalEccErrors = [](nvmlDevice_t, nvmlMemoryErrorType_t type, nvmlEccCounterType_t,
                                   std::uint64_t* count) {
    *count = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? 0 : 40;
    return NVML_SUCCESS;
  };
  api.DeviceGetCurrentClocksEventReasons =
      answer<std::uint64_t,
             NVML_CLOCKS_SW_POWER_CAP | NVML_CLOCKS_HW_SLOWDOWN | NVML_CLOCKS_GPU_IDLE>;
  CHECK(read(api).health == Health::kOk);
}

TEST_CASE("PCIe throughput blocks, so it is read only on request") {
  Api api = healthy();
  calls = 0;
  api.DeviceGetPcieThroughput = [](nvmlDevice_t, nvmlPcieUtilCounter_t counter,
                                   std::uint32_t* kilobytes) {
    ++calls;
    *kilobytes = counter == NVML_PCIE_UTIL_RX_BYTES ? 3 : 2;
    return NVML_SUCCESS;
  };
  CHECK(read(api).readings.pcie_rx_bytes_per_second.why == Absence::kNotAsked);
  CHECK(calls == 0);
  const Device asked = read(api, true);
  CHECK(*asked.readings.pcie_rx_bytes_per_second == 3072);
  CHECK(*asked.readings.pcie_tx_bytes_per_second == 2048);
  CHECK(calls == 2);
}

TEST_CASE("text from the driver is bounded, printable and never an option of ours") {
  Api api = healthy();
  api.DeviceGetName = [](nvmlDevice_t, char* out, std::uint32_t size) {
    std::memset(out, 'x', size);  // the driver's text has no terminating NUL
    out[0] = '\x1b';
    return NVML_SUCCESS;
  };
  api.DeviceGetUUID = [](nvmlDevice_t, char* out, std::uint32_t size) {
    return put_text(out, size, "GPU-1;rm -rf");
  };
  const Device device = read(api);
  CHECK(device.name.find('\x1b') == std::string::npos);
  CHECK(device.name.size() < 128);
  CHECK(device.uuid.empty());
}

TEST_CASE("an impossible bus address is ignored") {
  Api api = healthy();
  api.DeviceGetPciInfo = [](nvmlDevice_t, nvmlPciInfo_t* pci) {
    *pci = {};
    pci->bus = 0x1234;
    return NVML_SUCCESS;
  };
  CHECK(read(api).pci_address.empty());
}

TEST_CASE("a function table without any function gives no readings and does not crash") {
  const Device device = read(Api{});
  CHECK(device.health == Health::kNotChecked);
  berth::model::for_each_reading(
      device.readings, [](std::string_view, const auto& reading) { CHECK_FALSE(reading); });
}

TEST_CASE("the driver's version texts become a version and the highest supported CUDA") {
  Api api;
  api.SystemGetDriverVersion = [](char* out, std::uint32_t size) {
    return put_text(out, size, "580.95.05");
  };
  api.SystemGetCudaDriverVersion = [](std::int32_t* version) {
    *version = 12040;
    return NVML_SUCCESS;
  };
  CHECK(berth::nvml::read_driver(api).version == "580.95.05");
  CHECK(berth::nvml::read_driver(api).cuda_version == "12.4");
}
