#include "doctor/rules/on_system.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

std::string joined(std::string one, const std::string& other) {
  if (!one.empty() && !other.empty()) one += "; ";
  return one + other;
}

/// What it is, for a person who has to find the names.
std::string wish(const Compatibility& known, std::string_view task, const std::string& value) {
  const auto row = std::find_if(known.system_wishes.begin(), known.system_wishes.end(),
                                [&](const SystemWish& one) { return one.task == task; });
  return row == known.system_wishes.end() ? std::string(task) : text(row->what, value);
}

/// Done on the machine, and not in a container that runs on it, whose system is another.
bool is_of_the_machine(std::string_view task) {
  constexpr auto kOwn =
      std::to_array<std::string_view>({"driver_purge", "compiler", "gcc", "python_headers",
                                       "cudnn_remove", "libcuda", "owner", "level_zero"});
  return std::find(kOwn.begin(), kOwn.end(), task) == kOwn.end();
}

/// What no package manager brings.
bool is_no_package(std::string_view task) {
  return task == "initramfs" || task == "kernel_argument" || task == "module_key";
}

}  // namespace

model::Fix on_system(Examination& look, const char* task, std::string says,
                     const std::string& value, const std::string& more) {
  const Compatibility& known = look.knowledge.compatibility();
  if (look.facts.machine.in_container && is_of_the_machine(task))
    return {"", joined(text("on the machine, not in the container: {}", wish(known, task, value)),
                       says)};
  const auto& system = look.facts.machine.system;
  const SystemCommands* row = system                  ? commands_of(known.systems, *system)
                              : known.systems.empty() ? nullptr
                                                      : &known.systems.front();
  if (const SystemTask* found = row == nullptr ? nullptr : row->task(task)) {
    const std::string note(found->action.empty() ? "" : tr(found->action));
    return {fmt::format(fmt::runtime(found->command), value, more), joined(std::move(says), note)};
  }
  const std::string name = system ? printable(system->name) : "";
  const std::string what = wish(known, task, value), whose = name.empty() ? "Linux" : name;
  return {"", joined(is_no_package(task) ? text("{}, as {} does it", what, whose)
                                         : text("{}, by the package manager of {}", what, whose),
                     says)};
}

model::Fix on_system_between(Examination& look, const char* task, const std::string& before,
                             const std::string& after, std::string says, const std::string& value) {
  model::Fix fix = on_system(look, task, std::move(says), value);
  fix.command = before + (before.empty() || fix.command.empty() ? "" : "\n") + fix.command +
                (after.empty() || (before.empty() && fix.command.empty()) ? "" : "\n") + after;
  return fix;
}

}  // namespace berth::doctor
