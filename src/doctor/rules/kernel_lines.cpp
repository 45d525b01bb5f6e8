// Rules AMD07, AMD08, XPU05, XPU06, DRV31 and RT12: log lines of the kernel about GPUs that failed
// to start or hung, and about programs killed because memory ran out. data/kernel_lines.toml has
// the meanings of the lines.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/kernel_lines.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

using Log = std::vector<std::string>;

bool has_all(std::string_view line, const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return contains(line, word); });
}

/// Whether the line can be about this GPU. A line without a PCI address can be about any GPU.
bool may_be_of(std::string_view line, const PciFunction& gpu) {
  constexpr std::string_view kDomain = "0000:";
  const std::size_t at = line.find(kDomain);
  const std::string near = gpu.address.size() > 5 ? gpu.address.substr(5) : gpu.address;
  return contains(line, near) || at == std::string_view::npos || at + 12 > line.size() ||
         line[at + 7] != ':';
}

struct Said {
  const KernelLine* row = nullptr;
  std::string line;
};

/// The first row of the table for which the log has a line about this GPU, and the newest such
/// line.
Said said_of(Examination& look, const Log& log, std::string_view driver, std::string_view kind,
             const PciFunction& gpu) {
  for (const KernelLine& row : look.knowledge.compatibility().kernel_lines) {
    if (row.driver != driver || row.kind != kind) continue;
    for (auto line = log.rbegin(); line != log.rend(); ++line)
      if (has_all(*line, row.words) && may_be_of(*line, gpu)) return {&row, *line};
  }
  return {};
}

Finding& found_line(Examination& look, std::string title, const Said& said) {
  Finding& finding = look.found(std::move(title));
  finding.evidence = {quoted_line(said.line), said.row->source};
  const std::string action(said.row->action.empty() ? "" : tr(said.row->action));
  finding.fix.push_back(said.row->task.empty()
                            ? model::Fix{said.row->command, action}
                            : on_system_between(look, said.row->task.c_str(), said.row->command, "",
                                                action, said.row->value));
  return finding;
}

void amd_not_started(Examination& look) {
  for (const PciFunction& gpu : gpus_on_bus(look, kVendorAmd)) {
    if (!gpu.driver.is_absent()) continue;
    const Log* log = look.see(look.facts.machine.kernel_log);
    if (log == nullptr) return;
    const Said said = said_of(look, *log, "amdgpu", "start", gpu);
    if (said.row == nullptr) continue;
    found_line(look,
               text("the kernel's driver could not start the AMD GPU at {}: {}", gpu.address,
                    tr(said.row->cause.c_str())),
               said);
    return;
  }
}

/// Whether a later line shows that the driver was loaded again or has reset the GPU.
bool is_over(const Log& log, const std::string& line) {
  const auto at = std::find(log.rbegin(), log.rend(), line);
  return std::any_of(log.rbegin(), at, [](const std::string& later) {
    return contains(later, "kernel modesetting enabled") || contains(later, "GPU reset(") ||
           contains(later, "device wedged, but recovered");
  });
}

void amd_faults(Examination& look) {
  for (const PciFunction& gpu : gpus_on_bus(look, kVendorAmd)) {
    if (gpu.driver.value_or("") != "amdgpu") continue;
    const auto& log = look.facts.machine.kernel_log;
    if (!log) return;
    const Said said = said_of(look, *log, "amdgpu", "fault", gpu);
    if (said.row == nullptr) continue;
    Finding& finding = found_line(look,
                                  text("the AMD GPU at {} has hung or had errors: {}", gpu.address,
                                       tr(said.row->cause.c_str())),
                                  said);
    if (is_over(*log, said.line)) finding.severity = Severity::kWarning;
    return;
  }
}

void intel_not_started(Examination& look) {
  for (const PciFunction& gpu : cards_on_bus(look, kVendorIntel)) {
    const auto& log = look.facts.machine.kernel_log;
    if (!log) return;
    const Said said = said_of(look, *log, "intel", "start", gpu);
    if (said.row == nullptr) continue;
    found_line(look,
               text("the kernel's driver could not start the Intel GPU at {}: {}", gpu.address,
                    tr(said.row->cause.c_str())),
               said);
    return;
  }
}

