// What a machine has left for leases, as plain numbers, and whether a demand fits. Pure. place()
// knows which of several devices is best; the queue only needs to know whether and when a job fits.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace berth::policy {

/// What a job needs at once.
struct Demand {
  int devices = 1;                 // 0: the CPU only
  std::uint64_t memory_bytes = 0;  // per device, shared with other leases; 0: the whole device
  int share_permille = 0;          // of each device's time; 0: no share requested
  int cpus = 0;
  std::vector<int> allowed = {};  // positions in Pool::devices, ascending; empty: any
  bool beside_strangers = false;  // accepts a device that foreign processes use

  auto operator<=>(const Demand&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A device, or a partition leased as a unit.
struct Slot {
  std::uint64_t memory_bytes = 0;        // 0: not known, so only given as a whole
  std::uint64_t memory_taken_bytes = 0;  // leased, or used by foreign processes
  int share_taken_permille = 0;
  int leases = 0;
  bool alone = false;   // one lease has the whole device
  bool usable = true;   // not broken, drained or lent
  bool lent = false;    // another broker leased it; it will come back
  bool in_use = false;  // a foreign process computes on it

  bool operator==(const Slot&) const = default;
};

struct Pool {
  std::vector<Slot> devices;
  int cpus = 0;
  int cpus_taken = 0;

  bool operator==(const Pool&) const = default;
};

/// The positions of the devices that the demand would get, ascending; nullopt: it does not fit now.
/// Whole devices: the first free ones. Memory: as choose() places it, as far as these numbers
/// allow: the most free memory among unused devices, then among the others.
[[nodiscard]] std::optional<std::vector<int>> fit(const Pool& pool, const Demand& demand);
/// Whether it would fit if all leases and all foreign processes were gone.
[[nodiscard]] bool could_ever_fit(const Pool& pool, const Demand& demand);

void take(Pool& pool, const Demand& demand, const std::vector<int>& devices);
void give_back(Pool& pool, const Demand& demand, const std::vector<int>& devices);
/// The resources that are free in both states of one machine.
[[nodiscard]] Pool common(const Pool& a, const Pool& b);

/// How many devices the demand is worth: 1 per whole device, its fraction of the memory if shared,
/// or its fraction of the processors without a device.
[[nodiscard]] double weight(const Pool& pool, const Demand& demand,
                            const std::vector<int>& devices);

}  // namespace berth::policy
