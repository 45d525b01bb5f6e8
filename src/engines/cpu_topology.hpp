// Sockets, cores and threads as Slurm numbers them. Slurm numbers the cores of all sockets
// consecutively. These numbers differ from the kernel's CPU numbers.
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
/// Converts the kernel's CPU numbers to Slurm's core numbers. Both lists have the kernel's format
/// ("0-3,8"). "" if a CPU is unknown, or if the list has all cores: then Cores= is not needed.
[[nodiscard]] std::string cores_near(const CpuTopology& topology, const std::string& cpus);

}  // namespace berth::engines
