// Rules DRV23 and DRV24: errors (Xids) that the driver wrote to the kernel log.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "model/xid_event.hpp"

namespace berth::doctor {
namespace {

struct Event {
  std::string device;  // the PCI address without the function: "0000:01:00"
  int code = 0;
  std::string_view line;
};

std::vector<Event> events(const std::vector<std::string>& log, std::string_view mark) {
  std::vector<Event> found;
  for (const std::string& line : log)
    if (const auto event = model::xid_in_log(line, mark))
      found.push_back({event->device, event->code, line});
  return found;
}

const Xid* find(std::span<const Xid> xids, int code) {
  const auto row = std::lower_bound(xids.begin(), xids.end(), code,
                                    [](const Xid& xid, int value) { return xid.code < value; });
  return row == xids.end() || row->code != code ? nullptr : &*row;
}

/// How severe an event is: from 3 (the GPU needs a reset or more) down to 0 (only information, or a
/// consequence of another event).
int gravity(const Xid* xid) {
  if (xid == nullptr) return 1;
  const std::string_view kind = xid->kind, severity = xid->severity;
  if (kind == "secondary" || severity == "info") return 0;
  if (severity == "fatal") return 3;
  if (severity == "error" && kind != "app") return 2;
  return 1;
}

Severity severity_of(int gravity) {
  constexpr auto kSeverities =
      std::to_array({Severity::kInfo, Severity::kWarning, Severity::kError, Severity::kFatal});
  return kSeverities.at(static_cast<std::size_t>(gravity));
}

/// Whether NVML counts memory errors of this GPU too. DRV25 and DRV26 then report them.
bool counted_by_driver(const Facts& facts, const std::string& device) {
  for (const GpuAnswer& gpu : facts.driver.gpus.value_or({})) {
    if (!gpu.pci_address.starts_with(device.substr(0, device.find(' ')))) continue;
    return gpu.ecc_uncorrected.value_or(0) > 0 || gpu.remap_pending.value_or(false) ||
           gpu.remap_failed.value_or(false) || gpu.retired_pages_pending.value_or(false);
  }
  return false;
}

/// Whether the bus shows that the GPU is lost. HW08 then reports it.
bool is_gone(const Facts& facts, const Event& event) {
  constexpr int kOffTheBus = 79;
  if (event.code != kOffTheBus || !facts.machine.pci) return false;
  return std::any_of(facts.machine.pci->begin(), facts.machine.pci->end(),
                     [&](const PciFunction& one) {
                       return one.address.starts_with(event.device) && one.gone.value_or(false);
                     });
}

/// Whether the event needs no action any more: ECC has contained the error (Xid 63 or 94), and NVML
/// reports no remaining memory errors.
bool is_history(const Facts& facts, const Event& event) {
  if (event.code != 63 && event.code != 94) return false;
  for (const GpuAnswer& gpu : facts.driver.gpus.value_or({}))
    if (gpu.pci_address.starts_with(event.device))
      return gpu.remap_pending.value_or(true) == false &&
             gpu.remap_failed.value_or(true) == false && gpu.ecc_uncorrected.value_or(1) == 0;
  return false;
}

void advise(Examination& look, const Event& event, Finding& finding) {
  constexpr int kGspTimeout = 119, kOffTheBus = 79;
  const std::string version = look.facts.nvidia.module_version.value_or("");
  if (event.code == kGspTimeout && branch_of(version) == 525 && is_older(version, "525.105.17")) {
    finding.evidence.push_back(
        text("driver {}: a known bug of early 525 drivers causes this Xid", printable(version)));
    finding.fix.push_back(on_system(look, "driver_update",
                                    text("install 525.105.17 or later, which fixes it"), "525"));
  }
  if (event.code == kOffTheBus)
    finding.fix.push_back({"", text("check the power supply (rating, cables, other loads), the "
                                    "card's seating and its temperature")});
  const Xid* xid = find(look.knowledge.xids, event.code);
  if (xid != nullptr && *xid->action != '\0')
    finding.fix.push_back({"", std::string(tr(xid->action))});
  if (finding.fix.empty())
    finding.fix.push_back(
        {"sudo nvidia-bug-report.sh",
         text("no public table has a fix for Xid {}. If it happens again after a restart of the "
              "program and the machine, send this command's report to the vendor's support",
              event.code)});
}

/// Reports the most severe event of a GPU. If several events are equally severe, reports the first
/// one, because it caused the others.
void report_gpu(Examination& look, const std::vector<Event>& all, const std::string& device) {
  const Event* root = nullptr;
  std::size_t count = 0;
  for (const Event& event : all) {
    if (event.device != device) continue;
    ++count;
    const int grave = gravity(find(look.knowledge.xids, event.code));
    if (root == nullptr || grave > gravity(find(look.knowledge.xids, root->code))) root = &event;
  }
  if (root == nullptr) return;
  const Xid* xid = find(look.knowledge.xids, root->code);
  if (xid != nullptr && xid->kind == std::string_view("memory") &&
      counted_by_driver(look.facts, device))
    return;
  if (is_gone(look.facts, *root)) return;
  const int grave = is_history(look.facts, *root) ? 0 : gravity(xid);
  Finding& finding = look.found(
      xid == nullptr ? text("the driver reported Xid {} for the GPU at {}", root->code, device)
                     : text("the driver reported Xid {} for the GPU at {}: {}", root->code, device,
                            tr(xid->what)));
  finding.severity = severity_of(grave);
  finding.evidence.push_back(quoted_line(root->line));
  if (xid != nullptr) finding.evidence.emplace_back(tr(xid->cause));
  if (count > 1)
    finding.evidence.push_back(text("{} Xids of this GPU since the start of the log", count));
  advise(look, *root, finding);
}

void xid(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto* log = look.see(look.facts.machine.kernel_log);
  if (log == nullptr) return;
  const auto all = events(*log, model::kXidMark);
  std::vector<std::string> devices;
  for (const Event& event : all)
    if (std::find(devices.begin(), devices.end(), event.device) == devices.end())
      devices.push_back(event.device);
  for (const std::string& device : devices) report_gpu(look, all, device);
}

void sxid(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto* log = look.see(look.facts.machine.kernel_log);
  if (log == nullptr) return;
  const Event* worst = nullptr;
  const auto all = events(*log, model::kSxidMark);
  const auto is_fatal = [](const Event& event) {
    return event.line.find(", Fatal") != std::string_view::npos;
  };
  for (const Event& event : all)
    if (worst == nullptr || (is_fatal(event) && !is_fatal(*worst))) worst = &event;
  if (worst == nullptr) return;
  Finding& finding =
      look.found(text("the NVSwitch at {} reported a fault (SXid {})", worst->device, worst->code));
  if (!is_fatal(*worst)) finding.severity = Severity::kWarning;
  finding.evidence.push_back(quoted_line(worst->line));
  finding.fix.push_back({"sudo systemctl restart nvidia-fabricmanager",
                         text("first end all programs on the GPUs; if the fault happens again, ask "
                              "the vendor's support")});
}

constexpr auto kXidRules = std::to_array<Rule>({
    {"DRV23", Layer::kDriver, Severity::kError, true, msgid("Xids in the kernel's log"),
     "DRV09 DRV24 DRV25 DRV26 DRV30 FW* RT*", xid},
    {"DRV24", Layer::kDriver, Severity::kError, false, msgid("SXids in the kernel's log"), "DRV15",
     sxid},
});

}  // namespace

std::span<const Rule> xid_rules() {
  return kXidRules;
}

}  // namespace berth::doctor
