// Starts and ends the forked process that calls NVIDIA's driver. It owns only one end of a pipe: if
// the driver hangs or crashes, the parent just receives no more data.
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
  /// If not empty: initialize without attaching GPUs, and read only these GPUs, because others are
  /// asleep.
  std::vector<std::string> only_addresses;
  /// If not empty: read only these devices, one at a time, because one of the devices crashes the
  /// driver.
  std::vector<std::uint32_t> one_by_one;
  /// Time limit of a scan. Values that were read by then are sent; the rest counts as not answered.
  std::chrono::milliseconds look_within{600};
  bool processes = true;
  bool pcie_throughput = false;
  /// If above zero: sample the devices in `wanted` (uuids or PCI addresses) at this interval, and
  /// read the slower values as often as `pace` says.
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
