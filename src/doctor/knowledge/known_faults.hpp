// Values that are always wrong: variables, log lines of the kernel, releases with faults.
#pragma once

#include <string>
#include <vector>

namespace berth::doctor {

/// A variable with values that break or slow down GPU programs (data/variables.toml, which explains
/// the columns); `cause` is a msgid.
struct VariableFault {
  std::string name, reader, bad, effect, cause, source;
  std::string below_capability, unless, without, instead;
  bool no_infiniband = false;
};
/// A kernel log line with a known meaning (data/kernel_lines.toml); `cause` and `action` are
/// msgids.
struct KernelLine {
  std::string driver, kind;
  std::vector<std::string> words;
  std::string cause, action, command, source, task, value;
};

/// A package whose libraries require an executable stack; `tag`: builds with this local version;
/// `use`: a release without the problem.
struct ExecutableStack {
  std::string package, versions, tag, use, source;
};
/// The C library of a system since this release, or for a rolling release since this kernel.
struct SystemLibc {
  std::string system, release, kernel, libc;
};
/// Kernel releases ("6.13-6.16.8") in which amdgpu has a fault with these GPUs. `what` is a msgid;
/// `set`: a kernel parameter that avoids it.
struct AmdKernelFault {
  std::vector<std::string> targets;
  std::string kernel, what, set, source;
  bool info = false;
  std::string mended;  // "6.14.0-1018-oem": a distribution's build with the fix; "" none
};
/// A system package and its releases with a fault. `what` is a msgid; `when`: an additional
/// condition ("enroot", "no-cgroups"); `use`: a release with the fix.
struct SystemPackage {
  std::string package, versions, when, what, use, source;
};

}  // namespace berth::doctor
