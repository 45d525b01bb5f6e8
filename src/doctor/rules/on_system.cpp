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

/// Describes the task in words, for systems without a known command.
std::string wish(const Compatibility& known, std::string_view task, const std::string& value) {
  const auto row = std::find_if(known.system_wishes.begin(), known.system_wishes.end(),
                                [&](const SystemWish& one) { return one.task == task; });
  return row == known.system_wishes.end() ? std::string(task) : text(row->what, value);
}

/// Whether the task must be done on the host, which may be another system than the container.
bool is_of_the_machine(std::string_view task) {
  constexpr auto kOwn =
      std::to_array<std::string_view>({"driver_purge", "compiler", "gcc", "python_headers",
                                       "cudnn_remove", "libcuda", "owner", "level_zero"});
  return std::find(kOwn.begin(), kOwn.end(), task) == kOwn.end();
}

/// Whether the task installs no package.
bool is_no_package(std::string_view task) {
  return task == "initramfs" || task == "kernel_argument" || task == "kernel_argument_removal" ||
         task == "module_key";
}

/// Removes the parts that `gone` selects from a list "key=a,b". Returns "" if no part remains, or
/// if the word is not a list.
std::string remaining(std::string_view word, const ArgumentPart& gone) {
  const std::size_t equals = word.find('=');
  std::string rest;
  if (equals == std::string_view::npos) return rest;
  for (const std::string_view one : split(word.substr(equals + 1), ','))
    if (!one.empty() && !gone(one)) rest += (rest.empty() ? "" : ",") + std::string(one);
  return rest.empty() ? "" : std::string(word.substr(0, equals + 1)) + rest;
}

/// A pattern for sed -E that matches exactly this word.
std::string pattern_of(std::string_view word) {
  std::string pattern;
  for (const char one : word)
    pattern += one == '.' || one == '+' ? fmt::format("[{}]", one) : std::string(1, one);
  return pattern;
}

/// Whether the driver is not from RPM Fusion: it has a DKMS source, or the file kernel.conf of the
/// packages of NVIDIA and negativo17.
bool is_of_another_repository(const NvidiaFacts& nvidia) {
  return nvidia.source.has_value() || nvidia.module_variant.has_value();
}

bool is_of_rpm_fusion(std::string_view command) {
  return command.find("akmod-nvidia") != std::string_view::npos ||
         command.find("xorg-x11-drv-nvidia") != std::string_view::npos ||
         command.find("macros.nvidia-kmod") != std::string_view::npos;
}

/// The commands for a task on a system; nullptr if there are none. They can depend on the
/// repository from which the driver was installed.
const SystemTask* task_for(const SystemCommands& row, const NvidiaFacts& nvidia,
                           const std::string& task) {
  if (nvidia.source)
    if (const SystemTask* found = row.task(task + "@dkms")) return found;
  const SystemTask* found = row.task(task);
  if (found == nullptr || !is_of_rpm_fusion(found->command) || !is_of_another_repository(nvidia))
    return found;
  return row.task(task + "@other");
}

constexpr std::string_view kAnd = " && ", kReboot = "sudo reboot";

/// Adds the steps of a command to a list, except for a reboot. If a step is already in the list,
/// moves it to the end.
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
    return {"",
            joined(text("on the host, not in the container: {}", wish(known, task, value)), says)};
  const auto& system = look.facts.machine.system;
  const SystemCommands* row = system                  ? commands_of(known.systems, *system)
                              : known.systems.empty() ? nullptr
                                                      : &known.systems.front();
  const NvidiaFacts& nvidia = look.facts.nvidia;
  if (const SystemTask* found = row == nullptr ? nullptr : task_for(*row, nvidia, task)) {
    const std::string note = found->action.empty() ? "" : text(found->action, value);
    return {fmt::format(fmt::runtime(found->command), value, more), joined(std::move(says), note)};
  }
  // DKMS is the same on every system. Only the package with the kernel's headers has another name.
  if (row == nullptr && nvidia.source && std::string_view(task) == "module")
    return {fmt::format("sudo dkms autoinstall {1}-k {0} && sudo modprobe nvidia", value, more),
            joined(text("first install the headers of kernel {}", value), says)};
  if (row != nullptr && row->task(task) != nullptr)
    return {
        "dnf list --installed '*nvidia*'",
        joined(text("the last column names the driver's repository; use this repository for: {}",
                    wish(known, task, value)),
               says)};
  const std::string name = system ? printable(system->name) : "";
  const std::string what = wish(known, task, value), whose = name.empty() ? "Linux" : name;
  return {"", joined(is_no_package(task) ? text("{}: see the documentation of {}", what, whose)
                                         : text("{}, with the package manager of {}", what, whose),
                     says)};
}

model::Fix with_variant(Examination& look, const char* variant) {
  return {fmt::format("sudo sed -i 's/^MODULE_VARIANT=.*/MODULE_VARIANT={}/' "
                      "/etc/nvidia/kernel.conf && {} && sudo reboot",
                      variant,
                      look.facts.nvidia.source ? "sudo dkms autoinstall --force"
                                               : "sudo akmods --force --rebuild"),
          text("the driver's packages read /etc/nvidia/kernel.conf when they build the module")};
}

model::Fix on_system_between(Examination& look, const char* task, const std::string& before,
                             const std::string& after, std::string says, const std::string& value) {
  model::Fix fix = on_system(look, task, std::move(says), value);
  // Put "&&" before a reboot, so that the machine does not reboot if an earlier step fails.
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
    // The words become part of a command, so special characters are not allowed.
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
