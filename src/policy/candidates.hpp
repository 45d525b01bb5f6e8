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
  bool busy = false;       // a process computes on the candidate, or a job has a lease on it
  bool strangers = false;  // a foreign process computes on the candidate
  /// Set if the broker could make a new partition on the device for this job.
  const model::MigRoom* room = nullptr;
  const model::Holding* lease = nullptr;    // the first lease on the candidate; nullptr: none
  std::optional<std::uint64_t> free_bytes;  // memory neither used nor promised; nullopt: unknown
  int share_taken_permille = 0;             // part of the device's time that was promised to jobs
  std::optional<std::uint64_t> capacity_bytes;  // free memory of the idle device; nullopt: unknown

  [[nodiscard]] Unit unit() const {
    return {device->index, partition == nullptr ? "" : partition->uuid};
  }
};

/// Returns every device and partition that Berth can give to a job: managed GPUs and TPUs. A GPU
/// with MIG enabled is replaced by its partitions; if it has none, it is listed with kNoPartition.
/// The GPU itself is also listed if the broker may make partitions on it (Ledger::rooms).
/// Partitions that Berth made are not listed, because each belongs to one job. The result is
/// ordered by Device::index, then by partition.
[[nodiscard]] std::vector<Candidate> candidates_of(const model::Snapshot& snapshot,
                                                   const model::Ledger& ledger);

/// Removes the candidates that the request excludes: devices in Request::without, and whole devices
/// if the job must have a MIG partition and names no device. If the machine has no partition and no
/// room for one, whole devices remain, and the caller reports what is missing. Only a job that must
/// have a MIG partition, and requests a memory size, can get a new partition.
void leave_out_excluded(std::vector<Candidate>& all, const model::Request& request);

/// Makes a candidate for a whole device of any kind.
[[nodiscard]] Candidate candidate_of(const model::Device& device, const model::Snapshot& snapshot,
                                     const model::Ledger& ledger);

/// The name of a device or partition in a lease: its uuid, or its PCI address if it has no uuid.
[[nodiscard]] std::string unit_id(const model::Device& device, const model::Partition* partition);

/// Finds the lease that the process's job has on this device or partition; nullptr if it has none.
[[nodiscard]] const model::Holding* holding_of(const model::DeviceProcess& process,
                                               const std::string& unit,
                                               const model::Ledger& ledger);

/// The name for people: "GPU 3", "TPU 0", "GPU 0, MIG 1g.10gb (MIG-4f2a…)".
[[nodiscard]] std::string label(const Candidate& candidate);
/// The processes that use the device, those with the most memory first: "zhao (pid 4121, python
/// train.py) 34.0 GiB". If there are more than `most`, the text ends with the number of the others.
/// "" if there are none.
[[nodiscard]] std::string users_of(const Candidate& candidate, const model::Snapshot& snapshot,
                                   std::size_t most = 2);
/// A note on how variables limit the choice: "CUDA_VISIBLE_DEVICES=0 was set and allows only GPU
/// 0"; "" if they exclude no candidate.
[[nodiscard]] std::string narrowed(const Visible& visible, const std::vector<Candidate>& all);
/// Returns the user's command with its options replaced by `options`, for hints: "berth run --cpu
/// …", "berth env --cpu".
[[nodiscard]] std::string call_with(const model::Request& request, std::string_view options);
/// The obstacle in words: "it is lost", "its compute mode is prohibited", …
[[nodiscard]] std::string sentence(Obstacle obstacle);

/// Chooses the best `count` candidates of `pool`, ordered by Device::index; empty if there are not
/// enough. All are of one vendor. If count > 1, all are whole devices, because CUDA shows a program
/// only one MIG partition. Criteria, most important first: free, healthy (then degraded, then
/// asleep), one model, one NUMA node, close on the bus, least memory in use, lowest index. With
/// `need_bytes` (--memory), the memory criterion differs. Unused devices with the most free memory
/// come first, then the least used devices; of MIG partitions, the smallest. No other function
/// chooses devices.
[[nodiscard]] std::vector<Candidate> choose(const std::vector<Candidate>& pool, int count,
                                            std::optional<std::uint64_t> need_bytes);

}  // namespace berth::policy