void intel_faults(Examination& look) {
  for (const PciFunction& gpu : cards_on_bus(look, kVendorIntel)) {
    const auto& log = look.facts.machine.kernel_log;
    if (!log || gpu.driver.is_absent()) return;
    const Said said = said_of(look, *log, "intel", "fault", gpu);
    if (said.row == nullptr) continue;
    found_line(look,
               text("the Intel GPU at {} has hung or had errors: {}", gpu.address,
                    tr(said.row->cause.c_str())),
               said);
    return;
  }
}

bool answers_now(const Facts& facts, const PciFunction& gpu) {
  const auto answers = facts.driver.gpus.value_or({});
  return std::any_of(answers.begin(), answers.end(), [&](const GpuAnswer& one) {
    return one.pci_address == gpu.address && one.error.is_absent();
  });
}

void nvidia_not_started(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    if (gpu->is_asleep() || answers_now(look.facts, *gpu)) continue;
    const Log* log = look.see(look.facts.machine.kernel_log);
    if (log == nullptr) return;
    const Said said = said_of(look, *log, "nvidia", "start", *gpu);
    if (said.row == nullptr) continue;
    found_line(look,
               text("NVIDIA's driver could not start the GPU at {}: {}", gpu->address,
                    tr(said.row->cause.c_str())),
               said);
    return;
  }
}

/// The name of a killed program, from lines such as
/// "oom-kill:constraint=CONSTRAINT_MEMCG,…,task=python3,pid=…" and "Out of memory: Killed process
/// 4242 (python3) …".
std::string killed_program(std::string_view line) {
  const std::size_t task = line.find(",task=");
  if (task != std::string_view::npos)
    return std::string(line.substr(task + 6, line.find(',', task + 6) - task - 6));
  const std::size_t open = line.find('('), close = line.find(')', open);
  if (!contains(line, "Killed process") || close == std::string_view::npos) return "";
  return std::string(line.substr(open + 1, close - open - 1));
}

/// Reports a killed compiler. Builds of extensions start one compiler for each core, and each needs
/// several gigabytes.
void killed_compiler(Examination& look, const std::string& line, const std::string& program) {
  Finding& finding = look.found(
      text("the kernel has killed {}, a part of CUDA's compiler: the machine ran out of memory",
           program));
  finding.severity = Severity::kWarning;
  finding.evidence = {quoted_line(line), "https://github.com/Dao-AILab/flash-attention/pull/2079"};
  finding.fix.push_back(
      {"export MAX_JOBS=2", text("then install again: this limits the number of parallel "
                                 "compilers; or use a precompiled wheel")});
}

void killed_for_memory(Examination& look) {
  constexpr auto kPrograms = std::to_array<std::string_view>(
      {"python", "pt_main_thread", "ollama", "llama-", "vllm", "VLLM", "triton",
       "ray::", "torchrun", "jupyter", "ipykernel", "text-generation", "whisper", "sglang"});
  constexpr auto kCompilers =
      std::to_array<std::string_view>({"cicc", "cudafe++", "ptxas", "nvcc", "fatbinary"});
  if (!machine_has_nvidia(look) && cards_on_bus(look, kVendorAmd).empty()) return;
  const auto& log = look.facts.machine.kernel_log;
  if (!log) return;
  for (auto line = log->rbegin(); line != log->rend(); ++line) {
    const std::string program = killed_program(*line);
    if (std::find(kCompilers.begin(), kCompilers.end(), program) != kCompilers.end())
      return killed_compiler(look, *line, program);
    if (std::none_of(kPrograms.begin(), kPrograms.end(),
                     [&](std::string_view one) { return program.starts_with(one); }))
      continue;
    const bool group = contains(*line, "CONSTRAINT_MEMCG");
    Finding& finding = look.found(
        group ? text("the kernel has killed {}: its container or job has reached its memory limit "
                     "(not GPU memory)",
                     printable(program))
              : text("the kernel has killed {}: the machine ran out of memory (not the GPU)",
                     printable(program)));
    finding.evidence.push_back(quoted_line(*line));
    finding.fix.push_back(
        {group ? "docker run --memory 0 IMAGE" : "free -h && swapon --show",
         group
             ? text("or set a higher limit: resources.limits.memory in Kubernetes, --mem in Slurm")
             : text("use fewer workers or smaller batches, or load the model directly to the GPU "
                    "(low_cpu_mem_usage, mmap, safetensors)")});
    return;
  }
}

