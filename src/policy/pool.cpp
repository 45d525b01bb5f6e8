#include "policy/pool.hpp"

#include <algorithm>
#include <tuple>

#include "base/result.hpp"
#include "model/run.hpp"

namespace berth::policy {
namespace {

std::uint64_t left(const Slot& slot) {
  return slot.memory_bytes > slot.memory_taken_bytes ? slot.memory_bytes - slot.memory_taken_bytes
                                                     : 0;
}

bool is_used(const Slot& slot) {
  return slot.in_use || slot.leases > 0;
}

bool free_for(const Slot& slot, const Demand& demand) {
  if (!slot.usable || slot.alone) return false;
  if (demand.memory_bytes == 0)
    return slot.leases == 0 && (!slot.in_use || demand.beside_strangers);
  return left(slot) >= demand.memory_bytes &&
         slot.share_taken_permille + demand.share_permille <= model::kWholePermille;
}

std::vector<int> possible(const Pool& pool, const Demand& demand) {
  std::vector<int> out;
  for (int at = 0; at < static_cast<int>(pool.devices.size()); ++at) {
    const bool allowed = demand.allowed.empty() ||
                         std::binary_search(demand.allowed.begin(), demand.allowed.end(), at);
    if (allowed && free_for(pool.devices[static_cast<std::size_t>(at)], demand)) out.push_back(at);
  }
  return out;
}

}  // namespace

std::optional<std::vector<int>> fit(const Pool& pool, const Demand& demand) {
  if (demand.cpus > pool.cpus - pool.cpus_taken) return std::nullopt;
  if (demand.devices == 0) return std::vector<int>{};
  std::vector<int> found = possible(pool, demand);
  const auto wanted = static_cast<std::size_t>(demand.devices);
  if (found.size() < wanted) return std::nullopt;
  if (demand.memory_bytes != 0)
    std::stable_sort(found.begin(), found.end(), [&](int a, int b) {
      const Slot& one = pool.devices[static_cast<std::size_t>(a)];
      const Slot& other = pool.devices[static_cast<std::size_t>(b)];
      return std::tuple(is_used(one), left(other)) < std::tuple(is_used(other), left(one));
    });
  found.resize(std::clamp(static_cast<std::size_t>(demand.most_devices), wanted,
                          std::max(wanted, found.size())));
  std::sort(found.begin(), found.end());
  return found;
}

bool could_ever_fit(const Pool& pool, const Demand& demand) {
  Pool empty = pool;
  empty.cpus_taken = 0;
  for (Slot& slot : empty.devices)
    slot = {.memory_bytes = slot.memory_bytes, .usable = slot.usable || slot.lent};
  return fit(empty, demand).has_value();
}

void take(Pool& pool, const Demand& demand, const std::vector<int>& devices) {
  pool.cpus_taken += demand.cpus;
  for (const int at : devices) {
    Slot& slot = pool.devices.at(static_cast<std::size_t>(at));
    ++slot.leases;
    slot.memory_taken_bytes += demand.memory_bytes;
    slot.share_taken_permille += demand.share_permille;
    if (demand.memory_bytes == 0) slot.alone = true;
  }
}

void give_back(Pool& pool, const Demand& demand, const std::vector<int>& devices) {
  pool.cpus_taken -= demand.cpus;
  for (const int at : devices) {
    Slot& slot = pool.devices.at(static_cast<std::size_t>(at));
    BERTH_CHECK(slot.leases > 0 && slot.memory_taken_bytes >= demand.memory_bytes);
    --slot.leases;
    slot.memory_taken_bytes -= demand.memory_bytes;
    slot.share_taken_permille -= demand.share_permille;
    if (demand.memory_bytes == 0) slot.alone = false;
  }
}

Pool common(const Pool& a, const Pool& b) {
  BERTH_CHECK(a.devices.size() == b.devices.size());
  Pool out = a;
  out.cpus_taken = std::max(a.cpus_taken, b.cpus_taken);
  for (std::size_t at = 0; at < out.devices.size(); ++at) {
    Slot& slot = out.devices[at];
    const Slot& other = b.devices[at];
    slot.memory_taken_bytes = std::max(slot.memory_taken_bytes, other.memory_taken_bytes);
    slot.share_taken_permille = std::max(slot.share_taken_permille, other.share_taken_permille);
    slot.leases = std::max(slot.leases, other.leases);
    slot.alone = slot.alone || other.alone;
    slot.usable = slot.usable && other.usable;
    slot.in_use = slot.in_use || other.in_use;
  }
  return out;
}

double weight(const Pool& pool, const Demand& demand, const std::vector<int>& devices) {
  if (devices.empty()) return pool.cpus > 0 ? static_cast<double>(demand.cpus) / pool.cpus : 0;
  if (demand.memory_bytes == 0) return static_cast<double>(devices.size());
  double sum = 0;
  for (const int at : devices) {
    const auto has = pool.devices.at(static_cast<std::size_t>(at)).memory_bytes;
    sum += has == 0
               ? 1.0
               : std::min(1.0, static_cast<double>(demand.memory_bytes) / static_cast<double>(has));
  }
  return sum;
}

}  // namespace berth::policy
