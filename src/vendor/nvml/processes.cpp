// Finds out how large the driver's records are. nvmlDeviceGetComputeRunningProcesses writes 16
// bytes each, and _v2 and _v3 write 24. But _v3 writes 32 in drivers 535.43 to 535.86, and 16
// according to one report, so the driver's version does not decide it. Therefore the buffer is
// large enough for the largest record, and is filled with a known byte before the call. The end of
// the changed bytes shows the size. Some drivers clear more bytes than they fill. In that case,
// Berth chooses the size with which every record is plausible.
#include "vendor/nvml/processes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

namespace berth::nvml {

using model::Absence;
using model::DeviceProcess;

namespace {

constexpr std::size_t kSmallRecord = sizeof(nvmlProcessInfo_v1_t);
constexpr std::size_t kUsualRecord = sizeof(nvmlProcessInfo_v2_t);
constexpr std::array<std::size_t, 3> kStrides = {kUsualRecord, kLargestRecord,
                                                 kSmallRecord};  // the most common size first

constexpr std::uint32_t kMostPid = 1U << 22U;  // the highest pid of 64-bit Linux (PID_MAX_LIMIT)
constexpr std::uint32_t kMostInstances = 1024;
constexpr std::uint32_t kFirstCapacity = 64;
constexpr std::uint32_t kMostRecords = 1U << 17U;
constexpr int kMostTries = 6;  // failed attempts after which the list counts as unreadable

template <typename T>
T load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

ProcessRecord record_at(const unsigned char* at, std::size_t stride) {
  ProcessRecord record;
  record.pid = load<std::uint32_t>(at);
  record.memory_bytes = load<std::uint64_t>(at + offsetof(nvmlProcessInfo_v2_t, usedGpuMemory));
  if (stride > kSmallRecord) {
    record.gpu_instance = load<std::uint32_t>(at + offsetof(nvmlProcessInfo_v2_t, gpuInstanceId));
    record.compute_instance =
        load<std::uint32_t>(at + offsetof(nvmlProcessInfo_v2_t, computeInstanceId));
  }
  return record;
}

bool is_instance(std::uint32_t id) {
  return id == NVML_VALUE_NOT_AVAILABLE_32 || id < kMostInstances;
}

bool is_plausible(const ProcessRecord& record) {
  const bool memory =
      record.memory_bytes == NVML_VALUE_NOT_AVAILABLE_64 || record.memory_bytes <= kMemory.most;
  return record.pid > 0 && record.pid <= kMostPid && memory && is_instance(record.gpu_instance) &&
         is_instance(record.compute_instance);
}

std::size_t written_bytes(std::span<const unsigned char> buffer) {
  std::size_t end = buffer.size();
  while (end > 0 && buffer[end - 1] == kPoison) --end;
  return end;
}

bool all_plausible(std::span<const unsigned char> buffer, std::size_t count, std::size_t stride) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_plausible(record_at(buffer.data() + i * stride, stride))) return false;
  }
  return true;
}

using ListFunction = nvmlReturn_t (*)(nvmlDevice_t, std::uint32_t*, void*);

struct List {
  nvmlReturn_t code = NVML_SUCCESS;
  bool nonsense = false;
  std::vector<ProcessRecord> records;
};

List records_of(std::span<const unsigned char> buffer, std::uint32_t count) {
  List list;
  if (count == 0) return list;
  const std::optional<std::size_t> stride = record_stride(buffer, count);
  if (!stride) {
    list.nonsense = true;
    return list;
  }
  list.records = plausible_records(buffer, count, *stride);
  return list;
}

// Reads a list of processes. One call is enough if the list fits into the buffer, as it nearly
// always does. If it does not fit, the driver returns the needed size, but the list may have grown
// before the next call.
List read_list(Look& look, nvmlDevice_t handle, ListFunction function) {
  std::uint32_t capacity = kFirstCapacity;
  for (int tries = 0; tries < kMostTries; ++tries) {
    std::vector<unsigned char> buffer((capacity + std::size_t{1}) * kLargestRecord, kPoison);
    std::uint32_t count = capacity;
    const nvmlReturn_t code = look(function, handle, &count, static_cast<void*>(buffer.data()));
    if (code == NVML_SUCCESS && count <= capacity) return records_of(buffer, count);
    if (code != NVML_SUCCESS && code != NVML_ERROR_INSUFFICIENT_SIZE) return {code, false, {}};
    capacity = std::max(capacity * 2, count < kMostRecords ? count + 16 : kMostRecords);
    if (capacity > kMostRecords) break;
  }
  return {NVML_SUCCESS, true, {}};
}

