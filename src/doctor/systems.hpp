// What a fix calls a package, and by which command: on the system that was looked at, as
// data/systems.toml knows it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/machine.hpp"

namespace berth::doctor {

/// One system's way to do what a fix wants done. `action` is a msgid; both may be "".
struct SystemTask {
  std::string name, command, action;
};
struct SystemCommands {
  std::vector<std::string> ids;  // of /etc/os-release
  std::string from;              // this VERSION_ID or newer; "" any
  bool image = false;            // only where the system is an image (rpm-ostree)
  std::vector<SystemTask> tasks;

  [[nodiscard]] const SystemTask* task(std::string_view name) const;
};
/// What a task wants, for a system that no row is about; a msgid.
struct SystemWish {
  std::string task, what;
};

/// The row for a system; nullptr: none is about it.
[[nodiscard]] const SystemCommands* commands_of(const std::vector<SystemCommands>& rows,
                                                const OsRelease& system);

}  // namespace berth::doctor
