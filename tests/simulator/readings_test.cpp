// Readings of devices, partitions and processes from the simulated driver.
#include <map>

#include "simulator/simulated.hpp"

namespace {

using Record = nvmlProcessDetail_v1_t;

/// Calls a list function and returns its processes. Each record has `bytes` bytes.
std::vector<Record> list(const Simulated& driver, const char* function, nvmlDevice_t device,
                         std::size_t bytes) {
  std::uint32_t count = 0;
  const nvmlReturn_t asked = driver.call(function, device, &count, static_cast<void*>(nullptr));
  if (count == 0) {
    CHECK(asked == NVML_SUCCESS);
    return {};
  }
  CHECK(asked == NVML_ERROR_INSUFFICIENT_SIZE);
  std::vector<unsigned char> buffer((count + 1) * bytes, 0xee);
  REQUIRE(driver.call(function, device, &count, static_cast<void*>(buffer.data())) == NVML_SUCCESS);
  for (std::size_t i = count * bytes; i < buffer.size(); ++i)
    REQUIRE(buffer[i] == 0xee);  // nothing was written after the records
  std::vector<Record> records(count);
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(&records[i], buffer.data() + i * bytes, bytes);
  return records;
}

}  // namespace

TEST_CASE("process records are as long as function and driver version make them") {
  const Simulated usual("dgx-h100-8", 24), longer("driver-535", 6), old("driver-470", 6);
  for (const Simulated* driver : {&usual, &longer, &old}) REQUIRE(driver->begin() == NVML_SUCCESS);
  const auto check = [](const Simulated& driver, const char* function, std::size_t bytes,
                        std::size_t users) {
    CAPTURE(function);
    const auto records = list(driver, function, driver.device(0), bytes);
    REQUIRE(records.size() == users);
    for (const Record& record : records) {
      CHECK(record.pid >= 1000);
      CHECK(record.pid < 1024);
      CHECK(record.usedGpuMemory > 0);
      if (bytes > 16) CHECK(record.gpuInstanceId == 0xffffffff);
      if (bytes > 24) CHECK(record.usedGpuCcProtectedMemory == 0);
    }
  };
  check(usual, "nvmlDeviceGetComputeRunningProcesses", 16, 3);
  check(usual, "nvmlDeviceGetComputeRunningProcesses_v2", 24, 3);
  check(usual, "nvmlDeviceGetComputeRunningProcesses_v3", 24, 3);
  check(longer, "nvmlDeviceGetComputeRunningProcesses_v3", 32, 3);
  check(longer, "nvmlDeviceGetComputeRunningProcesses_v2", 24, 3);
  check(old, "nvmlDeviceGetComputeRunningProcesses_v2", 24, 3);
  check(usual, "nvmlDeviceGetGraphicsRunningProcesses_v3", 24, 0);
}

TEST_CASE("memory in use is that of the processes and of a fault") {
  const Simulated driver("dgx-h100-8", 24, {"zombie:1=2GiB"});
  REQUIRE(driver.begin() == NVML_SUCCESS);
  for (std::uint32_t i = 0; i < 8; ++i) {
    std::uint64_t sum = i == 1 ? std::uint64_t{2} << 30U : 0;
    for (const Record& record :
         list(driver, "nvmlDeviceGetComputeRunningProcesses_v3", driver.device(i), 24))
      sum += record.usedGpuMemory;
    nvmlMemory_v2_t memory{0x02000028, 0, 0, 0, 0};
    REQUIRE(driver.call("nvmlDeviceGetMemoryInfo_v2", driver.device(i), &memory) == NVML_SUCCESS);
    CHECK(memory.used == sum);
    CHECK(memory.total == std::uint64_t{81559} << 20U);
  }
}

