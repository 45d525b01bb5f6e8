// NVML always returns pids of the initial PID namespace. In a container these may belong to other
// processes: pid 4121 may be a training job on the host, and an editor in the container. To avoid
// showing the wrong process, a pid is used only if /proc is known to be that of the host.
//
// 1. The initial namespace has a fixed inode (PROC_PID_INIT_INO in include/linux/proc_ns.h). If
//   /proc/self/ns/pid has it, this process runs in that namespace, and /proc shows it.
// 2. Otherwise, if /proc/2 is a kernel thread, this /proc was mounted from the host, as monitoring
//   containers do: kernel threads exist only in the host's namespace, and no program can set
//   PF_KTHREAD itself. Then the pids are names of folders in /proc. NSpid lists a process's pids in
//   all namespaces from that of /proc inward. The pid in this process's namespace is at the depth
//   of this namespace, but only if both processes are in the same namespace (same inode): a sibling
//   container has its pids at the same depth.
// 3. Otherwise no pid can be translated: NSpid only shows inner pids, never outer ones.
#include "system/pid_namespace.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "system/process_text.hpp"

namespace berth::system {

namespace {

constexpr std::uint64_t kInitialInode = 0xEFFF'FFFC;

/// The inode of a namespace, from the link "pid:[4026531836]".
std::optional<std::uint64_t> namespace_inode(const std::string& process) {
  const auto target = link_name(process + "/ns/pid");
  if (!target || !target->starts_with("pid:[") || !target->ends_with("]")) return std::nullopt;
  const auto inode = to_number(std::string_view(*target).substr(5, target->size() - 6));
  return inode ? std::optional(static_cast<std::uint64_t>(*inode)) : std::nullopt;
}

NamespaceFacts read_facts(const Roots& roots) {
  NamespaceFacts facts;
  struct statfs about {};
  facts.procfs = ::statfs(roots.proc.c_str(), &about) == 0 && about.f_type == PROC_SUPER_MAGIC;
  facts.own_inode = namespace_inode(roots.proc + "/self");
  if (facts.own_inode == kInitialInode) return facts;
  const auto text = slurp(roots.proc + "/2/stat", 1024);
  const auto stat = text ? parse_stat(*text) : std::nullopt;
  facts.kernel_threads = stat && is_kernel_thread(*stat);
  return facts;
}

bool folder_exists(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0;
}

}  // namespace

PidView pid_view(const NamespaceFacts& facts) {
  if (facts.own_inode == kInitialInode) return PidView::kHost;
  if (facts.own_inode) return facts.kernel_threads ? PidView::kHostProc : PidView::kForeign;
  // The link is missing. On a kernel without PID namespaces, /proc still shows kernel threads. A
  // recorded tree without the link was recorded on a host by an old version.
  if (!facts.procfs) return PidView::kHost;
  return facts.kernel_threads ? PidView::kHost : PidView::kForeign;
}

PidTranslator::PidTranslator(const Roots& roots)
    : roots_(roots), facts_(read_facts(roots)), view_(pid_view(facts_)) {
  if (view_ != PidView::kHostProc) return;
  const auto status = slurp(roots_.proc + "/self/status");
  const auto pids = status ? parse_status(*status).namespace_pids : std::vector<std::int64_t>();
  own_depth_ = pids.empty() ? 0 : pids.size() - 1;
}

PidTranslator::PidTranslator(const Roots& roots, PidView view) : roots_(roots), view_(view) {}

LocalPid PidTranslator::find(std::int64_t host_pid) const {
  if (host_pid <= 0 || view_ == PidView::kForeign) return {};
  if (view_ == PidView::kHostProc) return translate(host_pid);
  if (folder_exists(roots_.proc + "/" + std::to_string(host_pid))) return {host_pid, host_pid};
  // With hidepid=2, /proc hides other users' processes, but kill() still shows that they exist.
  const bool hidden =
      facts_.procfs && ::kill(static_cast<pid_t>(host_pid), 0) != 0 && errno == EPERM;
  return {std::nullopt, hidden ? std::optional(host_pid) : std::nullopt};
}

LocalPid PidTranslator::translate(std::int64_t host_pid) const {
  const std::string process = roots_.proc + "/" + std::to_string(host_pid);
  const auto status = slurp(process + "/status");
  if (!status) return {};
  LocalPid found{host_pid, std::nullopt};
  const auto pids = parse_status(*status).namespace_pids;
  if (own_depth_ > 0 && pids.size() == own_depth_ + 1 &&
      namespace_inode(process) == facts_.own_inode)
    found.pid = pids[own_depth_];
  return found;
}

}  // namespace berth::system
