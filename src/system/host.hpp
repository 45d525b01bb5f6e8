// The host: processors and memory that this process may really use (affinity, cpuset, cgroup v1 and
// v2 quota and limit), NUMA.
#pragma once

#include <optional>
#include <string>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/snapshot.hpp"

namespace berth::system {

[[nodiscard]] model::CpuBudget read_cpu_budget(const Roots& roots);
/// Cores' worth of time that another process may have, by the text of its /proc/PID/cgroup;
/// nullopt: no group around it limits that.
[[nodiscard]] std::optional<double> quota_of(const Roots& roots, const std::string& cgroup);
[[nodiscard]] model::Host read_host(const Roots& roots);
/// The CPU as a device of its own: kind kCpu, name = its model, memory = what is usable and used.
[[nodiscard]] model::Device cpu_device(const Roots& roots, const model::Host& host);

}  // namespace berth::system
