// Rules DRV29 and DRV30: the driver's library cannot be used, or a GPU does not answer. Only a
// query of the driver shows this; other rules search files and logs for the cause.
#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

constexpr const char* kAskTheLog = "sudo dmesg | grep -iE 'nvrm|xid' | tail -30";

bool is_one_of(std::string_view id, std::initializer_list<std::string_view> ids) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void advise_reinstall(Examination& look, Finding& finding) {
  const std::string path = shown_variable(look, "LD_LIBRARY_PATH");
  if (!path.empty()) {
    finding.evidence.push_back(printable(path));
    finding.fix.push_back({"env -u LD_LIBRARY_PATH berth",
                           text("if this works, a folder in LD_LIBRARY_PATH contains another "
                                "library of this name: remove that folder from the variable")});
  }
  finding.fix.push_back(
      {"ldconfig -p | grep libnvidia-ml", text("shows which library is found; reinstall NVIDIA's "
                                               "driver from the same source as before")});
}

/// Whether access to a node is denied. If so, another rule reports it.
bool nodes_are_refused(Examination& look) {
  const auto* nodes = look.see(look.facts.nvidia.nodes);
  return nodes != nullptr && std::any_of(nodes->begin(), nodes->end(), [](const DeviceNode& one) {
           const int error = one.node.open_error.value_or(0);
           return error == EACCES || error == EPERM;
         });
}

void advise_permission(Finding& finding) {
  finding.fix.push_back(
      {"ls -l /dev/nvidia*",
       text("join the group that owns the nodes: sudo usermod -aG GROUP $USER, and log in again")});
  finding.fix.push_back(
      {"docker run --gpus all IMAGE", text("in a container: restart it with the GPU's devices")});
}

void library_fails(Examination& look) {
  const auto& driver = look.facts.driver;
  const std::string* id = look.see(driver.failure);
  if (id == nullptr) return;
  const bool refused = *id == "E0308";
  if (refused && nodes_are_refused(look)) return;
  const std::string message = printable(driver.nvml_message.value_or(""));
  Finding& finding = look.found(
      refused ? text("this user has no permission to use the NVIDIA driver")
      : is_one_of(*id, {"E0302", "E0303"}) ? text("the library of NVIDIA's driver is not usable")
      : is_one_of(*id, {"E0306", "E0310"}) ? text("the library of NVIDIA's driver crashes")
      : *id == "E0311" ? text("the library of NVIDIA's driver does not finish loading")
                       : text("NVIDIA's driver cannot be queried"));
  // Without an NVIDIA GPU, the driver's library is not needed.
  if (!machine_has_nvidia(look)) finding.severity = Severity::kWarning;
  finding.evidence.push_back(message.empty() ? *id : fmt::format("{} ({})", message, *id));
  if (refused) return advise_permission(finding);
  if (*id == "E0312") {
    finding.fix.push_back(
        {"ulimit -u; ulimit -n", text("shows the limits on processes and open files")});
    return;
  }
  if (is_one_of(*id, {"E0302", "E0303", "E0306", "E0310", "E0311"}))
    advise_reinstall(look, finding);
  else
    finding.fix.push_back({"nvidia-smi", text("shows the driver's own message")});
  if (!is_one_of(*id, {"E0302", "E0303"}))
    finding.fix.push_back({kAskTheLog, text("shows the kernel's messages about the driver")});
}

void advise_reset(Finding& finding, const std::string& address) {
  finding.fix.push_back(
      {kAskTheLog, text("shows the GPU's Xid, which says what happened; to explain it, pipe these "
                        "lines to: berth doctor --error -")});
  finding.fix.push_back({fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(address)),
                         text("ends the programs on the GPU; if the reset is refused, reboot")});
  finding.fix.push_back(
      {"sudo reboot", text("if processes on the GPU cannot be ended; check power, slot and "
                           "temperature if the GPU fails again")});
}

void gpu_silent(Examination& look) {
  std::vector<const GpuAnswer*> silent;
  for (const GpuAnswer& gpu : answers(look))
    if (const bool* still = look.see(gpu.silent); still != nullptr && *still)
      silent.push_back(&gpu);
  if (silent.empty()) return;
  if (silent.size() > 1 && silent.size() == answers(look).size()) {
    // All GPUs share the driver and the bus, so one of these is the cause if no GPU answers.
    Finding& finding = look.found(text("none of the {} NVIDIA GPUs answers", silent.size()));
    finding.evidence.push_back(text("NVML was queried, but no GPU answered in time"));
    finding.fix.push_back({kAskTheLog, text("shows the kernel's messages about the driver")});
    finding.fix.push_back({"sudo reboot", text("a hung driver cannot be unloaded")});
    return;
  }
  for (const GpuAnswer* gpu : silent) {
    const std::string address = printable(gpu->pci_address);
    Finding& finding = look.found(text("the GPU {} does not answer", address));
    finding.evidence.push_back(text("NVML was queried, but this GPU did not answer in time"));
    advise_reset(finding, address);
  }
}

constexpr auto kDriverSilenceRules = std::to_array<Rule>({
    {"DRV29", Layer::kDriver, Severity::kFatal, false,
     msgid("a driver library that cannot be used"), "", library_fails},
    {"DRV30", Layer::kDriver, Severity::kFatal, false, msgid("a GPU that does not answer"), "",
     gpu_silent},
});

}  // namespace

std::span<const Rule> driver_silence_rules() {
  return kDriverSilenceRules;
}

}  // namespace berth::doctor
