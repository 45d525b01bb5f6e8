// Processes on a device. The record size depends on the function and the driver version
// (docs/simulator.md); many tools use a wrong size.
#include <string.h>

#include "simulator/nvml_core.hpp"

using namespace berth::simulator;

namespace {

constexpr Ask kProcesses{wire::k_processes, false, true};

/// Calls visit(index, process) for each process with this kind of use on the call's device or
/// partition.
template <typename Visit>
void for_users(const Call& call, std::uint32_t use, Visit visit) {
  call.moment().for_processes([&](std::uint32_t i, const wire::Process& process) {
    if ((process.use & use) == 0) return;
    if (call.on_partition() && process.partition != call.partition()) return;
    visit(i, process);
  });
}

nvmlProcessDetail_v1_t record_of(const Call& call, std::uint32_t i, const wire::Process& process) {
  nvmlProcessDetail_v1_t record = {};
  record.pid = static_cast<std::uint32_t>(process.pid);
  const bool hidden = (call.device().unsupported >> wire::k_process_memory & 1U) != 0;
  record.usedGpuMemory = hidden ? NVML_VALUE_NOT_AVAILABLE_64 : call.moment().process_memory(i);
  record.gpuInstanceId = record.computeInstanceId = NVML_VALUE_NOT_AVAILABLE_32;
  if (process.partition == wire::kNone) return record;
  const wire::Partition& partition =
      view().partition(call.device().partition_first + process.partition);
  record.gpuInstanceId = partition.gpu_instance;
  record.computeInstanceId = partition.compute_instance;
  return record;
}

nvmlProcessDetail_v1_t record_of(const Call& call, std::int64_t pid, std::uint64_t bytes) {
  nvmlProcessDetail_v1_t record = {};
  record.pid = static_cast<std::uint32_t>(pid);
  const bool hidden = (call.device().unsupported >> wire::k_process_memory & 1U) != 0;
  record.usedGpuMemory = hidden ? NVML_VALUE_NOT_AVAILABLE_64 : bytes;
  record.gpuInstanceId = record.computeInstanceId = NVML_VALUE_NOT_AVAILABLE_32;
  return record;
}

/// Calls `visit` for each program that uses the simulated CUDA driver.
template <typename Visit>
void for_programs(const Call& call, std::uint32_t use, Visit visit) {
  if ((use & wire::kCompute) != 0 && !call.on_partition()) for_cuda_users(call.number(), visit);
}

/// Writes a process list. If the program's array is too small, returns INSUFFICIENT_SIZE and the
/// needed count. Then the program has to call again. All record versions begin alike, so the first
/// `bytes` bytes of the longest version are written.
nvmlReturn_t list(const Call& call, std::uint32_t use, std::uint32_t* count, void* records,
                  std::size_t bytes) {
  if (!call.ok()) return call.result();
  std::uint32_t there = 0;
  for_users(call, use, [&](std::uint32_t, const wire::Process&) { ++there; });
  for_programs(call, use, [&](std::int64_t, std::uint64_t) { ++there; });
  const std::uint32_t room = *count;
  *count = there;
  if (there == 0) return NVML_SUCCESS;
  if (records == nullptr && room > 0) return NVML_ERROR_INVALID_ARGUMENT;
  if (room < there) return NVML_ERROR_INSUFFICIENT_SIZE;
  auto* into = static_cast<unsigned char*>(records);
  for_users(call, use, [&](std::uint32_t i, const wire::Process& process) {
    const nvmlProcessDetail_v1_t record = record_of(call, i, process);
    memcpy(into, &record, bytes);
    into += bytes;
  });
  // Processes that started after they were counted are left out. If some have ended since, the list
  // is shorter.
  auto* const end = static_cast<unsigned char*>(records) + there * bytes;
  for_programs(call, use, [&](std::int64_t pid, std::uint64_t used) {
    if (into == end) return;
    const nvmlProcessDetail_v1_t record = record_of(call, pid, used);
    memcpy(into, &record, bytes);
    into += bytes;
  });
  *count = static_cast<std::uint32_t>(
      static_cast<std::size_t>(into - static_cast<unsigned char*>(records)) / bytes);
  return NVML_SUCCESS;
}

constexpr std::size_t kV1 = sizeof(nvmlProcessInfo_v1_t), kV2 = sizeof(nvmlProcessInfo_v2_t);
static_assert(kV1 == 16 && kV2 == 24 && sizeof(nvmlProcessDetail_v1_t) == 32);
std::size_t v3() {
  return view().empty() ? kV2 : view().state().process_record_bytes;
}

/// Time of the newest utilization sample, in microseconds.
std::uint64_t sampled_at(const Call& call) {
  constexpr std::uint64_t kPeriod = wire::kSamplePeriod / 1000;
  return static_cast<std::uint64_t>(view().state().start_unix_us) +
         call.now() / 1000 / kPeriod * kPeriod;
}

/// Calls visit(pid, percent) for each process that used the device in the newest sample period:
/// the processes that the machine file lists, and real programs that use the simulated CUDA.
template <typename Visit>
void for_busy(const Call& call, Visit visit) {
  for_users(call, ~0U, [&](std::uint32_t, const wire::Process& process) {
    const std::uint32_t share = call.moment().share_of(process);
    if (share > 0) visit(process.pid, share);
  });
  for_cuda_shares(call.number(), visit);
}

std::uint32_t busy_processes(const Call& call) {
  std::uint32_t n = 0;
  for_busy(call, [&](std::int64_t, std::uint32_t) { ++n; });
  return n;
}

constexpr Ask kUtilization{wire::k_process_utilization, false, false};

}  // namespace

