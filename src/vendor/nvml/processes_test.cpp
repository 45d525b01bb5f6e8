#include "vendor/nvml/processes.hpp"

#include <doctest/doctest.h>

#include <cstring>

using berth::model::Absence;
using berth::model::Device;
using berth::nvml::Api;
using berth::nvml::Look;
using berth::nvml::Processes;

namespace {

constexpr std::uint64_t kSince = 1'000'000;
int calls = 0;

nvmlDevice_t handle() {
  static int here = 0;
  return reinterpret_cast<nvmlDevice_t>(&here);
}

Processes read(const Api& api, const Device& device = {}) {
  Look look{api, handle()};
  return berth::nvml::read_processes(look, device, kSince);
}

void write_record(void* out, std::size_t index, std::size_t stride, std::uint32_t pid,
                  std::uint64_t memory, std::uint32_t gpu_instance = NVML_VALUE_NOT_AVAILABLE_32) {
  nvmlProcessDetail_v1_t record{};
  record.pid = pid;
  record.usedGpuMemory = memory;
  record.gpuInstanceId = gpu_instance;
  record.computeInstanceId = gpu_instance == NVML_VALUE_NOT_AVAILABLE_32 ? gpu_instance : 0;
  std::memcpy(static_cast<unsigned char*>(out) + index * stride, &record, stride);
}

// A driver function that lists `entries` processes. The pids start at 100, and process i has (i +
// 1) MiB.
template <std::size_t stride, std::uint32_t entries>
nvmlReturn_t list(nvmlDevice_t, std::uint32_t* count, void* out) {
  const std::uint32_t capacity = *count;
  *count = entries;
  if (capacity < entries) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::uint32_t i = 0; i < entries; ++i) {
    write_record(out, i, stride, 100 + i, std::uint64_t{i + 1} << 20U);
  }
  return NVML_SUCCESS;
}

nvmlReturn_t empty(nvmlDevice_t, std::uint32_t* count, void*) {
  *count = 0;
  return NVML_SUCCESS;
}

void check_pids(const Processes& processes, std::uint32_t entries) {
  REQUIRE(processes.rows.size() == entries);
  for (std::uint32_t i = 0; i < entries; ++i) {
    CHECK(processes.rows[i].host_pid == 100 + i);
    CHECK(*processes.rows[i].memory_bytes == std::uint64_t{i + 1} << 20U);
  }
}

template <std::size_t stride>
void check_stride() {
  Api api;
  api.DeviceGetComputeRunningProcesses = list<stride, 1>;
  check_pids(read(api), 1);
  api.DeviceGetComputeRunningProcesses = list<stride, 5>;
  check_pids(read(api), 5);
  api.DeviceGetComputeRunningProcesses = list<stride, 64>;  // as many as the first buffer can hold
  check_pids(read(api), 64);
}

}  // namespace

TEST_CASE("trap 1: records of every known size are recognised") {
  check_stride<16>();
  check_stride<24>();
  check_stride<32>();
}

TEST_CASE("trap 1: a driver that zeroes more than it fills is still read") {
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t device, std::uint32_t* count, void* out) {
    std::memset(out, 0, *count * berth::nvml::kLargestRecord);
    return list<32, 3>(device, count, out);
  };
  check_pids(read(api), 3);
}

TEST_CASE("trap 1: invalid records are a failure, not processes") {
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count, void* out) {
    std::memset(out, 0x77, 100);
    *count = 3;
    return NVML_SUCCESS;
  };
  const Processes processes = read(api);
  CHECK(processes.rows.empty());
  CHECK(processes.why_not == Absence::kFailed);
}

TEST_CASE("trap 7: pids that Linux cannot have are left out") {
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count, void* out) {
    write_record(out, 0, 24, 0, 0);
    write_record(out, 1, 24, 4242, 1 << 20U);
    write_record(out, 2, 24, 0x80000000, 1 << 20U);
    *count = 3;
    return NVML_SUCCESS;
  };
  const Processes processes = read(api);
  REQUIRE(processes.rows.size() == 1);
  CHECK(processes.rows[0].host_pid == 4242);
}

TEST_CASE("trap 3: a list that does not fit is requested again, even if it has grown") {
  static std::uint32_t size = 0;
  size = 90;
  calls = 0;
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count, void* out) {
    ++calls;
    const std::uint32_t capacity = *count;
    *count = size;
    if (capacity < size) {
      size += 60;  // grows by more than the spare room, so that the next call fails, too
      return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (std::uint32_t i = 0; i < size; ++i)
      write_record(out, i, 24, 100 + i, std::uint64_t{i + 1} << 20U);
    return NVML_SUCCESS;
  };
  const Processes processes = read(api);
  check_pids(processes, size);
  CHECK(calls >= 2);
}

