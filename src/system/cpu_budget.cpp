// How much of the host's CPUs and memory this process may use: the minimum of affinity, cpuset,
// quotas and limits.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "model/cpu_list.hpp"
#include "system/cgroup.hpp"
#include "system/host.hpp"

namespace berth::system {
namespace {

constexpr int kMostCpus = 8192;

/// The CPU affinity of this process; empty if it cannot be read.
std::vector<int> own_affinity() {
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  const std::unique_ptr<cpu_set_t, Free> set(CPU_ALLOC(kMostCpus));
  const std::size_t size = CPU_ALLOC_SIZE(kMostCpus);
  std::vector<int> cpus;
  if (!set) return cpus;
  CPU_ZERO_S(size, set.get());
  if (::sched_getaffinity(0, size, set.get()) != 0) return cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu)
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, set.get())) cpus.push_back(cpu);
  return cpus;
}

std::vector<int> cpus_in(const std::string& path) {
  const auto line = read_line(path);
  const auto list = line ? model::parse_cpu_list(*line) : std::nullopt;
  return list.value_or(std::vector<int>());
}

std::vector<int> affinity_of(const Roots& roots) {
  if (roots.proc == "/proc") return own_affinity();
  // For a recorded machine: the affinity of the process that made the recording.
  const std::string status = slurp(roots.proc + "/self/status").value_or("");
  for (const std::string_view line : split(status, '\n')) {
    constexpr std::string_view kKey = "Cpus_allowed_list:";
    if (!line.starts_with(kKey)) continue;
    return model::parse_cpu_list(line.substr(kKey.size())).value_or(std::vector<int>());
  }
  return {};
}

std::vector<int> online_cpus(const Roots& roots) {
  std::vector<int> online = cpus_in(roots.sys + "/devices/system/cpu/online");
  if (!online.empty()) return online;
  // If sysfs does not have the number, count the "cpuN" lines.
  const std::string stat = slurp(roots.proc + "/stat", 1 << 20).value_or("");
  for (const std::string_view line : split(stat, '\n')) {
    if (!line.starts_with("cpu") || line.starts_with("cpu ")) continue;
    const auto number = to_number(line.substr(3, line.find(' ') - 3));
    if (number && *number >= 0 && *number < kMostCpus) online.push_back(static_cast<int>(*number));
  }
  return online;
}

template <typename T>
void keep_least(std::optional<T>& least, std::optional<T> candidate) {
  if (candidate && (!least || *candidate < *least)) least = candidate;
}

/// Combines the limits of all groups that a process is in.
struct Limits {
  std::uint64_t machine_bytes = 0;
  std::optional<double> quota_cores;
  std::optional<std::uint64_t> memory_limit, memory_left;
  std::vector<int> cpuset;

  void take_cpu(const std::string& folder, bool v2) {
    if (v2) {
      const auto text = slurp(folder + "/cpu.max", 256);
      if (text) keep_least(quota_cores, parse_cpu_max(*text));
      return;
    }
    keep_least(quota_cores, quota_from(read_number(folder + "/cpu.cfs_quota_us"),
                                       read_number(folder + "/cpu.cfs_period_us")));
  }

