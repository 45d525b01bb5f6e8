// Finds processes that have a device node open. The driver lists only processes with a context, but
// others can hold memory too: forked workers whose parent died, programs that are exiting, servers.
// All these processes have the node open.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "system/process.hpp"
#include "system/process_text.hpp"

namespace berth::system {

namespace {

using Clock = std::chrono::steady_clock;
using Prefixes = std::vector<std::string>;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

/// Opens a folder; nullptr with errno on failure.
Folder open_folder(int parent, const char* path) {
  const int fd = ::openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return nullptr;
  Folder folder(::fdopendir(fd));
  if (folder == nullptr) ::close(fd);
  return folder;
}

/// The next entry that is a number; nullptr at the end.
const char* next_number(DIR* folder) {
  while (const dirent* entry =
             ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') return entry->d_name;
  }
  return nullptr;
}

std::optional<std::int64_t> pid_of(std::string_view name) {
  std::int64_t pid = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (problem != std::errc() || end != name.data() + name.size() || pid <= 0) return std::nullopt;
  return pid;
}

/// Adds the nodes to which the descriptors in a /proc/PID/fd folder refer.
void collect_nodes(DIR* descriptors, const Prefixes& prefixes, Clock::time_point end,
                   std::vector<std::string>& nodes) {
  std::array<char, 256>
      target;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by readlinkat()
  int seen = 0;
  while (const char* number = next_number(descriptors)) {
    if (++seen % 256 == 0 && Clock::now() > end) return;
    const ssize_t size = ::readlinkat(::dirfd(descriptors), number, target.data(), target.size());
    if (size <= 0) continue;
    const std::string_view path(target.data(), static_cast<std::size_t>(size));
    const auto begins = [path](const std::string& prefix) { return path.starts_with(prefix); };
    if (std::any_of(prefixes.begin(), prefixes.end(), begins)) nodes.push_back(printable(path));
  }
}

/// Searches the threads of a zombie whose main thread has no descriptors left. Other threads may
/// still run, or be stuck while exiting.
void collect_from_threads(int process, const Prefixes& prefixes, Clock::time_point end,
                          std::vector<std::string>& nodes) {
  const Folder threads = open_folder(process, "task");
  if (threads == nullptr) return;
  while (const char* thread = next_number(threads.get())) {
    if (!nodes.empty() || Clock::now() > end) return;
    const std::string path = std::string(thread) + "/fd";
    if (const Folder descriptors = open_folder(::dirfd(threads.get()), path.c_str()))
      collect_nodes(descriptors.get(), prefixes, end, nodes);
  }
}

bool is_zombie(int process) {
  const Descriptor file(::openat(process, "stat", O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 1024>
      buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by read()
  const ssize_t size = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  if (size <= 0) return false;
  const auto stat = parse_stat(std::string_view(buffer.data(), static_cast<std::size_t>(size)));
  return stat && stat->state == 'Z';
}

struct Look {
  std::vector<std::string> nodes;
  bool readable = true;
};

Look nodes_of(int proc, const char* pid, const Prefixes& prefixes, Clock::time_point end) {
  Look look;
  const Descriptor process(::openat(proc, pid, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!process) return look;
  const Folder descriptors = open_folder(process.get(), "fd");
  if (descriptors == nullptr) {
    look.readable = errno != EACCES && errno != EPERM;
    return look;
  }
  const bool empty = next_number(descriptors.get()) == nullptr;
  if (empty) {
    if (is_zombie(process.get())) collect_from_threads(process.get(), prefixes, end, look.nodes);
  } else {
    ::rewinddir(descriptors.get());
    collect_nodes(descriptors.get(), prefixes, end, look.nodes);
  }
  std::sort(look.nodes.begin(), look.nodes.end());
  look.nodes.erase(std::unique(look.nodes.begin(), look.nodes.end()), look.nodes.end());
  return look;
}

}  // namespace

std::vector<std::int64_t> list_pids(const std::string& proc) {
  std::vector<std::int64_t> pids;
  const Folder folder = open_folder(AT_FDCWD, proc.c_str());
  if (folder == nullptr) return pids;
  while (const char* name = next_number(folder.get()))
    if (const auto pid = pid_of(name)) pids.push_back(*pid);
  std::sort(pids.begin(), pids.end());
  return pids;
}

HolderSearch find_holders(const Roots& roots, const std::vector<std::string>& prefixes,
                          std::chrono::milliseconds limit) {
  HolderSearch search;
  const Clock::time_point end = Clock::now() + limit;
  const Folder proc = open_folder(AT_FDCWD, roots.proc.c_str());
  if (proc == nullptr) {
    search.all_readable = false;
    return search;
  }
  ProcessReader reader(roots);
  while (const char* name = next_number(proc.get())) {
    const auto pid = pid_of(name);
    if (!pid) continue;
    if (Clock::now() > end) {
      search.finished = false;
      break;
    }
    Look look = nodes_of(::dirfd(proc.get()), name, prefixes, end);
    search.all_readable = search.all_readable && look.readable;
    if (look.nodes.empty()) continue;
    model::DeviceProcess process;
    if (!reader.fill(process, *pid)) continue;
    search.holders.push_back(
        {{*pid, std::move(process.user), std::move(process.command), std::move(process.state)},
         std::move(look.nodes)});
  }
  std::sort(search.holders.begin(), search.holders.end(),
            [](const NodeHolder& a, const NodeHolder& b) { return a.holder.pid < b.holder.pid; });
  return search;
}

std::vector<model::Holder> device_holders(const Roots& roots, const std::string& dev_prefix) {
  std::vector<model::Holder> holders;
  HolderSearch search = find_holders(roots, {dev_prefix}, std::chrono::milliseconds(100));
  for (NodeHolder& found : search.holders) holders.push_back(std::move(found.holder));
  return holders;
}

}  // namespace berth::system
