#include "doctor/rules/on_system.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/which_gpus.hpp"

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
  return task == "initramfs" || task == "kernel_argument" || task == "kernel_argument_removal" ||
         task == "module_key";
}

/// Of a list "key=a,b", what is not among `gone`; "" where nothing is left, or it is no list.
std::string remaining(std::string_view word, const ArgumentPart& gone) {
  const std::size_t equals = word.find('=');
  std::string rest;
  if (equals == std::string_view::npos) return rest;
  for (const std::string_view one : split(word.substr(equals + 1), ','))
    if (!one.empty() && !gone(one)) rest += (rest.empty() ? "" : ",") + std::string(one);
  return rest.empty() ? "" : std::string(word.substr(0, equals + 1)) + rest;
}

/// What sed finds the word by, whatever its value is by now.
std::string pattern_of(std::string_view word) {
  const std::size_t equals = word.find('=');
  std::string pattern = equals == std::string_view::npos ? "\\<" : "";
  for (const char one : word.substr(0, equals))
    pattern += one == '.' ? std::string("[.]") : std::string(1, one);
  return pattern + (equals == std::string_view::npos ? "\\>" : "=[[:alnum:]_.,:+-]*");
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

model::Fix without_arguments(Examination& look, const std::vector<std::string>& words,
                             const ArgumentPart& gone, const std::string& says) {
  constexpr std::string_view kReboot = "sudo reboot";
  model::Fix fix{"", says};
  const auto add = [&](const char* task, const std::string& value, const std::string& more) {
    model::Fix one = on_system(look, task, "", value, more);
    if (one.command.ends_with(kReboot)) one.command.erase(one.command.rfind(" && "));
    if (!one.says.empty() && !contains(fix.says, one.says)) fix.says = joined(fix.says, one.says);
    if (!one.command.empty() && !contains(fix.command, one.command))
      fix.command += one.command + "\n";
  };
  for (const std::string& word : words) {
    // They go into a command.
    if (word.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "_.,:=+-") != std::string::npos)
      return {"", says};
    add("kernel_argument_removal", word, pattern_of(word));
    if (const std::string left = remaining(word, gone); !left.empty())
      add("kernel_argument", left, "");
  }
  if (!fix.command.empty()) fix.command += kReboot;
  return fix;
}

}  // namespace berth::doctor
