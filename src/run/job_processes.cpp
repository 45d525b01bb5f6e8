#include "run/job_processes.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <vector>

#include "base/file.hpp"
#include "run/descendants.hpp"

namespace berth::run {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostMaps = 8 << 20;  // bytes; beyond lies no library we know

std::vector<pid_t> list_pids(const std::string& proc) {
  std::vector<pid_t> pids;
  DIR* folder = ::opendir(proc.c_str());
  if (folder == nullptr) return pids;
  while (const dirent* entry =
             ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (problem == std::errc{} && end == name.data() + name.size()) pids.push_back(pid);
  }
  ::closedir(folder);
  return pids;
}

}  // namespace

bool JobProcesses::contains(std::int64_t pid) const {
  return members_.find(static_cast<pid_t>(pid)) != members_.end();
}

std::vector<std::int64_t> JobProcesses::pids() const {
  std::vector<std::int64_t> pids;
  pids.reserve(members_.size());
  for (const auto& member : members_) pids.push_back(member.first);
  return pids;
}

void JobProcesses::find_members() {
  const std::vector<pid_t> pids = list_pids(proc_);
  const std::unordered_set<pid_t> here(pids.begin(), pids.end());
  std::erase_if(strangers_, [&](pid_t pid) { return !here.contains(pid); });
  std::erase_if(members_, [&](const auto& member) { return !here.contains(member.first); });
  std::vector<std::pair<pid_t, pid_t>> fresh;  // with parent
  for (const pid_t pid : pids) {
    if (pid == root_ || strangers_.contains(pid) || members_.contains(pid)) continue;
    if (const auto stat = read_stat(proc_, pid)) fresh.emplace_back(pid, stat->parent);
  }
  // Parents may be new as well: again until nothing changes.
  for (bool found = true; found;) {
    found = false;
    std::erase_if(fresh, [&](const auto& one) {
      const bool ours = one.second == root_ || members_.contains(one.second);
      if (ours) members_.emplace(one.first, Member{});
      found = found || ours;
      return ours;
    });
  }
  for (const auto& [pid, parent] : fresh) strangers_.insert(pid);
}

void JobProcesses::look(Clock::time_point now) {
  ++looks_;
  find_members();
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t rss = 0;
  for (auto& [pid, member] : members_) {
    const auto stat = read_stat(proc_, pid);
    if (!stat || stat->state == 'Z') continue;
    rss += stat->rss_pages * page;
    const bool changed = stat->virtual_bytes != member.virtual_bytes;
    if (now < (changed ? member.soonest : member.latest)) continue;
    member.virtual_bytes = stat->virtual_bytes;
    const auto begin = Clock::now();
    inspect(pid);
    // At most one part in a hundred of our time goes into reading maps, however large they are.
    const auto cost = Clock::now() - begin;
    member.soonest = now + std::max<Clock::duration>(milliseconds(15), 100 * cost);
    member.latest = now + std::max<Clock::duration>(milliseconds(1000), 100 * cost);
  }
  peak_rss_bytes_ = std::max(peak_rss_bytes_, rss);
}

void JobProcesses::inspect(pid_t pid) {
  const std::string folder = proc_ + "/" + std::to_string(pid);
  int problem = 0;
  const auto maps = slurp(folder + "/maps", kMostMaps, &problem);
  if (maps)
    add_maps(*maps, traces_);
  else if (problem == EACCES || problem == EPERM)
    unreadable_ = true;
  read_descriptors(folder + "/fd");
}

void JobProcesses::read_descriptors(const std::string& folder) {
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return;
  int left = 4096;
  while (const dirent* entry =
             ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    if (entry->d_name[0] == '.') continue;
    if (--left < 0) break;
    std::array<char, 256> target;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t n = ::readlinkat(::dirfd(stream), entry->d_name, target.data(), target.size());
    if (n > 0) add_descriptor({target.data(), static_cast<std::size_t>(n)}, traces_);
  }
  ::closedir(stream);
}

}  // namespace berth::run
