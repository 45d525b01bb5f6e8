#include "doctor/rules/queries.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "doctor/rules/on_system.hpp"

namespace berth::doctor {

std::vector<const PciFunction*> nvidia_gpus(Examination& look) {
  std::vector<const PciFunction*> gpus;
  if (const auto* functions = look.see(look.facts.machine.pci))
    for (const PciFunction& one : *functions)
      if (one.is_nvidia_gpu() && one.driver.value_or("") != "vfio-pci") gpus.push_back(&one);
  return gpus;
}

bool may_concern_nvidia(const Facts& facts) {
  if (!facts.machine.pci) return true;
  if (facts.machine.has_module("nvidia").value_or(false)) return true;
  if (facts.driver.nvml_init || facts.driver.cuda_init) return true;
  return std::any_of(facts.machine.pci->begin(), facts.machine.pci->end(),
                     [](const PciFunction& one) { return one.vendor == 0x10de; });
}

const std::vector<GpuAnswer>& answers(Examination& look) {
  static const std::vector<GpuAnswer> none;
  if (!may_concern_nvidia(look.facts)) return none;
  const auto* gpus = look.see(look.facts.driver.gpus);
  return gpus == nullptr ? none : *gpus;
}

std::string newest_line(const std::vector<std::string>& log,
                        std::initializer_list<std::string_view> words) {
  for (auto line = log.rbegin(); line != log.rend(); ++line) {
    const bool has_all = std::all_of(words.begin(), words.end(), [&](std::string_view word) {
      return line->find(word) != std::string::npos;
    });
    if (has_all) return *line;
  }
  return "";
}

std::string newest_line(Examination& look, std::initializer_list<std::string_view> words) {
  const auto* log = look.see(look.facts.machine.kernel_log);
  return log == nullptr ? "" : newest_line(*log, words);
}

std::string quoted_line(std::string_view line) {
  return "dmesg: " + printable(trim(line).substr(0, 200));
}

std::string pasted(std::string_view word) {
  return shell_word(printable(word));
}

bool is_loaded(Examination& look, std::string_view module) {
  const auto fact = look.facts.machine.has_module(module);
  const bool* loaded = look.see(fact);
  return loaded != nullptr && *loaded;
}

bool is_not_loaded(Examination& look, std::string_view module) {
  const auto fact = look.facts.machine.has_module(module);
  const bool* loaded = look.see(fact);
  return loaded != nullptr && !*loaded;
}

bool driver_runs(Examination& look) {
  return may_concern_nvidia(look.facts) && !look.facts.machine.is_wsl &&
         !look.facts.machine.is_jetson && look.facts.machine.has_module("nvidia").value_or(true);
}

std::string cuda_says(int code) {
  return "cuInit(0): " + std::to_string(code);
}

std::string nvml_says(Examination& look) {
  const auto& driver = look.facts.driver;
  const std::string words = printable(driver.nvml_message.value_or(""));
  return fmt::format("nvmlInit: {}{}{}", driver.nvml_init.value_or(0), words.empty() ? "" : "; ",
                     words);
}

namespace {

/// Whether `name` is the module or a module that needs it: "nvidia_drm" needs "nvidia".
bool is_of_module(std::string_view name, std::string_view module) {
  return name == module ||
         (name.starts_with(module) && (name[module.size()] == '_' || name[module.size()] == '-'));
}

bool lists(std::string_view names, std::string_view module) {
  const auto all = split(names, ',');
  return std::find(all.begin(), all.end(), module) != all.end();
}

/// Whether a line of modprobe's configuration prevents a module from being loaded automatically.
/// "blacklist nvidia" only stops udev; "alias nvidia off" and "install nvidia /bin/false" also stop
/// modprobe.
bool forbids(std::string_view line, std::string_view module) {
  const std::string name(module);
  return line == "blacklist " + name || line == "alias " + name + " off" ||
         line.starts_with("install " + name + " /bin/") ||
         line.starts_with("install " + name + " /usr/bin/");
}

}  // namespace

Ban ban_of(Examination& look, std::string_view module) {
  for (const ModprobeLine& line : look.facts.nvidia.modprobe.value_or({}))
    if (forbids(line.text, module)) return {line.file + ": " + printable(line.text), line.file, {}};
  const std::string given = look.facts.platform.command_line.value_or("");
  Ban ban;
  for (const std::string_view word : split(given, ' ')) {
    // "nomodeset" does not stop NVIDIA's own driver, which works without kernel mode setting.
    bool bans = word == "nomodeset" && module != "nvidia";
    for (const std::string_view key :
         {"module_blacklist=", "modprobe.blacklist=", "rd.driver.blacklist="})
      bans = bans || (word.starts_with(key) && lists(word.substr(key.size()), module));
    if (!bans) continue;
    ban.evidence += (ban.words.empty() ? "/proc/cmdline: " : " ") + printable(word);
    ban.words.emplace_back(word);
  }
  return ban;
}

model::Fix without_ban(Examination& look, const Ban& ban, std::string_view module) {
  if (ban.file.find("prime") != std::string::npos && module == "nvidia")
    return {"sudo prime-select nvidia && sudo reboot",
            text("prime-select disabled the module; prime-select on-demand keeps the desktop on "
                 "its current GPU")};
  if (ban.file.empty())
    return without_arguments(
        look, ban.words, [&](std::string_view one) { return is_of_module(one, module); },
        text("the kernel can then load the module again"));
  return on_system_between(look, "initramfs",
                           fmt::format("sudo sed -i -E '/^(blacklist|alias|install) {}( |$)/d' {}",
                                       module, pasted(ban.file)),
                           "", "");
}

bool is_before_turing(const PciFunction& gpu) {
  // NVIDIA's device ids increase with each generation. Turing's first chip, TU102, has ids from
  // 1e02 on.
  constexpr std::uint32_t kFirstTuring = 0x1e00;
  return gpu.is_nvidia_gpu() && gpu.device != 0 && gpu.device < kFirstTuring;
}

int branch_of(std::string_view version) {
  return static_cast<int>(to_number(version.substr(0, version.find('.'))).value_or(0));
}

}  // namespace berth::doctor
