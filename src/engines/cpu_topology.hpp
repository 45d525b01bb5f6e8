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
/// Slurm's cores for these CPUs, both in the kernel's list format. "" if one of them is unknown, or
/// if these are all cores of the machine, because Cores= is then not needed.
[[nodiscard]] std::string cores_near(const CpuTopology& topology, const std::string& cpus);

}  // namespace berth::engines