constexpr auto kDriver = Layer::kDriver;
constexpr auto kKernelLinesRules = std::to_array<Rule>({
    {"AMD07", kDriver, Severity::kFatal, true,
     msgid("an AMD GPU that the kernel's driver could not start"),
     "HW02 AMD01 AMD02 AMD04 AMD05 AMD06 FW*", amd_not_started},
    {"AMD08", kDriver, Severity::kError, true, msgid("an AMD GPU that hung or had errors"),
     "FW* RT*", amd_faults},
    {"XPU05", kDriver, Severity::kFatal, true,
     msgid("an Intel GPU that the kernel's driver could not start"), "HW02 XPU02 XPU03 FW*",
     intel_not_started},
    {"XPU06", kDriver, Severity::kError, true, msgid("an Intel GPU that hung or had errors"), "FW*",
     intel_faults},
    {"DRV31", kDriver, Severity::kFatal, true,
     msgid("a GPU that NVIDIA's driver could not start, for a reason in the kernel's log"),
     "HW02 DRV01 DRV09 DRV11 DRV28 LIB01 FW*", nvidia_not_started},
    {"RT12", Layer::kRuntime, Severity::kError, true,
     msgid("a program that the kernel killed because memory ran out"), "", killed_for_memory},
});

}  // namespace

namespace {

/// GCC's major version: "12" for "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0";
/// "" for another compiler.
std::string gcc_major(std::string_view compiler) {
  if (contains(compiler, "clang")) return "";
  constexpr std::string_view kOld =
      "gcc version ";  // Older kernels print "gcc version 9.3.0 (Ubuntu 9.3.0-17ubuntu1)".
  const std::size_t at = compiler.starts_with(kOld) ? kOld.size() : compiler.rfind(' ') + 1;
  return beginning(compiler.substr(at), 1);
}

/// Suggests installing the compiler that built the kernel, according to /proc/version.
void by_its_compiler(Examination& look, Finding& finding, const std::string& compiler,
                     const KernelLine& row) {
  const std::string major = gcc_major(compiler), told = printable(compiler);
  if (!compiler.empty()) finding.evidence.push_back("/proc/version: " + told);
  finding.fix.insert(
      finding.fix.begin(),
      compiler.empty() ? model::Fix{row.command, std::string(tr(row.action))}
      : major.empty()
          ? model::Fix{"", text("the kernel was built with {}: install it and build again", told)}
          : on_system(look, row.task.c_str(), text("the kernel was built by {}", told), major));
}

}  // namespace

void add_build_failure(Examination& look, Finding& finding) {
  const BuildLog* log = look.see(look.facts.nvidia.build_log);
  if (log == nullptr) return;
  for (const KernelLine& row : look.knowledge.compatibility().kernel_lines) {
    if (row.driver != "nvidia" || row.kind != "build") continue;
    const auto line = std::find_if(log->lines.begin(), log->lines.end(),
                                   [&](const std::string& one) { return has_all(one, row.words); });
    if (line == log->lines.end()) continue;
    finding.title += text("; the build failed: {}", tr(row.cause.c_str()));
    finding.evidence.push_back(log->path + ": " + printable(line->substr(0, 160)));
    finding.evidence.push_back(row.source);
    const std::string action(row.action.empty() ? "" : tr(row.action));
    if (row.task == "kernel_compiler") return by_its_compiler(look, finding, log->compiler, row);
    finding.fix.insert(finding.fix.begin(),
                       row.task.empty() ? model::Fix{row.command, action}
                                        : on_system_between(look, row.task.c_str(), row.command, "",
                                                            action, row.value));
    return;
  }
}

std::span<const Rule> kernel_line_rules() {
  return kKernelLinesRules;
}

}  // namespace berth::doctor
