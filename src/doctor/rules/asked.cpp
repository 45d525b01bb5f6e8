// What was tried: frameworks that ran no kernel (--deep), and a command's program that cannot
// start.
#include <array>

#include "base/text.hpp"
#include "doctor/rules/asked.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/sight.hpp"

namespace berth::doctor {
namespace {

/// Whether a framework could be expected to find a GPU here.
bool expects_gpu(Examination& look) {
  if (!seen_gpus(look).empty() || has_rocm_gpu(look)) return true;
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr) return false;
  for (const PciFunction& one : *functions)
    if (one.vendor == 0x8086 && one.is_gpu()) return true;
  return false;
}

std::string called(const ProbeAnswer& answer) {
  return answer.version.empty() ? answer.framework : answer.framework + " " + answer.version;
}

std::string title_of(const ProbeAnswer& answer) {
  using enum ProbeState;
  const std::string what = called(answer);
  switch (answer.state) {
    case kFailed:
      for (const ProbedDevice& one : answer.devices)
        if (!one.ran) return text("{} cannot run a kernel on its GPU {}", what, one.index);
      return text("{} cannot begin to use a GPU", what);
    case kNoDevice:
      return text("{} is built for GPUs, and sees none", what);
    case kNotImported:
      return text("{} cannot be imported", what);
    case kCrashed:
      return text("{} crashes when it uses the GPU", what);
    case kNoAnswer:
      return text("{} hangs when it uses the GPU, and was ended", what);
    case kRan:
    case kCpuBuild:
    case kNotReached:
      break;
  }
  return "";
}

void add_evidence(Finding& finding, const ProbeAnswer& answer, const std::string& python) {
  finding.evidence.push_back(text("tried in {}", python));
  if (!answer.message.empty()) finding.evidence.push_back(answer.message);
  int ran = 0;
  for (const ProbedDevice& one : answer.devices) {
    ran += one.ran ? 1 : 0;
    if (!one.ran && one.message != answer.message && finding.evidence.size() < 6)
      finding.evidence.push_back(fmt::format("GPU {}: {}", one.index, one.message));
  }
  if (ran > 0)
    finding.evidence.push_back(
        text_n("it ran a kernel on {} other GPU", "it ran a kernel on {} other GPUs", ran, ran));
  for (const Recognised& one : read_error_text(answer.message))
    finding.evidence.push_back(text("the message usually says: {}", one.means));
}

void cannot_run(Examination& look, const AskedFacts& asked) {
  const auto* answers = look.see(asked.probe);
  if (answers == nullptr || !expects_gpu(look)) return;
  for (const ProbeAnswer& answer : *answers) {
    const std::string title = title_of(answer);
    if (title.empty()) continue;
    Finding& finding = look.found(title);
    add_evidence(finding, answer, look.facts.python.interpreter.value_or("python3"));
  }
}

void cannot_start(Examination& look, const AskedFacts& asked) {
  const ProgramFacts* program = look.see(asked.program);
  if (program == nullptr || program->missing.empty()) return;
  Finding& finding = look.found(
      text("{} cannot start: {} is not found", program->path, program->missing.front().name));
  for (const MissingLibrary& one : program->missing)
    finding.evidence.push_back(text("{}, which {} needs, is in no folder that the loader searches",
                                    one.name, one.needed_by));
  finding.fix.push_back({"LD_LIBRARY_PATH=FOLDER:$LD_LIBRARY_PATH " + pasted(program->path),
                         text("with the folder that has {}; or install the package that brings it",
                              program->missing.front().name)});
}

/// What stands in the table's place for a function: it asks nothing of the machine's facts.
void elsewhere(Examination&) {}

constexpr auto kRules = std::to_array<Rule>({
    {"CMD01", Layer::kLibraries, Severity::kFatal, false,
     msgid("a command's program whose libraries are not found"), "", elsewhere},
    // It explains nothing: others explain it (diagnose.cpp).
    {"PRB01", Layer::kRuntime, Severity::kError, false,
     msgid("a framework that cannot run a kernel (--deep)"), "", elsewhere},
});

}  // namespace

std::span<const Rule> asked_rules() {
  return kRules;
}

bool is_asked_rule(std::string_view id) {
  return id == "CMD01" || id == "PRB01";
}

bool look_asked(std::string_view id, Examination& look, const AskedFacts& asked) {
  if (id == "CMD01" ? asked.program.is_absent() : asked.probe.is_absent()) return false;
  id == "CMD01" ? cannot_start(look, asked) : cannot_run(look, asked);
  return true;
}

}  // namespace berth::doctor
