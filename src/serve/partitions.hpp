// Partitions: makes a MIG partition for a job that needs one, and removes it when the job has ended
// ([mig] in berth.toml). Each step is in the journal before the driver is called. So after a crash
// the next broker removes what no running job has, and it touches nothing that Berth did not make.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"
#include "model/mig.hpp"
#include "model/snapshot.hpp"
#include "policy/queue.hpp"

namespace berth::serve {

struct MigSettings {
  bool manages = false;      // make partitions for jobs
  bool beside_jobs = false;  // also on a GPU where other jobs have partitions that Berth made
};

class Partitions {
 public:
  /// Writes record() to the journal.
  using Keep = std::function<Status(const std::string& record)>;

  Partitions(std::string library, MigSettings settings)
      : library_(std::move(library)), settings_(settings) {}

  [[nodiscard]] bool manages() const { return settings_.manages; }
  /// Stores what the driver reported about MIG with a snapshot.
  void see(std::vector<model::MigCard> cards) { cards_ = std::move(cards); }
  /// Reads the record of an earlier broker. A malformed record counts as empty.
  void resume(std::string_view record);
  [[nodiscard]] std::string record() const;
  /// Adds the partition of this job to the record, if it is missing there because the journal was
  /// damaged.
  void adopt(const model::Job& job, const model::Snapshot& snapshot);

  [[nodiscard]] std::vector<model::MigRoom> rooms(const model::Snapshot& snapshot,
                                                  const model::Ledger& ledger,
                                                  policy::Instant now) const;
  /// The uuids of partitions that Berth made. Includes partitions that are to be removed, and
  /// removed ones that the snapshot still shows. A partition may lack its uuid if its broker was
  /// killed.
  [[nodiscard]] std::vector<std::string> made(const model::Snapshot& snapshot) const;
  /// Adds the partitions that the snapshot lacks because it was started before they were made.
  void correct(model::Snapshot& snapshot);

  /// Makes a partition of at least this size. If a step fails, removes what the earlier steps have
  /// made. Fails with kUnavailable (E1064) and with the errors of `keep`.
  [[nodiscard]] Result<model::Partition> make(model::JobId job, const std::string& card,
                                              std::uint64_t need_bytes, const Keep& keep);
  /// Makes no more partitions on this card for a while.
  void close(const std::string& card, policy::Instant now);
  /// Call it when the job has ended. Its partition is removed after the journal has recorded this.
  void release(model::JobId job);
  /// Releases the partitions of jobs that do not run.
  void release_all_but(const std::vector<model::JobId>& running);
  [[nodiscard]] bool has_work(policy::Instant now) const;
  /// Removes released partitions. Fails with the errors of `keep`. If the driver refuses, adds a
  /// problem and tries again later.
  [[nodiscard]] Status remove_released(policy::Instant now, const Keep& keep,
                                       std::vector<Error>& problems);

 private:
  [[nodiscard]] Result<model::Partition> carry_out(model::MadePartition& made, const Keep& keep);
  [[nodiscard]] Status remove(model::MadePartition& made, const Keep& keep, bool& is_gone);
  /// nullopt: MIG is off on this GPU, or the GPU is gone.
  [[nodiscard]] Result<std::optional<model::MigCard>> card_now(const std::string& uuid);
  void forget(std::size_t at);

  std::string library_;
  MigSettings settings_;
  std::vector<model::MigCard> cards_;
  std::vector<model::MadePartition> all_;
  std::set<std::string> removed_;  // uuids of removed partitions that snapshots may still show
  /// GPUs on which a partition could not be made, and until when Berth does not try again.
  std::map<std::string, policy::Instant> closed_until_;
  policy::Instant next_try_{0};
  int tries_ = 0;
};

}  // namespace berth::serve
