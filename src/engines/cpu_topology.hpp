// Sockets, cores and threads as Slurm numbers them: cores count through the sockets, whatever the
// kernel calls their threads.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace berth::engines {

struct CpuTopology {
  int sockets = 0, cores = 0, threads = 0;  // cores and threads of the whole machine
  std::map<int, int> core_of;               // the kernel's processor → Slurm's core
};

/// nullopt if /sys does not tell it.
[[nodiscard]] std::optional<CpuTopology> read_cpu_topology(const Roots& roots);
/// Slurm's cores of these processors (kernel list format), in the same format. "" if one of them
/// is not known, or if they are all cores of the machine: then Cores= says nothing.
[[nodiscard]] std::string cores_near(const CpuTopology& topology, const std::string& cpus);

}  // namespace berth::engines
