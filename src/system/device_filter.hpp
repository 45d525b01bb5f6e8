// Device filters: BPF programs that the kernel runs when a process of a control group opens or
// creates a device node. Berth assembles them here and loads them with bpf(2), so it needs no other
// software. Loading requires root and cgroup v2.
//
// Several filters can apply to a group, including those of other programs and of parent groups. A
// node can be opened only if all of them allow it, so a filter can only restrict access.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "model/access.hpp"

namespace berth::system {

/// The rules as instructions for the kernel (struct bpf_insn, 8 bytes each). `counter` is a BPF map
/// with one number that counts refusals; if it is -1, refusals are not counted. This is a pure
/// function.
[[nodiscard]] std::vector<std::uint64_t> filter_program(const std::vector<model::NodeRule>& rules,
                                                        const model::Exempt& exempt = {},
                                                        int counter = -1);

class DeviceFilter {
 public:
  /// `name` (at most 15 letters, digits and _) identifies Berth's filters later. Fails with
  /// kUnsupported (E0940): not root, or the kernel does not support or allow it.
  [[nodiscard]] static Result<DeviceFilter> load(const std::vector<model::NodeRule>& rules,
                                                 const model::Exempt& exempt, std::string name);

  /// Attaches this filter to the group and removes others with the same name; filters of other
  /// programs stay. Returns true if this filter was not attached before. Fails with kUnsupported
  /// (E0940).
  [[nodiscard]] Result<bool> hold(const std::string& group) const;
  /// How many accesses the filter has refused since it was loaded.
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

/// Removes the filters with this name from the group. Returns how many there were.
int remove_filters(const std::string& group, const std::string& name);

}  // namespace berth::system
