// Finds where threads wait outside Python: the function that called the kernel, and its probable
// callers. No process is stopped, unlike with ptrace. The kernel shows the instruction and stack
// pointers of a waiting thread in /proc, and its stack can be read there
// (docs/decisions/0029-native-frames-without-ptrace.md).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace berth::run {

struct NativeFrame {
  std::string library;    // "libc.so.6"
  std::string function;   // "c10d::Gloo::allreduce", or a C++ symbol as it is; "": not known
  bool is_exact = false;  // false: a return address found on the stack, which may be an old one
};

struct NativeThread {
  pid_t pid = 0, thread = 0;
};

/// Returns at most 16 frames of each of these threads, innermost first; none if the thread runs or
/// may not be read. Callers are found only on x86-64. A read of another process's memory or files
/// may never return (FUSE, userfaultfd). So a child process reads them, and what it has not found
/// within `patience` is omitted.
[[nodiscard]] std::vector<std::vector<NativeFrame>> native_stacks(
    const std::vector<NativeThread>& threads, std::chrono::milliseconds patience);
/// "libc.so.6 clock_nanosleep": one line per frame.
[[nodiscard]] std::string native_lines(const std::vector<NativeFrame>& frames);

}  // namespace berth::run
