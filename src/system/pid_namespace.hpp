// The driver reports pids of the host's PID namespace. PidTranslator decides whether and how they
// can be translated to pids of this process's namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/file.hpp"

namespace berth::system {

enum class PidView : unsigned char {
  kHost,      // this process is in the host's namespace, so the pids are valid here
  kHostProc,  // this process is in another namespace, but /proc is the host's, so the pids are
              // folders there
  kForeign,   // neither is true, so this pid may be that of another process here
};

/// What /proc reveals about namespaces.
struct NamespaceFacts {
  bool procfs = false;  // whether this is the kernel's own /proc, and not a recorded tree
  std::optional<std::uint64_t> own_inode;  // inode of /proc/self/ns/pid
  bool kernel_threads = false;             // /proc/2 is a kernel thread
};
[[nodiscard]] PidView pid_view(const NamespaceFacts& facts);

/// Where to find a process that the driver lists.
struct LocalPid {
  // name of the process's folder in /proc; nullopt if it is not visible
  std::optional<std::int64_t> folder;
  std::optional<std::int64_t> pid;  // pid of the process in the namespace of this process
};

class PidTranslator {
 public:
  explicit PidTranslator(const Roots& roots);
  /// Uses a view that is already known: `berth sim` starts its processes in this process's
  /// namespace.
  PidTranslator(const Roots& roots, PidView view);
  [[nodiscard]] PidView view() const { return view_; }
  [[nodiscard]] LocalPid find(std::int64_t host_pid) const;

 private:
  [[nodiscard]] LocalPid translate(std::int64_t host_pid) const;

  Roots roots_;
  NamespaceFacts facts_;
  PidView view_;
  std::size_t own_depth_ = 0;  // how many levels this namespace is below that of /proc
};

}  // namespace berth::system
