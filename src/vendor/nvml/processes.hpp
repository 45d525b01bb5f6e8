// The processes on a device, from the driver's lists. The lists need checks: one function name has
// had three record sizes, lists grow between two calls, and pids are those of the host.
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
  std::uint64_t memory_bytes = 0;  // NVML_VALUE_NOT_AVAILABLE_64 if the driver does not know it
  std::uint32_t gpu_instance = NVML_VALUE_NOT_AVAILABLE_32;
  std::uint32_t compute_instance = NVML_VALUE_NOT_AVAILABLE_32;
};

/// The byte that fills a buffer before the driver writes to it. Bytes with another value were
/// written by the driver.
inline constexpr unsigned char kPoison = 0xa5;
/// The size of the largest record that any driver writes.
inline constexpr std::size_t kLargestRecord = sizeof(nvmlProcessDetail_v1_t);

/// The buffer was filled with kPoison, and then the driver wrote `count` records into it. Returns
/// the size of a record (16, 24 or 32 bytes); nullopt if no size is plausible.
[[nodiscard]] std::optional<std::size_t> record_stride(std::span<const unsigned char> buffer,
                                                       std::size_t count);
/// Returns the plausible records: the pid is possible in Linux, and the memory fits into a machine.
[[nodiscard]] std::vector<ProcessRecord> plausible_records(std::span<const unsigned char> buffer,
                                                           std::size_t count, std::size_t stride);

struct Processes {
  std::vector<model::DeviceProcess> rows;  // only host_pid, kind, memory, shares are set
  /// why the lists are unknown; set if none of them could be read
  std::optional<model::Absence> why_not;
};

/// Reads the processes on a device. Ignores time shares from before `since` (Unix time in
/// microseconds). Call it after read_partitions().
[[nodiscard]] Processes read_processes(Look& look, const model::Device& device,
                                       std::uint64_t since);

}  // namespace berth::nvml