List read_newest(Look& look, nvmlDevice_t handle, ListFunction newer, ListFunction older) {
  List list = read_list(look, handle, newer);
  if (list.code == NVML_ERROR_FUNCTION_NOT_FOUND) list = read_list(look, handle, older);
  return list;
}

model::Reading<std::uint64_t> memory_of(const ProcessRecord& record) {
  if (record.memory_bytes == NVML_VALUE_NOT_AVAILABLE_64) return Absence::kNotSupported;
  return record.memory_bytes;
}

std::string partition_of(const ProcessRecord& record, const model::Device& device) {
  if (record.gpu_instance == NVML_VALUE_NOT_AVAILABLE_32) return {};
  for (const model::Partition& partition : device.partitions) {
    const bool same_compute = record.compute_instance == NVML_VALUE_NOT_AVAILABLE_32 ||
                              partition.compute_instance == record.compute_instance;
    if (partition.gpu_instance == record.gpu_instance && same_compute) return partition.uuid;
  }
  return {};
}

// Merges the rows of one process. A process that both computes and draws is in two lists, and both
// show the same memory.
void merge_same(std::vector<DeviceProcess>& rows) {
  const auto key = [](const DeviceProcess& row) {
    return std::tie(row.host_pid, row.partition_uuid);
  };
  std::stable_sort(
      rows.begin(), rows.end(),
      [&key](const DeviceProcess& a, const DeviceProcess& b) { return key(a) < key(b); });
  std::vector<DeviceProcess> merged;
  merged.reserve(rows.size());
  for (DeviceProcess& row : rows) {
    if (merged.empty() || key(merged.back()) != key(row)) {
      merged.push_back(std::move(row));
      continue;
    }
    DeviceProcess& same = merged.back();
    same.kind.compute |= row.kind.compute;
    same.kind.graphics |= row.kind.graphics;
    same.kind.mps |= row.kind.mps;
    if (row.memory_bytes.value_or(0) > same.memory_bytes.value_or(0)) {
      same.memory_bytes = row.memory_bytes;
    }
  }
  rows = std::move(merged);
}

struct Kind {
  model::UseKind use;
  ListFunction newer;
  ListFunction older;
};

std::optional<Absence> problem_of(const List& list) {
  if (list.nonsense) return Absence::kFailed;
  if (list.code != NVML_SUCCESS) return absence(list.code);
  return std::nullopt;
}

// Adds the rows of the three lists (compute, graphics, MPS). Returns why the compute list could not
// be read: only that list decides whether the device is in use. Many devices lack the other lists.
std::optional<Absence> read_kinds(Look& look, nvmlDevice_t handle, const model::Device& device,
                                  const std::string& partition, Processes& processes) {
  const Api& api = look.api;
  const std::array<Kind, 3> kinds = {{
      {{true, false, false},
       api.DeviceGetComputeRunningProcesses,
       api.DeviceGetComputeRunningProcesses_v1},
      {{false, true, false},
       api.DeviceGetGraphicsRunningProcesses,
       api.DeviceGetGraphicsRunningProcesses_v1},
      {{true, false, true},
       api.DeviceGetMPSComputeRunningProcesses,
       api.DeviceGetMPSComputeRunningProcesses_v1},
  }};
  std::optional<Absence> why_not;
  for (const Kind& kind : kinds) {
    const List list = read_newest(look, handle, kind.newer, kind.older);
    if (kind.use.compute && !kind.use.mps) why_not = problem_of(list);
    for (const ProcessRecord& record : list.records) {
      DeviceProcess row;
      row.device = 0;
      row.partition_uuid = partition.empty() ? partition_of(record, device) : partition;
      row.host_pid = record.pid;
      row.kind = kind.use;
      row.memory_bytes = memory_of(record);
      processes.rows.push_back(std::move(row));
    }
  }
  return why_not;
}

// Reads the lists of a MIG device's partitions. In a container, the driver may deny access to the
// device itself, but not to its partitions. If one partition cannot be read, the whole result is
// unknown.
std::optional<Absence> read_partition_lists(Look& look, const model::Device& device,
                                            Processes& processes) {
  std::optional<Absence> why_not;
  for (const model::Partition& partition : device.partitions) {
    nvmlDevice_t handle = nullptr;
    const nvmlReturn_t code =
        look(look.api.DeviceGetMigDeviceHandleByIndex, look.device, partition.index, &handle);
    if (code != NVML_SUCCESS)
      why_not = absence(code);
    else if (const auto problem = read_kinds(look, handle, device, partition.uuid, processes))
      why_not = problem;
  }
  return why_not;
}

struct Shares {
  nvmlReturn_t code = NVML_SUCCESS;
  std::vector<nvmlProcessUtilizationSample_t> samples;
};

