// Candidates: what a job could be given, one by one, with what speaks for and against each; and the
// choice among them. Pure.
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

/// Why a device cannot be given to anyone, whoever asks.
enum class Obstacle : unsigned char {
  kNone,
  kLost,
  kNoAnswer,
  kUnreadable,
  kProhibited,
  kTaken,
  kNoPartition,
  kLeased  // to one job, alone
};

struct Candidate {
  const model::Device* device = nullptr;
  const model::Partition* partition = nullptr;  // nullptr: the whole device
  Obstacle obstacle = Obstacle::kNone;
  bool busy = false;                      // somebody computes on it, or has a lease
  bool strangers = false;                 // somebody without a lease computes on it
  const model::Holding* lease = nullptr;  // the first that a job has on it
  std::optional<std::uint64_t>
      free_bytes;  // beside what jobs were promised; nullopt: the device does not tell
  int share_taken_permille = 0;                 // of its time, by jobs
  std::optional<std::uint64_t> capacity_bytes;  // free when nobody uses it; nullopt: not known

  [[nodiscard]] Unit unit() const {
    return {device->index, partition == nullptr ? "" : partition->uuid};
  }
};

/// Every device and partition that Berth can give to a job: managed GPUs and TPUs; in place of a
/// GPU with MIG on, its partitions (or the GPU itself with kNoPartition, where it has none). In the
/// order of Device::index, then of the partitions.
[[nodiscard]] std::vector<Candidate> candidates_of(const model::Snapshot& snapshot,
                                                   const model::Ledger& ledger);

/// What a lease names: the partition's or the device's uuid, or its PCI address where it has none.
[[nodiscard]] std::string unit_id(const model::Device& device, const model::Partition* partition);

/// AMD's and Intel's processor graphics: usable, but not what anyone means by "a GPU" where a card
/// is.
[[nodiscard]] bool processor_graphics(const model::Device& device);

/// Of a job that was given this unit, or memory on it.
[[nodiscard]] const model::Holding* holding_of(const model::DeviceProcess& process,
                                               const std::string& unit,
                                               const model::Ledger& ledger);

/// Memory that no process here accounts for, as much as somebody's work would need.
[[nodiscard]] bool holds_unaccounted(const model::Device& device, const model::Snapshot& snapshot);

/// "GPU 3", "TPU 0", "GPU 0, MIG 1g.10gb (MIG-4f2a…)".
[[nodiscard]] std::string label(const Candidate& candidate);
/// "zhao (pid 4121, python train.py) 34.0 GiB": who uses it, largest first, at most `most` and how
/// many more; "" nobody.
[[nodiscard]] std::string users_of(const Candidate& candidate, const model::Snapshot& snapshot,
                                   std::size_t most = 2);
/// "CUDA_VISIBLE_DEVICES=0 was set: only GPU 0"; "" where that leaves all of them.
[[nodiscard]] std::string narrowed(const Visible& visible, const std::vector<Candidate>& all);
/// The user's call with other options, for hints: "berth run --cpu …", "berth env --cpu".
[[nodiscard]] std::string call_with(const model::Request& request, std::string_view options);
/// "it is lost", "its compute mode is prohibited", …
[[nodiscard]] std::string sentence(Obstacle obstacle);

/// The best `count` of `pool`, in the order of Device::index; empty where there are not so many
/// that go together: of one vendor, and whole devices where more than one is wanted (CUDA shows a
/// program one MIG partition). Healthy before degraded before asleep, then one model, one NUMA
/// node, neighbours on the bus, then the least used memory, then the index. With `need_bytes` the
/// best fit instead of the least used: what leaves the least memory over.
[[nodiscard]] std::vector<Candidate> choose(const std::vector<Candidate>& pool, int count,
                                            std::optional<std::uint64_t> need_bytes);

}  // namespace berth::policy
