// What was tried: frameworks that ran no kernel (--deep), and a command's program that cannot
// start. And of a pasted error what can be seen to be so.
#include <algorithm>
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

std::string gib(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / 1073741824.0);
}

struct Room {
  const GpuAnswer* gpu = nullptr;
  double total = 0, free = 0;
};

/// The GPUs whose memory the driver has told of.
std::vector<Room> rooms(Examination& look) {
  std::vector<Room> all;
  const auto* gpus = look.see(look.facts.driver.gpus);
  if (gpus == nullptr) return all;
  for (const GpuAnswer& gpu : *gpus) {
    const auto* total = look.see(gpu.memory_total_bytes);
    const auto* used = look.see(gpu.memory_used_bytes);
    if (total == nullptr || used == nullptr) return {};
    const auto size = static_cast<double>(*total);
    all.push_back({&gpu, size, size - static_cast<double>(*used)});
  }
  return all;
}

/// A pasted text makes no finding alone: what the program wanted, against the GPUs as they are now.
void out_of_memory(Examination& look, const AskedFacts& asked) {
  const auto* messages = look.see(asked.error);
  if (messages == nullptr) return;
  double wanted = 0;
  std::string line;
  for (const Recognised& one : *messages)
    if (one.asked_bytes > wanted) wanted = one.asked_bytes, line = one.text;
  if (wanted <= 0) return;
  const std::vector<Room> all = rooms(look);
  if (all.empty()) return;
  const auto less = [](double Room::*what) {
    return [what](const Room& one, const Room& other) { return one.*what < other.*what; };
  };
  const Room& largest = *std::max_element(all.begin(), all.end(), less(&Room::total));
  const Room& freest = *std::max_element(all.begin(), all.end(), less(&Room::free));
  const Room& first = all.front();
  if (wanted > largest.total) {
    Finding& finding =
        look.found(text("the program asked for {} at once, and no GPU here has more "
                        "than {}",
                        gib(wanted), gib(largest.total)));
    finding.evidence = {line};
    finding.fix.push_back({"", text("a smaller batch or model, a smaller number format, or parts "
                                    "of it on several GPUs")});
    return;
  }
  if (first.free >= wanted) return;
  const bool elsewhere = freest.free >= wanted;
  Finding& finding = look.found(
      elsewhere
          ? text("the first GPU has {} free now, less than the {} that were asked for; GPU {} "
                 "has {}",
                 gib(first.free), gib(wanted), freest.gpu->pci_address, gib(freest.free))
          : text("no GPU has the {} free now that were asked for: the freest has {} of {}",
                 gib(wanted), gib(freest.free), gib(freest.total)));
  finding.evidence.push_back(line);
  for (const Room& one : all)
    finding.evidence.push_back(text("NVML: GPU {} has {} free of {}", one.gpu->pci_address,
                                    gib(one.free), gib(one.total)));
  finding.fix.push_back({"berth ps", text("who holds it")});
  finding.fix.push_back({"berth run --gpus 1 -- python …",
                         text("takes one that is free, and waits while there is none")});
}

/// What stands in the table's place for a function: it asks nothing of the machine's facts.
void elsewhere(Examination&) {}

constexpr auto kRules = std::to_array<Rule>({
    {"CMD01", Layer::kLibraries, Severity::kFatal, false,
     msgid("a command's program whose libraries are not found"), "", elsewhere},
    {"RT02", Layer::kRuntime, Severity::kError, false,
     msgid("a pasted out-of-memory error, against the GPUs as they are now (--error)"), "",
     elsewhere},
    // It explains nothing: others explain it (diagnose.cpp).
    {"PRB01", Layer::kRuntime, Severity::kError, false,
     msgid("a framework that cannot run a kernel (--deep)"), "", elsewhere},
});

}  // namespace

std::span<const Rule> asked_rules() {
  return kRules;
}

bool is_asked_rule(std::string_view id) {
  return id == "CMD01" || id == "PRB01" || id == "RT02";
}

bool look_asked(std::string_view id, Examination& look, const AskedFacts& asked) {
  const auto looked = [&](bool none, void (*rule)(Examination&, const AskedFacts&)) {
    if (!none) rule(look, asked);
    return !none;
  };
  if (id == "CMD01") return looked(asked.program.is_absent(), cannot_start);
  if (id == "RT02") return looked(asked.error.is_absent(), out_of_memory);
  return looked(asked.probe.is_absent(), cannot_run);
}

}  // namespace berth::doctor
