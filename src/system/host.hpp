// The host: the CPUs and memory that this process may use (affinity, cpuset, cgroup v1 and v2 quota
// and limit), and its NUMA nodes.
#pragma once

#include <optional>
#include <string>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/snapshot.hpp"

namespace berth::system {

[[nodiscard]] model::CpuBudget read_cpu_budget(const Roots& roots);
/// The CPU quota of a process as a number of cores, from its /proc/PID/cgroup; nullopt if there is
/// no limit.
[[nodiscard]] std::optional<double> quota_of(const Roots& roots, const std::string& cgroup);
[[nodiscard]] model::Host read_host(const Roots& roots);
/// The CPU as a device: kind kCpu, with the model as its name, and usable and used memory.
[[nodiscard]] model::Device cpu_device(const Roots& roots, const model::Host& host);

}  // namespace berth::system
