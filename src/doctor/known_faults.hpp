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

}  // namespace berth::doctor
