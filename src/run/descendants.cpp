#include "run/descendants.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <unordered_map>
#include <unordered_set>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "run/channel.hpp"
#include "system/process_text.hpp"

namespace berth::run {

std::optional<ProcessStat> read_stat(const std::string& proc, pid_t pid) {
  std::array<char, 64> path;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const int written = std::snprintf(path.data(), path.size(), "/%d/stat", pid);
  const std::string whole = proc + std::string(path.data(), static_cast<std::size_t>(written));
  const Descriptor file(::open(whole.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 1024> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t n = ::read(file.get(), bytes.data(), bytes.size());
  if (n <= 0) return std::nullopt;
  const auto line = system::parse_stat({bytes.data(), static_cast<std::size_t>(n)});
  if (!line) return std::nullopt;
  return ProcessStat{static_cast<pid_t>(line->parent),
                     line->state,
                     line->start_ticks,
                     line->virtual_bytes,
                     line->rss_pages,
                     line->cpu_ticks,
                     line->threads,
                     std::string(line->name)};
}

std::vector<Relative> descendants(pid_t root, const std::string& proc) {
  std::unordered_map<pid_t, std::vector<Relative>> children;
  DIR* folder = ::opendir(proc.c_str());
  if (folder == nullptr) return {};
  while (const dirent* entry =
             ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (problem != std::errc{} || end != name.data() + name.size()) continue;
    if (const auto stat = read_stat(proc, pid)) children[stat->parent].push_back({pid, *stat});
  }
  ::closedir(folder);
  std::vector<Relative> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto below = children.find(parent);
    if (below == children.end()) continue;
    for (const Relative& child : below->second) {
      found.push_back(child);
      open.push_back(child.pid);
    }
    children.erase(
        below);  // a process seen twice (its parent changed during the scan) must not make a cycle
  }
  return found;
}

std::string command_of(pid_t pid) {
  constexpr std::size_t kMostBytes = 256;
  const std::string folder = "/proc/" + std::to_string(pid);
  std::string words = slurp(folder + "/cmdline", kMostBytes).value_or("");
  std::replace(words.begin(), words.end(), '\0', ' ');
  if (trim(words).empty()) words = slurp(folder + "/comm", kMostBytes).value_or("");
  return printable(trim(words));
}

std::vector<Relative> descendants_except(const std::vector<pid_t>& spared) {
  std::vector<Relative> found = descendants(::getpid());
  // Parents come before their children, so one pass finds all descendants of the spared processes.
  std::unordered_set<pid_t> kept(spared.begin(), spared.end());
  for (const Relative& one : found)
    if (kept.contains(one.stat.parent)) kept.insert(one.pid);
  std::erase_if(found, [&](const Relative& one) { return kept.contains(one.pid); });
  return found;
}

siginfo_t queued_signal(int signal, int value) {
  siginfo_t info = {};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = value;
  return info;
}

int signal_all(const std::vector<Relative>& processes, int signal, std::optional<int> value) {
  siginfo_t info = queued_signal(signal, value.value_or(0));
  int refused = 0;
  for (const Relative& process : processes) {
    if (process.stat.state == 'Z' || process.stat.state == 'X') continue;
    const Descriptor handle = open_process(process.pid);
    long result = 0;
    if (handle) {
      // The pid may have been reused since we read it; the start time shows that.
      const auto now = read_stat("/proc", process.pid);
      if (!now || now->start_ticks != process.stat.start_ticks) continue;
      result = ::syscall(SYS_pidfd_send_signal, handle.get(), signal, value ? &info : nullptr, 0);
    } else if (errno == ENOSYS) {
      result = value ? ::sigqueue(process.pid, signal, info.si_value) : ::kill(process.pid, signal);
    }
    if (result != 0 && errno == EPERM) ++refused;
  }
  return refused;
}

}  // namespace berth::run
