#include "run/group_counters.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "system/cgroup.hpp"

namespace berth::run {
namespace {

struct GroupFolders {
  bool v2 = false;
  std::vector<std::string> folders;  // the group and its ancestors, innermost first
};

/// The folders of this process's control groups that have the controller.
std::vector<GroupFolders> groups_with(const std::string& controller) {
  const auto has_it = [&](const std::vector<std::string>& controllers) {
    return std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
  };
  const std::string mountinfo = slurp("/proc/self/mountinfo").value_or("");
  const auto memberships = system::parse_cgroup(slurp("/proc/self/cgroup").value_or(""));
  std::vector<GroupFolders> found;
  for (const system::CgroupMount& mount : system::parse_cgroup_mounts(mountinfo))
    for (const system::CgroupMembership& group : memberships) {
      const bool fits =
          mount.v2 ? group.v2 : has_it(mount.controllers) && has_it(group.controllers);
      if (fits) found.push_back({mount.v2, system::group_folders(mount, group.path)});
    }
  return found;
}

std::uint64_t counter_in(const std::string& file, const char* key) {
  return system::stat_value(slurp(file).value_or(""), key).value_or(0);
}

}  // namespace

std::uint64_t oom_kills() {
  std::uint64_t count = 0;
  for (const GroupFolders& group : groups_with("memory"))
    if (!group.folders.empty())
      count = std::max(count, counter_in(group.folders.front() +
                                             (group.v2 ? "/memory.events" : "/memory.oom_control"),
                                         "oom_kill"));
  return count;
}

QuotaPeriods parse_quota_periods(std::string_view cpu_stat) {
  return {system::stat_value(cpu_stat, "nr_periods").value_or(0),
          system::stat_value(cpu_stat, "nr_throttled").value_or(0)};
}

std::map<std::string, QuotaPeriods> quota_periods() {
  std::map<std::string, QuotaPeriods> found;
  for (const GroupFolders& group : groups_with("cpu"))
    for (const std::string& folder : group.folders)
      found[folder] = parse_quota_periods(slurp(folder + "/cpu.stat").value_or(""));
  return found;
}

double stopped_part(const std::map<std::string, QuotaPeriods>& before,
                    const std::map<std::string, QuotaPeriods>& after) {
  double most = 0;
  for (const auto& [folder, now] : after) {
    const auto then = before.find(folder);
    // A counter that decreases belongs to a new group with the same name.
    if (then == before.end() || now.all <= then->second.all || now.stopped < then->second.stopped)
      continue;
    const auto all = static_cast<double>(now.all - then->second.all);
    most = std::max(most, static_cast<double>(now.stopped - then->second.stopped) / all);
  }
  return std::min(most, 1.0);
}

}  // namespace berth::run