TEST_CASE("process utilization uses the two-call protocol and only returns new samples") {
  const Simulated driver("dgx-h100-8", 40);
  REQUIRE(driver.begin() == NVML_SUCCESS);
  const nvmlDevice_t device = driver.device(0);
  std::uint32_t count = 0;
  constexpr nvmlProcessUtilizationSample_t* kNone = nullptr;
  REQUIRE(driver.call("nvmlDeviceGetProcessUtilization", device, kNone, &count, std::uint64_t{0}) ==
          NVML_ERROR_INSUFFICIENT_SIZE);
  REQUIRE(count > 0);
  std::vector<nvmlProcessUtilizationSample_t> samples(count);
  REQUIRE(driver.call("nvmlDeviceGetProcessUtilization", device, samples.data(), &count,
                      std::uint64_t{0}) == NVML_SUCCESS);
  nvmlUtilization_t whole{};
  REQUIRE(driver.call("nvmlDeviceGetUtilizationRates", device, &whole) == NVML_SUCCESS);
  std::uint32_t sum = 0;
  for (const auto& sample : samples) sum += sample.smUtil;
  CHECK(sum > 0);
  CHECK(sum <= whole.gpu);
  const std::uint64_t seen = samples[0].timeStamp;
  CHECK(driver.call("nvmlDeviceGetProcessUtilization", device, samples.data(), &count, seen) ==
        NVML_ERROR_NOT_FOUND);
}

