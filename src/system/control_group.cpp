#include "system/control_group.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"

namespace berth::system {
namespace {

/// Writes all words in a single call, because cgroup files accept a value only in one write.
bool put(const std::string& path, std::string_view words) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file &&
         ::write(file.get(), words.data(), words.size()) == static_cast<ssize_t>(words.size());
}

bool is_folder(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

}  // namespace

std::optional<CgroupMount> unified_mount(const std::string& proc) {
  const auto mounts = slurp(proc + "/self/mountinfo", 4U << 20U);
  if (!mounts) return std::nullopt;
  for (CgroupMount& mount : parse_cgroup_mounts(*mounts))
    if (mount.v2) return std::move(mount);
  return std::nullopt;
}

std::string group_of(const std::string& proc, const CgroupMount& mount, const std::string& pid) {
  const auto file = slurp(proc + "/" + pid + "/cgroup", 1 << 16);
  for (const CgroupMembership& one : parse_cgroup(file.value_or("")))
    if (one.v2) return group_folders(mount, one.path).front();
  return {};
}

Status ControlGroup::make() const {
  for (auto at = folder_.find('/', 1);; at = folder_.find('/', at + 1)) {
    const std::string part = folder_.substr(0, at);
    if (!is_folder(part) && ::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST)
      return Error{
          ErrorCode::kUnsupported, "E0940",
          text("cannot create the control group {}: {}", printable(part), error_words(errno)), ""};
    if (at == std::string::npos) return Done{};
  }
}

bool ControlGroup::enter(pid_t pid) const {
  return put(folder_ + "/cgroup.procs", std::to_string(pid));
}

std::vector<std::string> ControlGroup::with_those_below() const {
  std::vector<std::string> all{folder_};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const std::string& name : list_folder(all[i]))
      if (const std::string path = all[i] + "/" + name; is_folder(path)) all.push_back(path);
  return all;
}

std::vector<pid_t> ControlGroup::processes() const {
  std::vector<pid_t> found;
  for (const std::string& group : with_those_below()) {
    const auto listed = slurp(group + "/cgroup.procs", 4U << 20U);
    if (!listed) continue;
    for (const std::string_view line : split(*listed, '\n'))
      if (const auto pid = to_number(line); pid && *pid > 0)
        found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

bool ControlGroup::is_there() const {
  return is_folder(folder_);
}

bool ControlGroup::is_empty() const {
  const auto events = slurp(folder_ + "/cgroup.events", 4096);
  return !events || stat_value(*events, "populated") == 0U;
}

void ControlGroup::kill() const {
  if (put(folder_ + "/cgroup.kill", "1")) return;
  // For kernels before 5.14: repeat until no process is left that could fork another one.
  for (int round = 0; round < 100 && !is_empty(); ++round)
    for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
}

bool ControlGroup::remove() const {
  std::vector<std::string> groups = with_those_below();
  std::reverse(groups.begin(), groups.end());
  for (const std::string& group : groups)
    if (::rmdir(group.c_str()) != 0 && errno != ENOENT) return false;
  return true;
}

}  // namespace berth::system
