// Starts and ends the forked process that calls NVIDIA's driver. The only connection to the child
// is a pipe. If the driver hangs or crashes, the parent just receives no more data.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "inventory/device_sample.hpp"
#include "inventory/nvml_frames.hpp"

namespace berth::inventory {

/// The signal that makes a sampling child take a sample immediately.
inline constexpr int kSampleNow = SIGUSR1;

/// The child's task.
struct NvmlTask {
  std::string library;
  /// If not empty, some GPUs are asleep: initialize without attaching GPUs, and read only the GPUs
  /// with these PCI addresses.
  std::vector<std::string> only_addresses;
  /// If not empty, a device has crashed the driver: read only the devices at these positions, one
  /// at a time.
  std::vector<std::uint32_t> one_by_one;
  /// Time limit of a scan. When it expires, the child sends the values that it has; missing values
  /// count as not answered.
  std::chrono::milliseconds look_within{600};
  bool processes = true;
  bool pcie_throughput = false;
  /// If above zero: sample at this interval the devices in `wanted` (uuids or PCI addresses).
  /// `pace` sets how often the slower values are read. If zero: read the devices once.
  std::chrono::milliseconds interval{0};
  std::vector<std::string> wanted;
  SamplePace pace;  // how often to read the slower values, in multiples of `interval`
};

struct NvmlChild {
  pid_t pid = -1;
  Descriptor pipe;     // the parent's end of the pipe, from which it reads frames
  Descriptor process;  // a pidfd, if the kernel supports them
};

/// Forks the child. If possible, call this while the process has only one thread. pid is -1 on
/// failure.
[[nodiscard]] NvmlChild start_nvml_child(const NvmlTask& task);
/// Passes available data to the parser without blocking; false at end of file.
[[nodiscard]] bool read_frames(const NvmlChild& child, frames::Parser& parser);
/// How the child ended after closing its pipe: the signal number, 0 for a normal exit, -1 if
/// unknown. Waits only briefly.
[[nodiscard]] int ending_of(NvmlChild& child);
/// Kills the child and waits for its end. A child that is stuck in the kernel is abandoned.
void end_nvml_child(NvmlChild& child);

}  // namespace berth::inventory
