// The processes on a device, as the driver lists them. Its records have had three sizes under one
// function name, its lists grow between two calls, and its pids are those of the host: nothing here
// takes the driver at its word.
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
  std::uint64_t memory_bytes = 0;  // NVML_VALUE_NOT_AVAILABLE_64: the driver does not know
  std::uint32_t gpu_instance = NVML_VALUE_NOT_AVAILABLE_32;
  std::uint32_t compute_instance = NVML_VALUE_NOT_AVAILABLE_32;
};

/// What a buffer is filled with before the driver writes to it, so that what it wrote can be told
/// from what it left.
inline constexpr unsigned char kPoison = 0xa5;
/// The largest record any driver has written.
inline constexpr std::size_t kLargestRecord = sizeof(nvmlProcessDetail_v1_t);

/// The size of the records (16, 24 or 32) in a buffer that was poisoned and then got `count`
/// records; nullopt where no size makes sense of them.
[[nodiscard]] std::optional<std::size_t> record_stride(std::span<const unsigned char> buffer,
                                                       std::size_t count);
/// The records that can be true: a pid that Linux can have, a size that fits in a machine.
[[nodiscard]] std::vector<ProcessRecord> plausible_records(std::span<const unsigned char> buffer,
                                                           std::size_t count, std::size_t stride);

struct Processes {
  std::vector<model::DeviceProcess>
      rows;  // DeviceProcess::device is 0; only host_pid, kind, memory and shares are filled
  /// Set where none of the lists could be read.
  std::optional<model::Absence> why_not;
};

/// `since`: microseconds of the Unix clock; time shares older than that are of no interest. Call
/// after read_partitions.
[[nodiscard]] Processes read_processes(Look& look, const model::Device& device,
                                       std::uint64_t since);

}  // namespace berth::nvml