TEST_CASE("trap 3: a list that keeps growing is given up") {
  calls = 0;
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count, void*) {
    ++calls;
    *count = *count * 2 + 100;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  };
  const Processes processes = read(api);
  CHECK(processes.rows.empty());
  CHECK(processes.why_not == Absence::kFailed);
  CHECK(calls < 20);
}

TEST_CASE("trap 3: success with more records than space is an error") {
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count, void*) {
    *count = 0xffffffff;
    return NVML_SUCCESS;
  };
  CHECK(read(api).why_not == Absence::kFailed);
}

TEST_CASE("trap 5: memory that the driver does not know is absent") {
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count, void* out) {
    write_record(out, 0, 24, 4242, ~0ULL);
    *count = 1;
    return NVML_SUCCESS;
  };
  const Processes processes = read(api);
  REQUIRE(processes.rows.size() == 1);
  CHECK(processes.rows[0].memory_bytes.why == Absence::kNotSupported);
  CHECK_FALSE(processes.rows[0].memory_bytes);
}

TEST_CASE("trap 10: pids are the host's, and our own pid stays unknown") {
  Api api;
  api.DeviceGetComputeRunningProcesses = list<24, 1>;
  const Processes processes = read(api);
  REQUIRE(processes.rows.size() == 1);
  CHECK(processes.rows[0].host_pid == 100);
  CHECK_FALSE(processes.rows[0].pid);
}

TEST_CASE("a process in several lists is one process of several kinds") {
  Api api;
  api.DeviceGetComputeRunningProcesses = list<24, 2>;
  api.DeviceGetGraphicsRunningProcesses = list<24, 1>;
  api.DeviceGetMPSComputeRunningProcesses = empty;
  const Processes processes = read(api);
  check_pids(processes, 2);
  CHECK(processes.rows[0].kind.compute);
  CHECK(processes.rows[0].kind.graphics);
  CHECK_FALSE(processes.rows[0].kind.mps);
  CHECK_FALSE(processes.rows[1].kind.graphics);
  CHECK_FALSE(processes.why_not);
}

TEST_CASE("an old library only has the first version of the list") {
  Api api;
  api.DeviceGetComputeRunningProcesses_v1 = list<16, 3>;
  check_pids(read(api), 3);
}

TEST_CASE("a library without process lists gives a reason, not an empty list") {
  const Processes processes = read(Api{});
  CHECK(processes.rows.empty());
  CHECK(processes.why_not == Absence::kNotSupported);
}

TEST_CASE("one readable list does not replace a refused list of compute processes") {
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t*, void*) {
    return NVML_ERROR_NO_PERMISSION;
  };
  CHECK(read(api).why_not == Absence::kNoPermission);
  api.DeviceGetGraphicsRunningProcesses = empty;
  CHECK(read(api).why_not == Absence::kNoPermission);
}

TEST_CASE("processes belong to the partition that their record names") {
  Device device;
  device.partitions.resize(2);
  device.partitions[0].uuid = "MIG-a";
  device.partitions[0].gpu_instance = 1;
  device.partitions[0].compute_instance = 0;
  device.partitions[1].uuid = "MIG-b";
  device.partitions[1].gpu_instance = 2;
  device.partitions[1].compute_instance = 0;
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count, void* out) {
    write_record(out, 0, 24, 50, 1 << 20U, 2);
    write_record(out, 1, 24, 51, 1 << 20U, 1);
    *count = 2;
    return NVML_SUCCESS;
  };
  const Processes processes = read(api, device);
  REQUIRE(processes.rows.size() == 2);
  CHECK(processes.rows[0].partition_uuid == "MIG-b");
  CHECK(processes.rows[1].partition_uuid == "MIG-a");
}

TEST_CASE("trap 8: if the MIG parent refuses, its partitions are queried") {
  static int part_marker = 0;
  static const auto part = reinterpret_cast<nvmlDevice_t>(&part_marker);
  Device device;
  device.partitions.resize(1);
  device.partitions[0].uuid = "MIG-a";
  device.partitions[0].gpu_instance = 1;
  Api api;
  api.DeviceGetMigDeviceHandleByIndex = [](nvmlDevice_t, std::uint32_t, nvmlDevice_t* out) {
    *out = part;
    return NVML_SUCCESS;
  };
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t device_asked, std::uint32_t* count,
                                            void* out) {
    return device_asked == part ? list<24, 2>(device_asked, count, out) : NVML_ERROR_NO_PERMISSION;
  };
  const Processes processes = read(api, device);
  check_pids(processes, 2);
  CHECK(processes.rows[0].partition_uuid == "MIG-a");
  CHECK_FALSE(processes.why_not);
}