// Reads each process's share of the device's time after `since`. NOT_FOUND means that no process
// was active. The returned count can be larger than the number of rows that the driver wrote, and
// the other rows are old or zero. So each row's time is compared with `since`, too.
Shares read_shares(Look& look, std::uint64_t since) {
  std::uint32_t capacity = 128;
  for (int tries = 0; tries < kMostTries && capacity <= kMostRecords; ++tries) {
    Shares shares;
    shares.samples.resize(capacity + std::size_t{1});
    std::uint32_t count = capacity;
    shares.code = look(look.api.DeviceGetProcessUtilization, look.device, shares.samples.data(),
                       &count, since);
    if (shares.code == NVML_ERROR_INSUFFICIENT_SIZE ||
        (shares.code == NVML_SUCCESS && count > capacity)) {
      capacity = std::max(capacity * 2, count < kMostRecords ? count + 16 : kMostRecords);
      continue;
    }
    shares.samples.resize(shares.code == NVML_SUCCESS ? count : 0);
    if (shares.code == NVML_ERROR_NOT_FOUND) shares.code = NVML_SUCCESS;
    std::erase_if(shares.samples, [since](const nvmlProcessUtilizationSample_t& sample) {
      return sample.pid == 0 || sample.timeStamp <= since;
    });
    std::sort(shares.samples.begin(), shares.samples.end(), [](const auto& a, const auto& b) {
      return std::tie(a.pid, a.timeStamp) < std::tie(b.pid, b.timeStamp);
    });
    return shares;
  }
  return {NVML_ERROR_UNKNOWN, {}};
}

// Converts a time share to a reading. The driver adds samples of different times, so slightly more
// than 100 % is valid and shown as it is. Much more than that is invalid.
model::Reading<double> share(std::uint32_t percent) {
  if (percent > 200) return Absence::kFailed;
  return static_cast<double>(percent);
}

// Returns the newest sample of a process. The samples are sorted by pid, then by time.
const nvmlProcessUtilizationSample_t* newest_of(const Shares& shares, const DeviceProcess& row) {
  const auto after =
      std::upper_bound(shares.samples.begin(), shares.samples.end(), row.host_pid.value_or(0),
                       [](std::int64_t pid, const nvmlProcessUtilizationSample_t& sample) {
                         return pid < sample.pid;
                       });
  if (after == shares.samples.begin() || std::prev(after)->pid != row.host_pid.value_or(0))
    return nullptr;
  return &*std::prev(after);
}

void add_shares(const Shares& shares, std::vector<DeviceProcess>& rows) {
  for (DeviceProcess& row : rows) {
    if (shares.code != NVML_SUCCESS) {
      row.sm_percent = row.encoder_percent = row.decoder_percent = absence(shares.code);
      continue;
    }
    const nvmlProcessUtilizationSample_t* newest = newest_of(shares, row);
    // The driver lists only active processes. A process without a sample used 0 %.
    row.sm_percent = share(newest != nullptr ? newest->smUtil : 0);
    row.encoder_percent = share(newest != nullptr ? newest->encUtil : 0);
    row.decoder_percent = share(newest != nullptr ? newest->decUtil : 0);
  }
}

}  // namespace

std::optional<std::size_t> record_stride(std::span<const unsigned char> buffer, std::size_t count) {
  if (count == 0) return std::nullopt;
  const std::size_t written = written_bytes(buffer);
  for (const std::size_t stride : kStrides) {
    if (written == count * stride) return stride;
  }
  for (const std::size_t stride : kStrides) {
    if (count * stride <= buffer.size() && all_plausible(buffer, count, stride)) return stride;
  }
  return std::nullopt;
}

std::vector<ProcessRecord> plausible_records(std::span<const unsigned char> buffer,
                                             std::size_t count, std::size_t stride) {
  std::vector<ProcessRecord> records;
  records.reserve(count);
  for (std::size_t i = 0; i < count && (i + 1) * stride <= buffer.size(); ++i) {
    const ProcessRecord record = record_at(buffer.data() + i * stride, stride);
    if (is_plausible(record)) records.push_back(record);
  }
  return records;
}

Processes read_processes(Look& look, const model::Device& device, std::uint64_t since) {
  Processes processes;
  processes.why_not = read_kinds(look, look.device, device, "", processes);
  if (processes.why_not && !device.partitions.empty() && !device.partitions_unknown)
    processes.why_not = read_partition_lists(look, device, processes);
  merge_same(processes.rows);
  if (!processes.rows.empty()) add_shares(read_shares(look, since), processes.rows);
  return processes;
}

}  // namespace berth::nvml
