// Single facts that are wrong wherever they are seen: values of variables, and lines of the
// kernel's log.
#pragma once

#include <string>
#include <vector>

namespace berth::doctor {

/// A variable with values that break or slow what computes on a GPU (data/variables.toml, whose
/// head says what the words mean); `cause` is a msgid.
struct VariableFault {
  std::string name, reader, bad, effect, cause, source;
  std::string below_capability, unless, without, instead;
  bool no_infiniband = false;
};
/// A line of the kernel's log with a known meaning (data/kernel_lines.toml); `cause` and `action`
/// are msgids.
struct KernelLine {
  std::string driver, kind;
  std::vector<std::string> words;
  std::string cause, action, command, source, task, value;
};

/// A package whose libraries ask for a stack that may be executed; `tag`: of builds with this
/// behind the plus; `use`: a release that does not.
struct ExecutableStack {
  std::string package, versions, tag, use, source;
};
/// Since which release, or of a rolling system since which kernel, a system has this C library.
struct SystemLibc {
  std::string system, release, kernel, libc;
};
/// Releases of the kernel ("6.13-6.16.8") in which amdgpu has a fault with these GPUs. `what` is a
/// msgid; `set`: a word of its command line that avoids it.
struct AmdKernelFault {
  std::vector<std::string> targets;
  std::string kernel, what, set, source;
  bool info = false;
  std::string mended;  // "6.14.0-1018-oem": a distribution's build that has it no longer; ""
};
/// A package of the system's, and releases of it with a fault. `what` is a msgid; `when`: what else
/// has to be so ("enroot", "no-cgroups"); `use`: a release that has it no longer.
struct SystemPackage {
  std::string package, versions, when, what, use, source;
};

}  // namespace berth::doctor
