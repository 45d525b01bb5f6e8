// The processes on a device, as the driver lists them. The driver cannot be trusted: one function
// name has had three record sizes, lists grow between two calls, and pids are those of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"
#include "vendor/nvml/value.hpp"

namespace berth::nvml {

struct ProcessRecord {
  std::uint32_t pid = 0;
  std::uint64_t memory_bytes = 0;  // NVML_VALUE_NOT_AVAILABLE_64: unknown to the driver
  std::uint32_t gpu_instance = NVML_VALUE_NOT_AVAILABLE_32;
  std::uint32_t compute_instance = NVML_VALUE_NOT_AVAILABLE_32;
};

/// Fills buffers before the driver writes to them, so that written and untouched bytes can be
/// distinguished.
inline constexpr unsigned char kPoison = 0xa5;
/// The largest record that any driver writes.
inline constexpr std::size_t kLargestRecord = sizeof(nvmlProcessDetail_v1_t);

/// The size of the records (16, 24 or 32) in a poisoned buffer after the driver wrote `count`
/// records; nullopt if no size is plausible.
[[nodiscard]] std::optional<std::size_t> record_stride(std::span<const unsigned char> buffer,
                                                       std::size_t count);
/// The plausible records: a pid that Linux can have, and a memory size that fits in a machine.
[[nodiscard]] std::vector<ProcessRecord> plausible_records(std::span<const unsigned char> buffer,
                                                           std::size_t count, std::size_t stride);

struct Processes {
  std::vector<model::DeviceProcess> rows;  // processes with only host_pid, kind, memory and shares
                                           // set; DeviceProcess::device is 0
  /// why the lists are unknown; set if none of them could be read
  std::optional<model::Absence> why_not;
};

/// Reads the processes. Ignores time shares from before `since` (Unix time in microseconds). Call
/// after read_partitions.
[[nodiscard]] Processes read_processes(Look& look, const model::Device& device,
                                       std::uint64_t since);

}  // namespace berth::nvml
