// Rules about what the user requested: a probe of frameworks (--deep), a command whose program
// cannot start, and a pasted error (--error). Also a rule about devices that the broker has set
// aside.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/error/next_steps.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/on_request.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

/// Whether this machine has a GPU that a framework should find.
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
      return text("{} cannot initialize a GPU", what);
    case kNoDevice:
      return text("{} is built for GPUs, but sees none", what);
    case kNotImported:
      return text("{} cannot be imported", what);
    case kCrashed:
      return text("{} crashes when it uses the GPU", what);
    case kNoAnswer:
      return text("{} hangs when it uses the GPU, and was killed", what);
    case kRan:
    case kCpuBuild:
    case kNotReached:
      break;
  }
  return "";
}

void add_evidence(Finding& finding, const ProbeAnswer& answer, const std::string& python) {
  finding.evidence.push_back(text("tried with {}", python));
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
    finding.evidence.push_back(text("the message usually means: {}", one.means));
}

void cannot_run(Examination& look, const RequestFacts& request) {
  const auto* answers = look.see(request.probe);
  if (answers == nullptr || !expects_gpu(look)) return;
  for (const ProbeAnswer& answer : *answers) {
    const std::string title = title_of(answer);
    if (title.empty()) continue;
    Finding& finding = look.found(title);
    add_evidence(finding, answer, look.facts.python.interpreter.value_or("python3"));
  }
}

void cannot_start(Examination& look, const RequestFacts& request) {
  const ProgramFacts* program = look.see(request.program);
  if (program == nullptr || program->missing.empty()) return;
  Finding& finding = look.found(
      text("{} cannot start: {} is not found", program->path, program->missing.front().name));
  for (const MissingLibrary& one : program->missing)
    finding.evidence.push_back(
        text("the loader does not find {}, which {} needs", one.name, one.needed_by));
  finding.fix.push_back(
      {"LD_LIBRARY_PATH=FOLDER:$LD_LIBRARY_PATH " + pasted(program->path),
       text("FOLDER is the folder that contains {}; or install the package of this library",
            program->missing.front().name)});
}

std::string gib(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / 1073741824.0);
}

struct GpuMemory {
  const GpuAnswer* gpu = nullptr;
  double total = 0, free = 0;
};

