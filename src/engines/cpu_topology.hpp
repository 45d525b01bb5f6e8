// Sockets, cores and threads as Slurm numbers them. Slurm counts cores across sockets, independent
// of the kernel's numbers for CPUs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace berth::engines {

struct CpuTopology {
  int sockets = 0, cores = 0, threads = 0;  // totals of the machine
  std::map<int, int> core_of;               // maps the kernel's CPU number to Slurm's core number
};

/// Reads the topology; nullopt if /sys does not have it.
[[nodiscard]] std::optional<CpuTopology> read_cpu_topology(const Roots& roots);
/// Converts a list of CPUs to a list of Slurm's core numbers; both have the kernel's list format.
/// "" if a CPU is unknown. "" also if the result is all cores, because Cores= is then not needed.
[[nodiscard]] std::string cores_near(const CpuTopology& topology, const std::string& cpus);

}  // namespace berth::engines
