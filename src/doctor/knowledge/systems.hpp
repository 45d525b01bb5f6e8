// Package names and commands for fixes on the inspected system, from data/systems.toml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/machine.hpp"

namespace berth::doctor {

/// How one system performs a task that a fix needs. `action` is a msgid; `command` and `action` may
/// be "".
struct SystemTask {
  std::string name, command, action;
};
struct SystemCommands {
  std::vector<std::string> ids;  // from /etc/os-release
  std::string from;              // applies to this VERSION_ID or newer; "" any
  bool image = false;            // applies only if the system is an image (rpm-ostree)
  std::vector<SystemTask> tasks;

  [[nodiscard]] const SystemTask* task(std::string_view name) const;
};
/// What a task does, in words (a msgid); shown on systems that have no row.
struct SystemWish {
  std::string task, what;
};

/// The row for a system; nullptr if there is none.
[[nodiscard]] const SystemCommands* commands_of(const std::vector<SystemCommands>& rows,
                                                const OsRelease& system);

}  // namespace berth::doctor
