// The driver reports pids of the host's PID namespace. This decides whether and how they can be
// translated to ours.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/file.hpp"

namespace berth::system {

enum class PidView : unsigned char {
  kHost,      // we are in the host's namespace: the pids are ours
  kHostProc,  // we are not, but our /proc is the host's: the pids are folders there
  kForeign,   // neither: the pid may belong to another process here
};

/// What /proc reveals about namespaces.
struct NamespaceFacts {
  bool procfs = false;                     // the kernel's own /proc, not a recorded tree
  std::optional<std::uint64_t> own_inode;  // of /proc/self/ns/pid
  bool kernel_threads = false;             // /proc/2 is a kernel thread
};
[[nodiscard]] PidView pid_view(const NamespaceFacts& facts);

/// Where to find a process that the driver lists.
struct LocalPid {
  std::optional<std::int64_t> folder;  // its folder in /proc; nullopt: not visible
  std::optional<std::int64_t> pid;     // its pid in our namespace
};

class PidTranslator {
 public:
  explicit PidTranslator(const Roots& roots);
  /// For a known view: `berth sim` starts its processes in our own namespace.
  PidTranslator(const Roots& roots, PidView view);
  [[nodiscard]] PidView view() const { return view_; }
  [[nodiscard]] LocalPid find(std::int64_t host_pid) const;

 private:
  [[nodiscard]] LocalPid translate(std::int64_t host_pid) const;

  Roots roots_;
  NamespaceFacts facts_;
  PidView view_;
  std::size_t own_depth_ = 0;  // how many namespaces we are below that of /proc
};

}  // namespace berth::system
