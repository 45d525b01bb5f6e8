// Candidates: each device or partition that a job could get, with what matters for the choice; and
// the choice itself. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "policy/visible.hpp"

namespace berth::policy {

/// Why a device cannot be given to any job.
enum class Obstacle : unsigned char {
  kNone,
  kLost,
  kNoAnswer,
  kUnreadable,
  kProhibited,
  kTaken,
  kNoPartition,
  kPartitionsUnknown,
  kLeased  // to one job, exclusively
};

struct Candidate {
  const model::Device* device = nullptr;
  const model::Partition* partition = nullptr;  // nullptr: the whole device
  Obstacle obstacle = Obstacle::kNone;
  bool busy = false;                      // a process computes on it, or a job has a lease
  bool strangers = false;                 // a foreign process computes on it
  const model::Holding* lease = nullptr;  // the first one on it
  std::optional<std::uint64_t>
      free_bytes;                // not promised to jobs; nullopt: the device does not say
  int share_taken_permille = 0;  // of its time, by jobs
  std::optional<std::uint64_t> capacity_bytes;  // free when idle; nullopt: not known

  [[nodiscard]] Unit unit() const {
    return {device->index, partition == nullptr ? "" : partition->uuid};
  }
};

/// Every device and partition that Berth can give to a job: managed GPUs and TPUs. A GPU with MIG
/// enabled is replaced by its partitions; if it has none, it is listed with kNoPartition. Ordered
/// by Device::index, then by partition.
[[nodiscard]] std::vector<Candidate> candidates_of(const model::Snapshot& snapshot,
                                                   const model::Ledger& ledger);

/// The name of a unit in a lease: the uuid of the partition or device, or its PCI address if it has
/// no uuid.
[[nodiscard]] std::string unit_id(const model::Device& device, const model::Partition* partition);

/// AMD's and Intel's integrated graphics: usable, but with a card present "a GPU" means the card.
[[nodiscard]] bool processor_graphics(const model::Device& device);

/// The holding on this unit of the job that the process belongs to; nullptr if there is none.
[[nodiscard]] const model::Holding* holding_of(const model::DeviceProcess& process,
                                               const std::string& unit,
                                               const model::Ledger& ledger);

/// "GPU 3", "TPU 0", "GPU 0, MIG 1g.10gb (MIG-4f2a…)".
[[nodiscard]] std::string label(const Candidate& candidate);
/// "zhao (pid 4121, python train.py) 34.0 GiB": the device's users, largest first, at most `most`
/// and the number of the others; "" if there are none.
[[nodiscard]] std::string users_of(const Candidate& candidate, const model::Snapshot& snapshot,
                                   std::size_t most = 2);
/// "CUDA_VISIBLE_DEVICES=0 was set: only GPU 0"; "" if all candidates remain.
[[nodiscard]] std::string narrowed(const Visible& visible, const std::vector<Candidate>& all);
/// The user's command with other options, for hints: "berth run --cpu …", "berth env --cpu".
[[nodiscard]] std::string call_with(const model::Request& request, std::string_view options);
/// "it is lost", "its compute mode is prohibited", …
[[nodiscard]] std::string sentence(Obstacle obstacle);

/// The best `count` of `pool`, ordered by Device::index. They are of one vendor, and whole devices
/// if count > 1, because CUDA shows a program only one MIG partition. Empty if there are not
/// enough. Criteria, most important first: free, healthy (then degraded, then asleep), one model,
/// one NUMA node, close on the bus, least memory in use, lowest index. With `need_bytes`
/// (--memory), memory is judged differently: the most free memory among unused devices, otherwise
/// the least used device; of MIG partitions the smallest. This is the only place with this rule.
[[nodiscard]] std::vector<Candidate> choose(const std::vector<Candidate>& pool, int count,
                                            std::optional<std::uint64_t> need_bytes);

}  // namespace berth::policy
