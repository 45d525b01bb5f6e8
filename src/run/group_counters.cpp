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
  std::vector<std::string> folders;  // innermost first
};

/// Where the groups with this controller are.
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

std::chrono::microseconds quota_stops() {
  std::uint64_t most = 0;
  for (const GroupFolders& group : groups_with("cpu"))
    for (const std::string& folder : group.folders)
      most = std::max(most, group.v2 ? counter_in(folder + "/cpu.stat", "throttled_usec")
                                     : counter_in(folder + "/cpu.stat", "throttled_time") / 1000);
  return std::chrono::microseconds(static_cast<std::int64_t>(most));
}

}  // namespace berth::run
