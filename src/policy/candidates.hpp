// Candidates are the devices and partitions that a job could get, with the properties that matter
// for the choice. choose() makes the choice. Pure.
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
  kLeased  // leased exclusively to one job
};

struct Candidate {
  const model::Device* device = nullptr;
  const model::Partition* partition = nullptr;  // nullptr: the candidate is the whole device
  Obstacle obstacle = Obstacle::kNone;
  bool busy = false;       // a process computes on it, or a job has a lease
  bool strangers = false;  // a foreign process computes on it
  /// If set, a partition can be made on the device for the job.
  const model::MigRoom* room = nullptr;
  const model::Holding* lease = nullptr;    // the first lease on it; nullptr: none
  std::optional<std::uint64_t> free_bytes;  // memory that is neither in use nor promised to jobs;
                                            // nullopt: the device does not report it
  int share_taken_permille = 0;             // share of the device's time that jobs have
  std::optional<std::uint64_t>
      capacity_bytes;  // free memory when the device is idle; nullopt: not known

  [[nodiscard]] Unit unit() const {
    return {device->index, partition == nullptr ? "" : partition->uuid};
  }
};

/// Every device and partition that Berth can give to a job: managed GPUs and TPUs. A GPU with MIG
/// enabled is replaced by its partitions; if it has none, it is listed with kNoPartition. The
/// GPU itself is also listed if the broker may make partitions on it (Ledger::rooms). Partitions
/// that Berth made are not listed, because each belongs to one job. Ordered by Device::index, then
/// by partition.
[[nodiscard]] std::vector<Candidate> candidates_of(const model::Snapshot& snapshot,
                                                   const model::Ledger& ledger);

/// Leaves out what the request excludes: the devices in Request::without, and whole devices if the
/// job must have a MIG partition and names no device. If the machine has no partition and no room
/// for one, whole devices remain, and the caller reports what is missing. Only a job that must have
/// a MIG partition and requests a memory size can use the rooms for new partitions.
void leave_out_excluded(std::vector<Candidate>& all, const model::Request& request);

/// A whole device as a candidate, whatever its kind.
[[nodiscard]] Candidate candidate_of(const model::Device& device, const model::Snapshot& snapshot,
                                     const model::Ledger& ledger);

/// The name of a unit in a lease: the uuid of the partition or device, or its PCI address if it has
/// no uuid.
[[nodiscard]] std::string unit_id(const model::Device& device, const model::Partition* partition);

/// The holding on this unit that belongs to the process's job; nullptr if there is none.
[[nodiscard]] const model::Holding* holding_of(const model::DeviceProcess& process,
                                               const std::string& unit,
                                               const model::Ledger& ledger);

/// The name for people: "GPU 3", "TPU 0", "GPU 0, MIG 1g.10gb (MIG-4f2a…)".
[[nodiscard]] std::string label(const Candidate& candidate);
/// The processes that use the device, largest first: "zhao (pid 4121, python train.py) 34.0 GiB".
/// Lists at most `most` of them, and how many more there are. "" if there are none.
[[nodiscard]] std::string users_of(const Candidate& candidate, const model::Snapshot& snapshot,
                                   std::size_t most = 2);
/// A note on how variables limit the choice: "CUDA_VISIBLE_DEVICES=0 was set and allows only GPU
/// 0"; "" if they exclude no candidate.
[[nodiscard]] std::string narrowed(const Visible& visible, const std::vector<Candidate>& all);
/// The user's command with these options instead of its own, for hints: "berth run --cpu …", "berth
/// env --cpu".
[[nodiscard]] std::string call_with(const model::Request& request, std::string_view options);
/// The obstacle in words: "it is lost", "its compute mode is prohibited", …
[[nodiscard]] std::string sentence(Obstacle obstacle);

/// The best `count` of `pool`, ordered by Device::index. All are of one vendor. If count > 1, all
/// are whole devices, because CUDA shows a program only one MIG partition. Empty if there are not
/// enough. Criteria, most important first: free, healthy (then degraded, then asleep), one model,
/// one NUMA node, close on the bus, least memory in use, lowest index. With `need_bytes`
/// (--memory), the criterion of memory differs: the most free memory among unused devices,
/// otherwise the least used device, and among MIG partitions the smallest. No other function
/// chooses devices.
[[nodiscard]] std::vector<Candidate> choose(const std::vector<Candidate>& pool, int count,
                                            std::optional<std::uint64_t> need_bytes);

}  // namespace berth::policy
