// Sockets, cores and threads as Slurm numbers them: cores are counted across sockets, independent
// of the kernel's thread numbers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace berth::engines {

struct CpuTopology {
  int sockets = 0, cores = 0, threads = 0;  // totals of the machine
  std::map<int, int> core_of;               // the kernel's processor → Slurm's core
};

/// nullopt if /sys does not have it.
[[nodiscard]] std::optional<CpuTopology> read_cpu_topology(const Roots& roots);
/// Slurm's cores of these processors (kernel list format), in the same format. "" if one of them is
/// unknown, or if they are all cores of the machine, because then Cores= is not needed.
[[nodiscard]] std::string cores_near(const CpuTopology& topology, const std::string& cpus);

}  // namespace berth::engines
