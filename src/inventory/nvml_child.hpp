// The forked process that calls NVIDIA's driver, and how it is started and ended. It owns nothing
// but one end of a pipe: whatever the driver does to it, its parent only sees the pipe fall silent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "inventory/nvml_frames.hpp"

namespace berth::inventory {

/// What the child has to do.
struct NvmlTask {
  std::string library;
  /// Not empty: no GPU is attached by initialisation, and these alone are asked, because another
  /// one sleeps.
  std::vector<std::string> only_addresses;
  /// Not empty: only these of them, one after another, because one of them crashes the driver.
  std::vector<std::uint32_t> one_by_one;
  /// A device's look is over by then: what was told in time is sent, the rest has no answer.
  std::chrono::milliseconds look_within{600};
  bool processes = true;
  bool pcie_throughput = false;
  /// Above zero: again and again, only what read_sample() reads, and only of these (uuids or PCI
  /// addresses).
  std::chrono::milliseconds interval{0};
  std::vector<std::string> wanted;
};

struct NvmlChild {
  pid_t pid = -1;
  Descriptor pipe;     // frames come out here
  Descriptor process;  // a pidfd where the kernel has them
};

/// Forks; best called while this process has one thread. pid is -1 where that failed.
[[nodiscard]] NvmlChild start_nvml_child(const NvmlTask& task);
/// Gives the parser what waits in the pipe, without blocking; false where the pipe has ended.
[[nodiscard]] bool read_frames(const NvmlChild& child, frames::Parser& parser);
/// How a child ended whose pipe is closed: the number of the signal, 0 by itself, -1 not known
/// (yet). Waits a moment at most.
[[nodiscard]] int ending_of(NvmlChild& child);
/// Kills it and takes its exit status, if it can die: one that is stuck in the kernel is left
/// behind.
void end_nvml_child(NvmlChild& child);

/// The body of the child. Never returns.
[[noreturn]] void run_nvml_child(int pipe, const NvmlTask& task);

}  // namespace berth::inventory