#define PROCESS_LIST(name, use, bytes)                                                             \
  NVML(name)(nvmlDevice_t device, std::uint32_t * count, void* records) {                          \
    return list(Call(f_##name, device, count != nullptr, kProcesses), use, count, records, bytes); \
  }
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, wire::kCompute, kV1)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, wire::kCompute, kV2)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, wire::kCompute, v3())
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, wire::kGraphics, kV1)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, wire::kGraphics, kV2)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, wire::kGraphics, v3())
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, wire::kMps, kV1)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, wire::kMps, kV2)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, wire::kMps, v3())

NVML(nvmlDeviceGetRunningProcessDetailList)(nvmlDevice_t device, nvmlProcessDetailList_t* out) {
  ENTER(nvmlDeviceGetRunningProcessDetailList, device, out != nullptr, kProcesses);
  if (out->version != nvml_struct_version<nvmlProcessDetailList_t>(1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (out->mode > NVML_PROCESS_MODE_MPS) return NVML_ERROR_INVALID_ARGUMENT;
  const std::uint32_t use = out->mode == NVML_PROCESS_MODE_COMPUTE    ? wire::kCompute
                            : out->mode == NVML_PROCESS_MODE_GRAPHICS ? wire::kGraphics
                                                                      : wire::kMps;
  return list(call, use, &out->numProcArrayEntries, out->procArray, sizeof(nvmlProcessDetail_v1_t));
}

NVML(nvmlDeviceGetProcessUtilization)
(nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples, std::uint32_t* count,
 std::uint64_t since) {
  ENTER(nvmlDeviceGetProcessUtilization, device, count != nullptr, kUtilization);
  if (call.device().mig_enabled != 0) return NVML_ERROR_NOT_SUPPORTED;
  const std::uint32_t room = *count;
  *count = busy_processes(call);
  const std::uint64_t time = sampled_at(call);
  if (*count == 0 || (samples != nullptr && time <= since)) return NVML_ERROR_NOT_FOUND;
  if (samples == nullptr || room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
  // Processes that became busy after they were counted are left out.
  std::uint32_t n = 0;
  for_busy(call, [&](std::int64_t pid, std::uint32_t share) {
    if (n < *count)
      samples[n++] = {static_cast<std::uint32_t>(pid), time, share, share * 55 / 100, 0, 0};
  });
  *count = n;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetProcessesUtilizationInfo)
(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t* info) {
  ENTER(nvmlDeviceGetProcessesUtilizationInfo, device, info != nullptr, kUtilization);
  if (info->version != nvml_struct_version<nvmlProcessesUtilizationInfo_t>(1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (call.device().mig_enabled != 0) return NVML_ERROR_NOT_SUPPORTED;
  const std::uint32_t room = info->processSamplesCount;
  info->processSamplesCount = busy_processes(call);
  const std::uint64_t time = sampled_at(call);
  nvmlProcessUtilizationInfo_v1_t* into = info->procUtilArray;
  if (info->processSamplesCount == 0 || (into != nullptr && time <= info->lastSeenTimeStamp))
    return NVML_ERROR_NOT_FOUND;
  if (into == nullptr || room < info->processSamplesCount) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::uint32_t n = 0;
  for_busy(call, [&](std::int64_t pid, std::uint32_t share) {
    if (n < info->processSamplesCount)
      into[n++] = {time, static_cast<std::uint32_t>(pid), share, share * 55 / 100, 0, 0, 0, 0};
  });
  info->processSamplesCount = n;
  return NVML_SUCCESS;
}