TEST_CASE("trap 4: no new samples mean 0 percent, and other errors are absent") {
  Api api;
  api.DeviceGetComputeRunningProcesses = list<24, 1>;
  api.DeviceGetProcessUtilization = [](nvmlDevice_t, nvmlProcessUtilizationSample_t*,
                                       std::uint32_t* count, std::uint64_t) {
    *count = 0;
    return NVML_ERROR_NOT_FOUND;
  };
  CHECK(*read(api).rows.at(0).sm_percent == 0);
  api.DeviceGetProcessUtilization = [](nvmlDevice_t, nvmlProcessUtilizationSample_t*,
                                       std::uint32_t*,
                                       std::uint64_t) { return NVML_ERROR_NOT_SUPPORTED; };
  CHECK(read(api).rows.at(0).sm_percent.why == Absence::kNotSupported);
  CHECK_FALSE(read(api).rows.at(0).sm_percent);
}

TEST_CASE("trap 4: the newest row counts, stale and empty rows do not, and 130 percent stay 130") {
  Api api;
  api.DeviceGetComputeRunningProcesses = list<24, 4>;
  api.DeviceGetProcessUtilization = [](nvmlDevice_t, nvmlProcessUtilizationSample_t* samples,
                                       std::uint32_t* count, std::uint64_t since) {
    CHECK(since == kSince);
    samples[0] = {100, since + 5, 70, 0, 1, 2};
    samples[1] = {100, since + 9, 30, 0, 3, 4};
    samples[2] = {101, since - 1, 55, 0, 0, 0};          // stale
    samples[3] = {102, since + 1, 130, 0, 0, 0};         // above the valid range
    samples[4] = {103, since + 1, 0xffffffff, 0, 0, 0};  // nonsense
    // The driver's count is 100, but only 5 rows are real.
    for (int i = 5; i < 100; ++i) samples[i] = {};
    *count = 100;
    return NVML_SUCCESS;
  };
  const Processes processes = read(api);
  REQUIRE(processes.rows.size() == 4);
  CHECK(*processes.rows[0].sm_percent == 30);
  CHECK(*processes.rows[0].encoder_percent == 3);
  CHECK(*processes.rows[0].decoder_percent == 4);
  CHECK(*processes.rows[1].sm_percent == 0);
  CHECK(*processes.rows[2].sm_percent == 130);
  CHECK(processes.rows[3].sm_percent.why == Absence::kFailed);
}

TEST_CASE("trap 4: if there are more samples than space, they are requested again") {
  static const std::uint32_t entries = 300;
  Api api;
  api.DeviceGetComputeRunningProcesses = list<24, 1>;
  api.DeviceGetProcessUtilization = [](nvmlDevice_t, nvmlProcessUtilizationSample_t* samples,
                                       std::uint32_t* count, std::uint64_t since) {
    const std::uint32_t capacity = *count;
    *count = entries;
    if (capacity < entries) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (std::uint32_t i = 0; i < entries; ++i) samples[i] = {100, since + 1 + i, i % 100, 0, 0, 0};
    return NVML_SUCCESS;
  };
  CHECK(*read(api).rows.at(0).sm_percent == 99);
}

TEST_CASE("a device that is lost while its processes are read is not queried again") {
  calls = 0;
  Api api;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t*, void*) {
    return NVML_ERROR_GPU_IS_LOST;
  };
  api.DeviceGetGraphicsRunningProcesses = [](nvmlDevice_t, std::uint32_t*, void*) {
    ++calls;
    return NVML_SUCCESS;
  };
  Look look{api, handle()};
  const Processes processes = berth::nvml::read_processes(look, {}, kSince);
  CHECK(look.lost);
  CHECK(calls == 0);
  CHECK(processes.why_not == Absence::kLost);
}

TEST_CASE("a list of graphics processes does not replace that of compute processes") {
  const auto empty = [](nvmlDevice_t, std::uint32_t* count, void*) -> nvmlReturn_t {
    *count = 0;
    return NVML_SUCCESS;
  };
  Api api;
  api.DeviceGetGraphicsRunningProcesses = empty;
  api.DeviceGetMPSComputeRunningProcesses = empty;
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t*, void*) -> nvmlReturn_t {
    return NVML_ERROR_UNKNOWN;
  };
  CHECK(read(api).why_not == Absence::kFailed);
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t*, void*) -> nvmlReturn_t {
    return NVML_ERROR_NO_PERMISSION;
  };
  CHECK(read(api).why_not == Absence::kNoPermission);
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t*, void*) -> nvmlReturn_t {
    return NVML_ERROR_NOT_SUPPORTED;
  };
  CHECK(read(api).why_not == Absence::kNotSupported);
  // Each call reports one process more than fits into the buffer.
  api.DeviceGetComputeRunningProcesses = [](nvmlDevice_t, std::uint32_t* count,
                                            void*) -> nvmlReturn_t {
    *count += 1;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  };
  CHECK(read(api).why_not == Absence::kFailed);
  api.DeviceGetComputeRunningProcesses = empty;
  api.DeviceGetGraphicsRunningProcesses = nullptr;
  CHECK_FALSE(read(api).why_not);
}
