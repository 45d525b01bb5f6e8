// The resources of a machine that are free for leases, as plain numbers, and whether a demand fits.
// Pure. place() chooses the best of several devices; the queue only needs to know whether and when
// a job fits.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace berth::policy {

/// What a job needs at the same time.
struct Demand {
  int devices = 1;                 // number of devices; 0: only the CPU
  std::uint64_t memory_bytes = 0;  // per device, shared with other leases; 0: the whole device
  int share_permille = 0;          // share of each device's time; 0: no share was requested
  int cpus = 0;
  std::vector<int> allowed =
      {};  // positions in Pool::devices that it may get, ascending; empty: any
  bool beside_strangers = false;  // accepts a device that foreign processes use
  int most_devices = 0;           // starts with up to this many, if they are free; 0: `devices`

  auto operator<=>(const Demand&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A device, or a partition that is leased as a unit.
struct Slot {
  std::uint64_t memory_bytes = 0;        // 0: not known, so the device can only be given as a whole
  std::uint64_t memory_taken_bytes = 0;  // memory that is leased or used by foreign processes
  int share_taken_permille = 0;
  int leases = 0;
  bool alone = false;   // one lease has the whole device
  bool usable = true;   // not broken, drained or lent
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
/// fit. Whole devices: the first free ones, up to `most_devices`. With memory, approximately as
/// choose(): first the unused device with the most free memory, then the others.
[[nodiscard]] std::optional<std::vector<int>> fit(const Pool& pool, const Demand& demand);
/// Whether the demand would fit if all leases and all foreign processes were gone.
[[nodiscard]] bool could_ever_fit(const Pool& pool, const Demand& demand);

void take(Pool& pool, const Demand& demand, const std::vector<int>& devices);
void give_back(Pool& pool, const Demand& demand, const std::vector<int>& devices);
/// The resources that are free in both `a` and `b`, which describe the same machine at two times.
[[nodiscard]] Pool common(const Pool& a, const Pool& b);

/// The number of devices that the demand counts as. It is 1 per whole device; for a shared device,
/// the fraction of its memory; for a job without a device, its fraction of the CPUs.
[[nodiscard]] double weight(const Pool& pool, const Demand& demand,
                            const std::vector<int>& devices);

}  // namespace berth::policy
