// Known faults: variables with harmful values, messages of the kernel log, and releases with bugs.
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
/// A line of the kernel log whose meaning is known (data/kernel_lines.toml); `cause` and `action`
/// are msgids.
struct KernelLine {
  std::string driver, kind;
  std::vector<std::string> words;
  std::string cause, action, command, source, task, value;
};

/// A package whose libraries require an executable stack. `tag`: if set, only builds with this
/// local version; `use`: a release without this requirement.
struct ExecutableStack {
  std::string package, versions, tag, use, source;
};
/// The C library version that a distribution has since its release `release`. A rolling
/// distribution has no releases, so its rows are selected by kernel release.
struct SystemLibc {
  std::string system, release, kernel, libc;
};
/// Kernel releases ("6.13-6.16.8") whose amdgpu driver has a bug on the GPUs `targets`. `what` is a
/// msgid that describes the bug; `set`: a kernel parameter that avoids it.
struct AmdKernelFault {
  std::vector<std::string> targets;
  std::string kernel, what, set, source;
  bool info = false;
  // a distribution's kernel with the fix, such as "6.14.0-1018-oem"; "" if there is none
  std::string mended;
};
/// A system package, and its releases that have a bug. `what` is a msgid; `when` is an additional
/// condition ("enroot", "no-cgroups"); `use` is a release with the fix.
struct SystemPackage {
  std::string package, versions, when, what, use, source;
};

}  // namespace berth::doctor