TEST_CASE("MIG devices have their own handles, and their parents have no utilization") {
  const Simulated driver("dgx-a100-mig", 26, {"no-permission:0=memory"});
  REQUIRE(driver.begin() == NVML_SUCCESS);
  const nvmlDevice_t parent = driver.device(2);
  std::uint32_t current = 0, pending = 0, count = 0, id = 0, is_partition = 0;
  CHECK(driver.call("nvmlDeviceGetMigMode", parent, &current, &pending) == NVML_SUCCESS);
  CHECK(current == 1);
  CHECK(driver.call("nvmlDeviceGetMaxMigDeviceCount", parent, &count) == NVML_SUCCESS);
  CHECK(count == 7);
  nvmlUtilization_t percent{};
  CHECK(driver.call("nvmlDeviceGetUtilizationRates", parent, &percent) == NVML_ERROR_NOT_SUPPORTED);
  nvmlDevice_t partition = nullptr, back = nullptr;
  CHECK(driver.call("nvmlDeviceGetMigDeviceHandleByIndex", parent, 4U, &partition) ==
        NVML_ERROR_NOT_FOUND);
  REQUIRE(driver.call("nvmlDeviceGetMigDeviceHandleByIndex", parent, 0U, &partition) ==
          NVML_SUCCESS);
  CHECK(driver.call("nvmlDeviceIsMigDeviceHandle", partition, &is_partition) == NVML_SUCCESS);
  CHECK(is_partition == 1);
  CHECK(driver.call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", partition, &back) ==
        NVML_SUCCESS);
  CHECK(back == parent);
  CHECK(driver.call("nvmlDeviceGetGpuInstanceId", partition, &id) == NVML_SUCCESS);
  CHECK(id == 1);
  char text[96];
  CHECK(driver.call("nvmlDeviceGetName", partition, text, 96U) == NVML_SUCCESS);
  CHECK(std::string(text) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb");
  CHECK(driver.call("nvmlDeviceGetUUID", partition, text, 96U) == NVML_SUCCESS);
  CHECK(std::string(text).find("MIG-") == 0);
  nvmlDevice_t by_uuid = nullptr;
  CHECK(driver.call("nvmlDeviceGetHandleByUUID", static_cast<const char*>(text), &by_uuid) ==
        NVML_SUCCESS);
  CHECK(by_uuid == partition);
  nvmlMemory_t memory{};
  CHECK(driver.call("nvmlDeviceGetMemoryInfo", partition, &memory) == NVML_SUCCESS);
  CHECK(memory.total == std::uint64_t{40192} << 20U);
  CHECK(driver.call("nvmlDeviceGetMemoryInfo", driver.device(0), &memory) ==
        NVML_ERROR_NO_PERMISSION);
  REQUIRE(driver.call("nvmlDeviceGetMigDeviceHandleByIndex", driver.device(0), 0U, &partition) ==
          NVML_SUCCESS);
  CHECK(driver.call("nvmlDeviceGetMemoryInfo", partition, &memory) == NVML_SUCCESS);
  const auto records = list(driver, "nvmlDeviceGetComputeRunningProcesses_v3", parent, 24);
  REQUIRE(!records.empty());
  for (const Record& record : records) CHECK(record.gpuInstanceId != 0xffffffff);
}

TEST_CASE("a missing reading is NOT_SUPPORTED, never 0") {
  const Simulated vgpu("vgpu", 2), spark("gb10", 2), windows("wsl", 2), server("dgx-h100-8");
  for (const Simulated* driver : {&vgpu, &spark, &windows, &server})
    REQUIRE(driver->begin() == NVML_SUCCESS);
  std::uint32_t number = 0;
  nvmlMemory_t memory{};
  CHECK(vgpu.call("nvmlDeviceGetPowerUsage", vgpu.device(0), &number) == NVML_ERROR_NOT_SUPPORTED);
  CHECK(vgpu.call("nvmlDeviceGetTemperature", vgpu.device(0),
                  nvmlTemperatureSensors_t{NVML_TEMPERATURE_GPU},
                  &number) == NVML_ERROR_NOT_SUPPORTED);
  CHECK(spark.call("nvmlDeviceGetMemoryInfo", spark.device(0), &memory) ==
        NVML_ERROR_NOT_SUPPORTED);
  CHECK(list(spark, "nvmlDeviceGetComputeRunningProcesses_v3", spark.device(0), 24).size() == 2);
  for (const Record& record :
       list(windows, "nvmlDeviceGetComputeRunningProcesses_v3", windows.device(0), 24))
    CHECK(record.usedGpuMemory == NVML_VALUE_NOT_AVAILABLE_64);
  CHECK(server.call("nvmlDeviceGetFanSpeed", server.device(0), &number) ==
        NVML_ERROR_NOT_SUPPORTED);
}

TEST_CASE("errors and remapped rows show the faults") {
  const Simulated driver(
      "dgx-a100-8", 0,
      {"ecc:0=3", "remap:1", "remap:2=failed", "remap:3=5", "throttle:4=power_brake"});
  REQUIRE(driver.begin() == NVML_SUCCESS);
  std::uint64_t errors = 0, reasons = 0;
  CHECK(driver.call("nvmlDeviceGetTotalEccErrors", driver.device(0),
                    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
                    &errors) == NVML_SUCCESS);
  CHECK(errors == 3);
  struct Rows {
    std::uint32_t corrected, uncorrected, pending, failed;
  };
  const std::map<std::uint32_t, Rows> wanted{
      {0, {0, 0, 0, 0}}, {1, {0, 1, 1, 0}}, {2, {0, 1, 0, 1}}, {3, {0, 5, 0, 0}}};
  for (const auto& [device, rows] : wanted) {
    Rows got{9, 9, 9, 9};
    CHECK(driver.call("nvmlDeviceGetRemappedRows", driver.device(device), &got.corrected,
                      &got.uncorrected, &got.pending, &got.failed) == NVML_SUCCESS);
    CHECK(got.uncorrected == rows.uncorrected);
    CHECK(got.pending == rows.pending);
    CHECK(got.failed == rows.failed);
  }
  CHECK(driver.call("nvmlDeviceGetCurrentClocksEventReasons", driver.device(4), &reasons) ==
        NVML_SUCCESS);
  CHECK(reasons == (NVML_CLOCKS_HW_SLOWDOWN | NVML_CLOCKS_HW_POWER_BRAKE));
}

TEST_CASE("each field has its own result") {
  const Simulated driver("dgx-h100-8");
  REQUIRE(driver.begin() == NVML_SUCCESS);
  nvmlFieldValue_t fields[3] = {};
  fields[0].fieldId = NVML_FI_DEV_POWER_INSTANT;
  fields[1].fieldId = 60000;
  fields[2].fieldId = NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION;
  CHECK(driver.call("nvmlDeviceGetFieldValues", driver.device(0), 3,
                    static_cast<nvmlFieldValue_t*>(fields)) == NVML_SUCCESS);
  std::uint32_t power = 0;
  std::uint64_t energy = 0;
  CHECK(driver.call("nvmlDeviceGetPowerUsage", driver.device(0), &power) == NVML_SUCCESS);
  CHECK(driver.call("nvmlDeviceGetTotalEnergyConsumption", driver.device(0), &energy) ==
        NVML_SUCCESS);
  CHECK(fields[0].nvmlReturn == NVML_SUCCESS);
  CHECK(fields[0].value.uiVal == power);
  CHECK(fields[1].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
  CHECK(fields[2].value.ullVal == energy);
}
