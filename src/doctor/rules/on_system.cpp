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

/// What sed -E finds the very word by.
std::string pattern_of(std::string_view word) {
  std::string pattern;
  for (const char one : word)
    pattern += one == '.' || one == '+' ? fmt::format("[{}]", one) : std::string(1, one);
  return pattern;
}

constexpr std::string_view kAnd = " && ", kReboot = "sudo reboot";

/// Adds what it does to the steps so far; of what was to be done already, once the others are.
void add_steps(std::vector<std::string>& steps, std::string_view command) {
  for (std::size_t at = 0; at < command.size();) {
    const std::size_t end = std::min(command.find(kAnd, at), command.size());
    const std::string step(command.substr(at, end - at));
    steps.erase(std::remove(steps.begin(), steps.end(), step), steps.end());
    if (step != kReboot) steps.push_back(step);
    at = end + kAnd.size();
  }
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
    const std::string note = found->action.empty() ? "" : text(found->action, value);
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
  // Nobody shall wait for a reboot that changes nothing.
  const std::string_view then = fix.command.ends_with(kReboot) ? kAnd : "\n";
  fix.command = before + std::string(before.empty() || fix.command.empty() ? "" : then) +
                fix.command +
                (after.empty() || (before.empty() && fix.command.empty()) ? "" : "\n") + after;
  return fix;
}

model::Fix without_arguments(Examination& look, const std::vector<std::string>& words,
                             const ArgumentPart& gone, const std::string& says) {
  model::Fix fix{"", says};
  std::vector<std::string> steps, notes;
  const auto add = [&](const char* task, const std::string& value, const std::string& more) {
    const model::Fix one = on_system(look, task, "", value, more);
    if (!one.says.empty() && std::find(notes.begin(), notes.end(), one.says) == notes.end())
      notes.push_back(one.says);
    add_steps(steps, one.command);
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
  for (const std::string& note : notes) fix.says = joined(fix.says, note);
  if (!steps.empty()) fix.command = fmt::format("{}{}{}", fmt::join(steps, kAnd), kAnd, kReboot);
  return fix;
}

}  // namespace berth::doctor
