// Where a thread waits outside Python: the function that called the kernel, and its probable
// callers. The process is never stopped, as ptrace would do: the kernel tells the instruction and
// the stack pointer of a waiting thread in /proc, and its stack is read there
// (docs/decisions/0029-native-frames-without-ptrace.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace berth::run {

struct NativeFrame {
  std::string library;    // "libc.so.6"
  std::string function;   // demangled; "" not known
  bool is_exact = false;  // false: a return address found on the stack, which may be an old one
};

/// Innermost first, at most 16. Empty if the thread runs or may not be read. Callers are found only
/// on x86-64.
[[nodiscard]] std::vector<NativeFrame> native_stack(pid_t pid, pid_t thread);
/// "libc.so.6 clock_nanosleep", a line each.
[[nodiscard]] std::string native_lines(const std::vector<NativeFrame>& frames);

/// The functions of an ELF file that contain these addresses of its memory image at file offsets;
/// "" where none does. The file may be damaged.
[[nodiscard]] std::vector<std::string> functions_at(const std::string& path,
                                                    const std::vector<std::uint64_t>& offsets);

}  // namespace berth::run