/// The memory of all GPUs; empty if it is unknown for one of them.
std::vector<GpuMemory> gpu_memory(Examination& look) {
  std::vector<GpuMemory> all;
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

/// Reports that the program requested more memory than the GPUs have in total, or than is free now.
/// The request alone is no reason for a finding.
void out_of_memory(Examination& look, const RequestFacts& request) {
  const auto* messages = look.see(request.error);
  if (messages == nullptr) return;
  double wanted = 0;
  std::string line;
  for (const Recognised& one : *messages)
    if (one.asked_bytes > wanted) wanted = one.asked_bytes, line = one.text;
  if (wanted <= 0) return;
  const std::vector<GpuMemory> all = gpu_memory(look);
  if (all.empty()) return;
  const auto less = [](double GpuMemory::*what) {
    return [what](const GpuMemory& one, const GpuMemory& other) { return one.*what < other.*what; };
  };
  const GpuMemory& largest = *std::max_element(all.begin(), all.end(), less(&GpuMemory::total));
  const GpuMemory& freest = *std::max_element(all.begin(), all.end(), less(&GpuMemory::free));
  const GpuMemory& first = all.front();
  if (wanted > largest.total) {
    Finding& finding =
        look.found(text("the program requested {} at once, but no GPU here has more than {}",
                        gib(wanted), gib(largest.total)));
    finding.evidence = {line};
    finding.fix.push_back(
        {"",
         text(
             "use a smaller batch, model or number format, or split the model over several GPUs")});
    return;
  }
  if (first.free >= wanted) return;
  const bool elsewhere = freest.free >= wanted;
  Finding& finding = look.found(
      elsewhere
          ? text("the first GPU has {} free, less than the requested {}; GPU {} has {}",
                 gib(first.free), gib(wanted), freest.gpu->pci_address, gib(freest.free))
          : text("no GPU has the requested {} free: the GPU with the most free memory has {} of {}",
                 gib(wanted), gib(freest.free), gib(freest.total)));
  finding.evidence.push_back(line);
  for (const GpuMemory& one : all)
    finding.evidence.push_back(text("NVML: GPU {} has {} free of {}", one.gpu->pci_address,
                                    gib(one.free), gib(one.total)));
  finding.fix.push_back({"berth ps", text("shows which process holds the memory")});
  if (!elsewhere)
    finding.fix.push_back(
        {"", text("halve the batch until it fits, and accumulate gradients over twice the steps")});
  finding.fix.push_back(
      {"berth run --gpus 1 -- python …", text("waits until a GPU is free, and uses it")});
}

/// Whether the finding is more than information and can cause one of the messages.
bool is_shown(const std::vector<Recognised>& messages, const Finding& finding) {
  return finding.severity != Severity::kInfo &&
         (finding.id == "RT02" ||
          std::any_of(messages.begin(), messages.end(),
                      [&](const Recognised& one) { return speaks_of(one, finding.id); }));
}

/// Reports the pasted error itself if no finding explains it. The user then gets at least a next
/// step.
void pasted_error(Examination& look, const RequestFacts& request,
                  const std::vector<Finding>& findings) {
  const auto* messages = look.see(request.error);
  if (messages == nullptr || messages->empty()) return;
  const Recognised& first = messages->front();
  for (const Finding& one : findings) {
    if (is_shown(*messages, one)) return;
    // If the message has many possible causes, any fault that makes the GPU unusable may be the
    // cause.
    if (first.strength < 2 && one.severity >= Severity::kError) return;
  }
  Finding& finding = look.found(text("the pasted error: {}", first.means));
  finding.evidence.push_back(text("line {}: {}", first.line, first.text));
  finding.fix = next_steps(first.name, first.rules.empty() ? "" : first.rules.front());
}

/// Describes the GPU with this uuid: "GPU 0000:01:00.0 (NVIDIA L4)". Returns `unit` unchanged if
/// the driver lists no such uuid, or if `unit` is an address.
std::string words_of_unit(Examination& look, const std::string& unit) {
  for (const GpuAnswer& gpu : answers(look))
    if (gpu.uuid.value_or("") == unit)
      return fmt::format("GPU {} ({})", gpu.pci_address, gpu.name.value_or("?"));
  return unit;
}

/// Reports devices that Berth gives to no job, because a process that cannot be killed still uses
/// them after its job has ended.
void devices_aside(Examination& look, const RequestFacts& request) {
  const auto* aside = look.see(request.aside);
  if (aside == nullptr) return;
  for (const model::Holding& one : *aside) {
    Finding& finding = look.found(
        text("Berth has set {} aside, so no job gets it (E0996)", words_of_unit(look, one.unit)));
    finding.evidence.push_back(
        text("process {} of the ended job {} waits in the kernel and cannot be killed",
             one.stuck_pid, one.job_words()));
    finding.fix.push_back({fmt::format("sudo cat /proc/{}/stack", one.stuck_pid),
                           text("shows what the process waits for; when the process ends, Berth "
                                "gives the device to jobs again")});
    finding.fix.push_back({"sudo reboot", text("reboot if the process does not end by itself")});
  }
}

/// A placeholder for the function of a rule. It is never called: check_on_request() runs these
/// rules, because they need the RequestFacts.
void elsewhere(Examination&) {}

constexpr auto kOnRequestRules = std::to_array<Rule>({
    {"CMD01", Layer::kLibraries, Severity::kFatal, false,
     msgid("a program that cannot start because libraries are missing"), "", elsewhere},
    {"RT02", Layer::kRuntime, Severity::kError, false,
     msgid("a pasted out-of-memory error, compared with the GPUs' current memory (--error)"), "",
     elsewhere},
    {"RT18", Layer::kRuntime, Severity::kWarning, false,
     msgid("devices that Berth set aside, because a process on them cannot be killed"), "",
     elsewhere},
    // PRB01 explains no other finding. may_explain() in diagnose.cpp determines which findings
    // explain PRB01.
    {"PRB01", Layer::kRuntime, Severity::kError, false,
     msgid("a framework that cannot run a kernel (--deep)"), "", elsewhere},
    // ERR01 must be last, because it uses the findings of all other rules.
    {"ERR01", Layer::kRuntime, Severity::kError, false,
     msgid("a pasted error that no finding of this machine explains (--error)"), "", elsewhere},
});

}  // namespace

std::span<const Rule> on_request_rules() {
  return kOnRequestRules;
}

bool is_on_request_rule(std::string_view id) {
  return id == "CMD01" || id == "PRB01" || id == "RT02" || id == "RT18" || id == "ERR01";
}

bool check_on_request(std::string_view id, Examination& look, const RequestFacts& request,
                      const std::vector<Finding>& findings) {
  const auto looked = [&](bool none, void (*rule)(Examination&, const RequestFacts&)) {
    if (!none) rule(look, request);
    return !none;
  };
  if (id == "CMD01") return looked(request.program.is_absent(), cannot_start);
  if (id == "ERR01") {
    if (!request.error.is_absent()) pasted_error(look, request, findings);
    return !request.error.is_absent();
  }
  if (id == "RT02") return looked(request.error.is_absent(), out_of_memory);
  if (id == "RT18") return looked(request.aside.is_absent(), devices_aside);
  return looked(request.probe.is_absent(), cannot_run);
}

}  // namespace berth::doctor
