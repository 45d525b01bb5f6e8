// Package names and commands for fixes on the inspected system, from data/systems.toml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/machine.hpp"

namespace berth::doctor {

/// How to perform a task on one system, such as installing a package. `action` is a msgid;
/// `command` and `action` may be empty.
struct SystemTask {
  std::string name, command, action;
};
struct SystemCommands {
  std::vector<std::string> ids;  // from /etc/os-release
  std::string from;              // the row applies to this VERSION_ID or a newer one; "" for any
  bool image = false;            // applies only if the system is an image (rpm-ostree)
  std::vector<SystemTask> tasks;

  [[nodiscard]] const SystemTask* task(std::string_view name) const;
};
/// A description of a task (a msgid). It is shown if there is no command for the system.
struct SystemWish {
  std::string task, what;
};

/// The row for a system; nullptr if there is none.
[[nodiscard]] const SystemCommands* commands_of(const std::vector<SystemCommands>& rows,
                                                const OsRelease& system);

}  // namespace berth::doctor
