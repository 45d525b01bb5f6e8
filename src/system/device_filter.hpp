// Device filters: programs that the kernel asks whenever a process of a control group opens or
// makes a device node. Made here instruction by instruction and given to the kernel by bpf(2), so
// that nothing has to be installed. Only root can do that, on a machine with cgroup v2.
//
// A group may have several filters, others' and its ancestors' among them; a node is opened where
// none of them objects. So a filter takes away, and never gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "model/access.hpp"

namespace berth::system {

/// The rules as instructions of the kernel's (struct bpf_insn, 8 bytes each). `counter`: a map of
/// the kernel's with one number, to which a refusal adds one; -1: none. Pure.
[[nodiscard]] std::vector<std::uint64_t> filter_program(const std::vector<model::NodeRule>& rules,
                                                        const model::Exempt& exempt = {},
                                                        int counter = -1);

class DeviceFilter {
 public:
  /// `name` (at most 15 letters, digits and _) tells ours from others' in later days. Fails with
  /// kUnsupported (E0940): no root, or a kernel that was built or locked otherwise.
  [[nodiscard]] static Result<DeviceFilter> load(const std::vector<model::NodeRule>& rules,
                                                 const model::Exempt& exempt, std::string name);

  /// Sees to it that the group has this filter, and of those with its name no other; what others
  /// attached stays. True: it had to be attached. Fails with kUnsupported (E0940).
  [[nodiscard]] Result<bool> hold(const std::string& group) const;
  /// How often it said no since it was loaded.
  [[nodiscard]] std::uint64_t refusals() const;

 private:
  DeviceFilter(Descriptor program, Descriptor counter, std::uint32_t id, std::string name)
      : program_(std::move(program)),
        counter_(std::move(counter)),
        id_(id),
        name_(std::move(name)) {}
  Descriptor program_, counter_;
  std::uint32_t id_ = 0;
  std::string name_;
};

/// Takes the filters of this name from the group; how many there were.
int remove_filters(const std::string& group, const std::string& name);

}  // namespace berth::system
