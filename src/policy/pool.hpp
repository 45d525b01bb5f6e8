// The free resources of a machine as plain numbers, and whether a demand fits. Pure. place()
// chooses the best of several devices. The queue only needs to know whether and when a job fits.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace berth::policy {

/// What a job needs at the same time.
struct Demand {
  int devices = 1;                 // number of devices; 0: only the CPU
  std::uint64_t memory_bytes = 0;  // memory on each shared device; 0: whole devices are needed
  int share_permille = 0;          // share of each device's time; 0: no share was requested
  int cpus = 0;
  std::vector<int> allowed =
      {};  // positions in Pool::devices that the job may get, ascending; empty: any
  bool beside_strangers = false;  // the job accepts a device that foreign processes use
  int most_devices = 0;           // the job gets up to this many if they are free; 0: `devices`

  auto operator<=>(const Demand&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A device, or a partition that is leased as a unit.
struct Slot {
  std::uint64_t memory_bytes = 0;        // total; 0: unknown, so the device cannot be shared
  std::uint64_t memory_taken_bytes = 0;  // memory that is leased or used by foreign processes
  int share_taken_permille = 0;
  int leases = 0;
  bool alone = false;   // one lease has the whole device
  bool usable = true;   // neither broken nor drained nor lent
  bool lent = false;    // another broker has leased it, so it may become free again
  bool in_use = false;  // a foreign process computes on it

  bool operator==(const Slot&) const = default;
};

struct Pool {
  std::vector<Slot> devices;
  int cpus = 0;
  int cpus_taken = 0;

  bool operator==(const Pool&) const = default;
};

/// The positions of the devices that the demand would get now, ascending; nullopt if it does not
/// fit. Whole devices: the first free ones, up to `most_devices`. With memory, it comes close to
/// the order of choose(): first the unused device with the most free memory, then the others.
[[nodiscard]] std::optional<std::vector<int>> fit(const Pool& pool, const Demand& demand);
/// Whether the demand would fit if all leases and all foreign processes were gone.
[[nodiscard]] bool could_ever_fit(const Pool& pool, const Demand& demand);

void take(Pool& pool, const Demand& demand, const std::vector<int>& devices);
void give_back(Pool& pool, const Demand& demand, const std::vector<int>& devices);
/// Returns what is free in both pools `a` and `b`, which describe the same machine at two times.
[[nodiscard]] Pool common(const Pool& a, const Pool& b);

/// How many devices the demand counts as in fair share. A whole device counts as 1, and a shared
/// device as the fraction of its memory. A job without a device counts as its fraction of the CPUs.
[[nodiscard]] double weight(const Pool& pool, const Demand& demand,
                            const std::vector<int>& devices);

}  // namespace berth::policy
