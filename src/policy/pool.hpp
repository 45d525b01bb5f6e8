// What a machine has left for leases, in numbers alone, and whether a demand fits. Pure. Which of
// several devices is the better one, place() knows; the queue only needs to know whether and when.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace berth::policy {

/// What a job must get at once.
struct Demand {
  int devices = 1;                 // 0: the CPU alone
  std::uint64_t memory_bytes = 0;  // on each of them, beside other leases; 0: the whole device
  int share_permille = 0;          // of the time of each of them; 0: none was asked for
  int cpus = 0;
  std::vector<int> allowed = {};  // positions in Pool::devices, ascending; empty: any
  bool beside_strangers = false;  // a device that somebody without a lease uses will do

  auto operator<=>(const Demand&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A device, or a partition that is leased like one.
struct Slot {
  std::uint64_t memory_bytes = 0;        // 0: not known, so it is only given whole
  std::uint64_t memory_taken_bytes = 0;  // leased, or used by somebody without a lease
  int share_taken_permille = 0;
  int leases = 0;
  bool alone = false;   // one lease has it all
  bool usable = true;   // neither broken nor drained nor lent
  bool lent = false;    // another broker gave it away: it comes back
  bool in_use = false;  // somebody without a lease computes on it

  bool operator==(const Slot&) const = default;
};

struct Pool {
  std::vector<Slot> devices;
  int cpus = 0;
  int cpus_taken = 0;

  bool operator==(const Pool&) const = default;
};

/// The positions of the devices that the demand would get, ascending; nullopt: it does not fit now.
/// Whole devices are the first free ones; memory goes where the least is left over.
[[nodiscard]] std::optional<std::vector<int>> fit(const Pool& pool, const Demand& demand);
/// Whether it would fit with every lease given back and everybody else gone.
[[nodiscard]] bool could_ever_fit(const Pool& pool, const Demand& demand);

void take(Pool& pool, const Demand& demand, const std::vector<int>& devices);
void give_back(Pool& pool, const Demand& demand, const std::vector<int>& devices);
/// What is left in both of two states of one machine.
[[nodiscard]] Pool common(const Pool& a, const Pool& b);

/// How many devices' worth it takes: 1 for a whole one, its part of the memory where it shares, and
/// where it has none its part of the processors.
[[nodiscard]] double weight(const Pool& pool, const Demand& demand,
                            const std::vector<int>& devices);

}  // namespace berth::policy
