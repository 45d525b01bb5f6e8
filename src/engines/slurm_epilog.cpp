#include "engines/slurm_epilog.hpp"

#include <algorithm>

#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "engines/slurm_node.hpp"

namespace berth::engines {
namespace {

constexpr std::string_view kLeftBy = " left by job ";

const model::Device* with_number(const model::Snapshot& snapshot, int number) {
  for (const model::Device& device : snapshot.devices)
    if (device.vendor == model::Vendor::kNvidia &&
        device.minor_number == static_cast<std::uint32_t>(number))
      return &device;
  return nullptr;
}

std::string program_of(const model::DeviceProcess& process) {
  const std::string_view first =
      std::string_view(process.command).substr(0, process.command.find(' '));
  const std::string_view name = first.substr(first.rfind('/') + 1);
  return printable(name.empty() ? "a process" : name.substr(0, 24));
}

}  // namespace

bool is_of_job(std::string_view environment, std::string_view groups, std::uint64_t job) {
  const std::string variable = fmt::format("SLURM_JOB_ID={}", job);
  for (const std::string_view one : split(environment, '\0'))
    if (one == variable) return true;
  const std::string folder = fmt::format("/job_{}", job);
  for (const std::string_view line : split(groups, '\n'))
    for (std::size_t at = line.find(folder); at != std::string_view::npos;
         at = line.find(folder, at + 1)) {
      const std::size_t end = at + folder.size();
      if (end == line.size() || line[end] == '/') return true;
    }
  return false;
}

std::vector<model::DeviceProcess> processes_of(const model::Snapshot& snapshot,
                                               const std::vector<int>& numbers, std::uint32_t uid) {
  std::vector<model::DeviceProcess> out;
  for (const int number : numbers) {
    const model::Device* device = with_number(snapshot, number);
    if (device == nullptr) continue;
    for (const model::DeviceProcess& one : snapshot.processes) {
      const bool known =
          std::any_of(out.begin(), out.end(), [&](const auto& had) { return had.pid == one.pid; });
      if (one.device == device->index && one.pid && one.uid == uid && !known) out.push_back(one);
    }
  }
  return out;
}

std::string left_on(const model::Snapshot& snapshot, const std::vector<int>& numbers) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30U;
  std::string all;
  for (const int number : numbers) {
    const model::Device* device = with_number(snapshot, number);
    if (device == nullptr) continue;
    std::string here;
    const auto add = [&](const std::string& words) { here += (here.empty() ? "" : ", ") + words; };
    for (const model::DeviceProcess& one : snapshot.processes)
      if (one.device == device->index && (one.kind.compute || !one.kind.graphics))
        add(fmt::format("{} (pid {})", program_of(one),
                        one.pid ? *one.pid : one.host_pid.value_or(0)));
    for (const model::Unattributed& one : snapshot.unattributed)
      if (one.device == device->index && one.memory_bytes >= kLeast &&
          one.cause != "driver_reserve")
        add(show_bytes(one.memory_bytes) + " without a process");
    if (!here.empty()) all += fmt::format("{}GPU {}: {}", all.empty() ? "" : "; ", number, here);
  }
  return all;
}

std::string left_reason(const std::string& left, std::uint64_t job) {
  constexpr std::size_t kMost = 160;
  return std::string(kReasonMark) + left.substr(0, kMost) + std::string(kLeftBy) +
         std::to_string(job);
}

bool is_left_reason(std::string_view reason) {
  return reason.starts_with(kReasonMark) && reason.find(kLeftBy) != std::string_view::npos;
}

std::string job_comment(const JobEnd& end) {
  std::string gpus;
  for (const int one : end.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(one);
  return fmt::format("{}gpus={} orphans_ended={} left={} health={}", kReasonMark, gpus, end.ended,
                     end.left.empty() ? "none" : "yes", end.unfit.empty() ? "ok" : "unfit");
}

bool may_comment(std::string_view shown) {
  constexpr std::string_view kField = "AdminComment=";
  const auto at = shown.find(kField);
  if (at == std::string_view::npos) return true;
  const std::string_view text = trim(shown.substr(at + kField.size()));
  return text.empty() || text.starts_with("(null)") || text.starts_with(kReasonMark);
}

}  // namespace berth::engines