  void take_cpuset(const std::string& folder, bool v2) {
    // the innermost group, which is read first, has the smallest set of CPUs
    if (!cpuset.empty()) return;
    cpuset = cpus_in(folder + (v2 ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus"));
    if (cpuset.empty() && !v2) cpuset = cpus_in(folder + "/cpuset.cpus");
  }

  void take_memory(const std::string& folder, bool v2) {
    const auto text = slurp(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), 256);
    const auto limit = text ? parse_memory_limit(*text, machine_bytes) : std::nullopt;
    if (!limit) return;
    keep_least(memory_limit, limit);
    const auto used = read_number(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!used || *used < 0) return;
    // The kernel drops inactive file cache before it refuses memory, so this cache does not count
    // as used.
    const std::string stat = slurp(folder + "/memory.stat").value_or("");
    const std::uint64_t cache =
        stat_value(stat, v2 ? "inactive_file" : "total_inactive_file").value_or(0);
    const auto gross = static_cast<std::uint64_t>(*used);
    const std::uint64_t net = gross - std::min(gross, cache);
    keep_least(memory_left, std::optional(*limit - std::min(*limit, net)));
  }
};

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void take_mount(Limits& limits, const CgroupMount& mount, const CgroupMembership& membership) {
  for (const std::string& folder : group_folders(mount, membership.path)) {
    if (mount.v2 || has(mount.controllers, "cpu")) limits.take_cpu(folder, mount.v2);
    if (mount.v2 || has(mount.controllers, "cpuset")) limits.take_cpuset(folder, mount.v2);
    if (mount.v2 || has(mount.controllers, "memory")) limits.take_memory(folder, mount.v2);
  }
}

bool same_hierarchy(const CgroupMount& mount, const CgroupMembership& membership) {
  if (mount.v2 || membership.v2) return mount.v2 && membership.v2;
  return std::any_of(membership.controllers.begin(), membership.controllers.end(),
                     [&](const std::string& name) { return has(mount.controllers, name); });
}

/// The limits of a process in these groups, as far as this process can see them.
Limits read_limits(const Roots& roots, const std::string& cgroup, std::uint64_t machine_bytes) {
  Limits limits;
  limits.machine_bytes = machine_bytes;
  const std::string mountinfo = slurp(roots.proc + "/self/mountinfo", 1 << 22).value_or("");
  // Mount points are paths of the recorded machine. In a recording, they are below the folder that
  // contains the recorded /proc.
  const std::string_view proc = roots.proc;
  const std::string prefix(proc.substr(0, proc.size() - (proc.ends_with("/proc") ? 5 : 0)));
  const auto memberships = parse_cgroup(cgroup);
  for (CgroupMount mount : parse_cgroup_mounts(mountinfo)) {
    mount.point.insert(0, prefix);
    for (const CgroupMembership& membership : memberships)
      if (same_hierarchy(mount, membership)) take_mount(limits, mount, membership);
  }
  return limits;
}

int whole_cores(int cores, std::optional<double> quota) {
  if (quota && *quota < cores) cores = static_cast<int>(std::floor(*quota));
  return std::max(cores, 1);
}

}  // namespace

model::CpuBudget read_cpu_budget(const Roots& roots) {
  model::CpuBudget budget;
  const std::string meminfo = slurp(roots.proc + "/meminfo").value_or("");
  budget.memory_total_bytes = stat_value(meminfo, "MemTotal").value_or(0);
  const Limits limits = read_limits(roots, slurp(roots.proc + "/self/cgroup").value_or(""),
                                    budget.memory_total_bytes);

  const std::vector<int> online = online_cpus(roots);
  std::vector<int> cpus = affinity_of(roots);
  if (cpus.empty()) cpus = online;
  // Kernels keep the affinity within the cpuset. Sandboxes with their own kernel may not.
  const std::vector<int> within = model::intersection(cpus, limits.cpuset);
  if (!within.empty()) cpus = within;
  budget.affinity = model::show_cpu_list(cpus);
  budget.cores_affinity = static_cast<int>(cpus.size());
  budget.cores_total = std::max(static_cast<int>(online.size()), budget.cores_affinity);
  budget.quota_cores = limits.quota_cores;
  budget.cores_usable = whole_cores(budget.cores_affinity, limits.quota_cores);

  budget.memory_limit_bytes = limits.memory_limit;
  budget.memory_available_bytes = stat_value(meminfo, "MemAvailable");
  keep_least(budget.memory_available_bytes, limits.memory_left);
  return budget;
}

std::optional<double> quota_of(const Roots& roots, const std::string& cgroup) {
  return read_limits(roots, cgroup, 0).quota_cores;
}

}  // namespace berth::system
