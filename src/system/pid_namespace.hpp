// The driver names processes by their number in the host's PID namespace. Here stands what such a
// number is worth to us.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/file.hpp"

namespace berth::system {

enum class PidView : unsigned char {
  kHost,      // we live in the host's namespace: its numbers are ours
  kHostProc,  // we do not, but the /proc we read is the host's: its numbers name folders there
  kForeign,   // neither: such a number is only a number, and whoever has the same one here is
              // somebody else
};

/// What can be known of namespaces from /proc.
struct NamespaceFacts {
  bool procfs = false;                     // the kernel's own /proc, not a recorded tree
  std::optional<std::uint64_t> own_inode;  // of /proc/self/ns/pid
  bool kernel_threads = false;             // /proc/2 is a kernel thread
};
[[nodiscard]] PidView pid_view(const NamespaceFacts& facts);

/// Where a process of the driver's list is to be found.
struct LocalPid {
  std::optional<std::int64_t> folder;  // its folder in /proc; nullopt: not there
  std::optional<std::int64_t> pid;     // its number in our namespace
};

class PidTranslator {
 public:
  explicit PidTranslator(const Roots& roots);
  /// For a view decided elsewhere: `berth sim` makes its processes itself, beside us.
  PidTranslator(const Roots& roots, PidView view);
  [[nodiscard]] PidView view() const { return view_; }
  [[nodiscard]] LocalPid find(std::int64_t host_pid) const;

 private:
  [[nodiscard]] LocalPid translate(std::int64_t host_pid) const;

  Roots roots_;
  NamespaceFacts facts_;
  PidView view_;
  std::size_t own_depth_ = 0;  // how many namespaces we are below the one of /proc
};

}  // namespace berth::system
