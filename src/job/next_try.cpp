#include "job/next_try.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "policy/candidates.hpp"
#include "policy/demand.hpp"
#include "policy/placement.hpp"

namespace berth::job {
namespace {

using model::Device;
using model::TryChange;
using model::TryClass;

constexpr std::uint64_t kMiB = 1ULL << 20;

const Device* device_of(int index, const model::Snapshot& snapshot) {
  const auto found = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                  [&](const Device& one) { return one.index == index; });
  return found == snapshot.devices.end() ? nullptr : &*found;
}

/// Describes a device that has become unusable, such as "GPU 2: lost". Returns "" if the device is
/// still usable.
std::string fault_of(int index, const model::Snapshot& before, const model::Snapshot& after) {
  const Device* was = device_of(index, before);
  const Device* is = device_of(index, after);
  if (was == nullptr || !answers(*was)) return {};
  if (is == nullptr) return fmt::format("GPU {}: lost", index);
  if (!answers(*is)) return fmt::format("GPU {}: {}", index, model::name(is->health));
  const auto errors = [](const Device& one) {
    return one.readings.ecc_uncorrected ? *one.readings.ecc_uncorrected : 0;
  };
  if (was->readings.ecc_uncorrected && errors(*is) > errors(*was))
    return fmt::format("GPU {}: {} uncorrectable ECC errors", index, errors(*is) - errors(*was));
  return {};
}

std::uint64_t used_of(const Device& device) {
  return device.readings.memory_used_bytes ? *device.readings.memory_used_bytes : 0;
}
std::uint64_t total_of(const Device& device) {
  return device.readings.memory_total_bytes ? *device.readings.memory_total_bytes : 0;
}
std::uint64_t room_of(const Device& device) {
  return total_of(device) - std::min(total_of(device), used_of(device));
}

/// The ids (policy::unit_id) of the devices that have failed.
std::vector<std::string> units_of(const std::vector<int>& devices, const model::Snapshot& after) {
  std::vector<std::string> units;
  for (const int index : devices)
    if (const Device* device = device_of(index, after))
      units.push_back(policy::unit_id(*device, nullptr));
  return units;
}

/// The devices whose memory is less than 1.1 times that of `failed`. The next try avoids them.
std::vector<std::string> without_more_room(const Device& failed, const model::Snapshot& after) {
  std::vector<std::string> units;
  for (const Device& one : after.devices)
    if (room_of(one) < room_of(failed) + room_of(failed) / 10)
      units.push_back(policy::unit_id(one, nullptr));
  return units;
}

model::Request request_without(model::Request request, const std::vector<std::string>& without) {
  request.without.insert(request.without.end(), without.begin(), without.end());
  return request;
}

}  // namespace

std::vector<int> correct_class(model::Try& last, const model::Snapshot& before,
                               const model::Snapshot& after, const std::vector<int>& devices,
                               std::uint64_t refusals) {
  if (last.kind == TryClass::kOk || last.kind == TryClass::kStopped) return {};
  std::vector<int> faulty;
  for (const int index : devices) {
    std::string fault = fault_of(index, before, after);
    if (fault.empty()) continue;
    if (faulty.empty()) last.evidence = std::move(fault);
    last.kind = TryClass::kDeviceFault;
    faulty.push_back(index);
  }
  const model::RankEnd* rank =
      last.ranks.size() == 1 ? &last.ranks.front() : model::first_failed(last);
  const bool has_traceback = rank != nullptr && !rank->traceback.empty();
  if (last.kind != TryClass::kUserError || refusals == 0 || has_traceback) return faulty;
  last.kind = TryClass::kOutOfMemory;
  last.evidence = fmt::format("the guard refused memory, refusals: {}", refusals);
  return faulty;
}

FailedTry failed_try(const model::Try& last, const std::vector<int>& placed,
                     std::uint64_t refusals) {
  FailedTry failed;
  failed.kind = last.kind;
  failed.met_own_limit = refusals > 0;
  // A MemoryError is about host memory. For a device's memory, frameworks raise OutOfMemoryError.
  static constexpr std::array<std::string_view, 4> kHost{"oom_kill", "bad_alloc",
                                                         "ArrayMemoryError", "DefaultCPUAllocator"};
  failed.lacked_host_memory = placed.empty() || last.evidence.starts_with("MemoryError") ||
                              std::any_of(kHost.begin(), kHost.end(), [&](std::string_view word) {
                                return last.evidence.find(word) != std::string::npos;
                              });
  const model::RankEnd* first = model::first_failed(last);
  failed.devices = first != nullptr && !first->devices.empty() ? first->devices : placed;
  return failed;
}

NextTry next_try(const FailedTry& failed, const model::Request& request,
                 const model::Snapshot& after, const model::Ledger& ledger) {
  if (failed.kind == TryClass::kDeviceFault) {
    if (!failed.may_move) return {};
    const auto without = units_of(failed.devices, after);
    // Check what the machine could offer if no other job ran. If other jobs hold these devices now,
    // this job waits for the devices.
    const auto could = policy::demand_of(request_without(request, without), after, {});
    if (!could || could->devices == 0 || without.empty()) return {};
    return {TryChange::kOtherDevice, without};
  }
  if (failed.kind != TryClass::kOutOfMemory) return {};
  const Device* device =
      failed.devices.empty() ? nullptr : device_of(failed.devices.front(), after);
  if (failed.lacked_host_memory || failed.met_own_limit || device == nullptr ||
      total_of(*device) == 0)
    return {TryChange::kSmallerBatch, {}};
  const auto without = without_more_room(*device, after);
  const auto now = policy::place(request_without(request, without), after, ledger);
  if (failed.may_move && now && !now->devices.empty()) return {TryChange::kOtherDevice, without};
  return {memory_of_others(failed.devices, after) > 0 ? TryChange::kWaitedForMemory
                                                      : TryChange::kSmallerBatch,
          {}};
}

std::uint64_t memory_of_others(const std::vector<int>& devices, const model::Snapshot& after) {
  std::uint64_t all = 0;
  for (const int index : devices) {
    const Device* device = device_of(index, after);
    if (device == nullptr) continue;
    const std::uint64_t used = used_of(*device);
    if (used >= std::max(512 * kMiB, total_of(*device) / 20)) all += used;
  }
  return all;
}

double smaller_scale(double scale) {
  return scale / 2;
}

double parse_scale(const std::string& value) {
  double scale = 1;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), scale);
  const bool is_whole = problem == std::errc() && end == value.data() + value.size();
  return is_whole && scale > 0 && scale <= 1 ? scale : 1;
}

std::string show_scale(double scale) {
  return fmt::format("{}", scale);
}

}  // namespace berth::job
