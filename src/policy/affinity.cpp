#include "policy/affinity.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "model/cpu_list.hpp"
#include "policy/candidates.hpp"

namespace berth::policy {
namespace {

using model::Device;

const Device* find(const model::Snapshot& snapshot, int index) {
  for (const Device& device : snapshot.devices)
    if (device.index == index) return &device;
  return nullptr;
}

std::vector<int> cpus_of(const std::string& list) {
  return model::parse_cpu_list(list).value_or(std::vector<int>());
}

/// Returns the CPUs that are near at least one of the devices, in ascending order.
std::vector<int> near_devices(const model::Placement& placement, const model::Snapshot& snapshot) {
  std::vector<int> all;
  for (const int index : placement.devices) {
    const Device* device = find(snapshot, index);
    const auto cpus = device == nullptr ? std::vector<int>() : cpus_of(device->local_cpus);
    all.insert(all.end(), cpus.begin(), cpus.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Returns the index of the first CPU for this device. All devices of a NUMA node share the node's
/// CPUs evenly.
std::size_t share_begins(const model::Placement& placement, const model::Snapshot& snapshot,
                         std::size_t cpus) {
  const Device* mine = find(snapshot, placement.devices.front());
  if (mine == nullptr) return 0;
  std::size_t before = 0;
  std::size_t together = 0;
  for (const Device& device : snapshot.devices) {
    const bool computes =
        device.kind == model::DeviceKind::kGpu || device.kind == model::DeviceKind::kTpu;
    if (!device.managed || !computes || device.local_cpus != mine->local_cpus) continue;
    ++together;
    if (device.index < mine->index) ++before;
  }
  return together == 0 ? 0 : before * cpus / together;
}

/// Picks `count` CPUs: first the CPUs in `close`, starting at index `begin`, then other CPUs in
/// `allowed`.
std::vector<int> pick(const std::vector<int>& close, const std::vector<int>& allowed,
                      std::size_t begin, std::size_t count) {
  std::vector<int> picked;
  for (std::size_t i = 0; i < close.size() && picked.size() < count; ++i)
    picked.push_back(close[(begin + i) % close.size()]);
  for (std::size_t i = 0; i < allowed.size() && picked.size() < count; ++i)
    if (!std::binary_search(close.begin(), close.end(), allowed[i])) picked.push_back(allowed[i]);
  std::sort(picked.begin(), picked.end());
  return picked;
}

std::string limits_of(const model::CpuBudget& cpu) {
  if (cpu.quota_cores && *cpu.quota_cores < cpu.cores_affinity)
    return text("the quota is {:.1f} cores", *cpu.quota_cores);
  if (cpu.cores_total == 0) return text("the number of cores is unknown");
  return text("{} of {} cores may be used", cpu.cores_affinity, cpu.cores_total);
}

/// Returns the CPUs that this process may use and that were given to no job.
std::vector<int> free_cpus(const model::Snapshot& snapshot, const model::Ledger& ledger) {
  auto cpus = cpus_of(snapshot.host.cpu.affinity);
  cpus.erase(
      std::remove_if(
          cpus.begin(), cpus.end(),
          [&](int cpu) { return std::binary_search(ledger.cpus.begin(), ledger.cpus.end(), cpu); }),
      cpus.end());
  return cpus;
}

void beside_devices(model::Placement& placement, const model::Request& request,
                    const model::Snapshot& snapshot, const model::Ledger& ledger) {
  const auto allowed = free_cpus(snapshot, ledger);
  const auto local = near_devices(placement, snapshot);
  auto close = model::intersection(local, allowed);
  if (!local.empty() && !allowed.empty() && close.empty())
    placement.reasons.push_back(text(
        "this process may not use the cores near the device ({}): its CPU affinity stays unchanged",
        model::show_cpu_list(local)));
  if (request.cpus) {
    const auto count = static_cast<std::size_t>(*request.cpus);
    const auto begin = share_begins(placement, snapshot, close.size());
    const auto picked = pick(close, allowed, begin, count);
    if (!close.empty() && close.size() < count)
      placement.reasons.push_back(
          text("only {} of the {} CPUs are near the device", close.size(), count));
    close = picked.size() == count ? picked : std::vector<int>();
  }
  const bool is_lease = ledger.kept && request.cpus.has_value();
  if (close.empty() || (!is_lease && close == cpus_of(snapshot.host.cpu.affinity))) return;
  placement.cpus = model::show_cpu_list(close);
  placement.threads = std::min(placement.threads, static_cast<int>(close.size()));
  placement.reasons.push_back(text("CPUs {}: near the device", placement.cpus));
}

/// Takes exactly the listed cores, if this process may use them and no job has them.
Status take_these(model::Placement& placement, const model::Request& request,
                  const model::Snapshot& snapshot, const model::Ledger& ledger) {
  const auto wanted = cpus_of(*request.cpu_list);
  const auto allowed = cpus_of(snapshot.host.cpu.affinity);
  if (!allowed.empty() && model::intersection(wanted, allowed) != wanted)
    return Error{ErrorCode::kRefused, "E0417",
                 text("cores {} were requested, but only {} may be used here", *request.cpu_list,
                      snapshot.host.cpu.affinity),
                 call_with(request, "--cpus " + snapshot.host.cpu.affinity)};
  if (!model::intersection(wanted, ledger.cpus).empty())
    return Error{ErrorCode::kRefused, "E0412",
                 text("other jobs use some of the cores {}: {}", *request.cpu_list,
                      model::show_cpu_list(model::intersection(wanted, ledger.cpus))),
                 call_with(request, fmt::format("--cpus {}", wanted.size()))};
  placement.cpus = *request.cpu_list;
  placement.reasons.push_back(text("CPUs {}: requested", placement.cpus));
  return Done{};
}

}  // namespace

Status set_processors(model::Placement& placement, const model::Request& request,
                      const model::Snapshot& snapshot, const model::Ledger& ledger) {
  const model::CpuBudget& cpu = snapshot.host.cpu;
  const int usable = std::max(1, cpu.cores_usable);
  if (request.cpus.value_or(0) > usable)
    return Error{
        ErrorCode::kRefused, "E0417",
        text_n("{} core was requested, {} can be used", "{} cores were requested, {} can be used",
               *request.cpus, *request.cpus, usable) +
            "\n  " + limits_of(cpu),
        call_with(request, fmt::format("--cpus {}", usable))};
  const int left = usable - static_cast<int>(ledger.cpus.size());
  if (request.cpus.value_or(0) > left)
    return Error{ErrorCode::kRefused, "E0412",
                 text_n("{} core was requested, but other jobs leave only {}",
                        "{} cores were requested, but other jobs leave only {}", *request.cpus,
                        *request.cpus, left),
                 left > 0 ? call_with(request, fmt::format("--cpus {}", left)) : "berth jobs"};
  placement.threads = std::max(1, request.cpus.value_or(left));
  if (request.cpu_list) {
    if (auto these = take_these(placement, request, snapshot, ledger); !these) return these;
  } else if (!placement.devices.empty()) {
    beside_devices(placement, request, snapshot, ledger);
  } else if (ledger.kept && (request.cpus || !ledger.cpus.empty())) {
    const auto count = static_cast<std::size_t>(placement.threads);
    const auto picked = pick({}, free_cpus(snapshot, ledger), 0, count);
    if (picked.size() == count) placement.cpus = model::show_cpu_list(picked);
  } else if (request.cpus && *request.cpus < usable) {
    placement.reasons.push_back(
        text_n("{} thread, not pinned to cores: another job may use the same cores",
               "{} threads, not pinned to cores: another job may use the same cores", *request.cpus,
               *request.cpus));
  }
  if (cpu.quota_cores && *cpu.quota_cores < cpu.cores_affinity && placement.threads == usable)
    placement.reasons.push_back(text_n(
        "{} thread: the quota is {:.1f} of {} cores", "{} threads: the quota is {:.1f} of {} cores",
        placement.threads, placement.threads, *cpu.quota_cores, cpu.cores_affinity));
  return Done{};
}

}  // namespace berth::policy
