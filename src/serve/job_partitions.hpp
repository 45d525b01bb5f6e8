// JobPartitions: the MIG partitions of running jobs. It tells the broker where a partition can be
// made. It makes a partition when a job starts on such a GPU, and removes it after the job has
// ended. The class Partitions keeps the list and calls the driver; JobPartitions connects it to the
// broker and the journal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "broker/broker.hpp"
#include "model/job.hpp"
#include "serve/fence.hpp"
#include "serve/observer.hpp"
#include "serve/partitions.hpp"

namespace berth::serve {

class JobPartitions {
 public:
  struct Calls {
    /// The monotonic time for the queue, and the wall-clock time for job records.
    std::function<broker::Now()> now;
    /// Writes the record of the partitions to the journal.
    Partitions::Keep save;
    /// Reports a problem with MIG to users and to the log.
    std::function<void(const std::string& sentence, const Error& error)> notice;
    /// Called if a write to the journal has failed.
    std::function<void(const Error& error)> fail;
  };

  /// `broker` and `fence` must outlive this object.
  JobPartitions(Partitions partitions, broker::Broker& broker, std::optional<Fence>& fence,
                Calls calls)
      : partitions_(std::move(partitions)),
        broker_(broker),
        fence_(fence),
        calls_(std::move(calls)) {}

  /// Stores what the driver reported about MIG. If partitions were made after the snapshot was
  /// started, adds them to the snapshot.
  void see(Look& look);
  /// Tells the broker where partitions can be made.
  void offer();
  /// Makes the partitions that these jobs need. A job that gets no partition waits again and is
  /// removed from `started`.
  void make(std::vector<model::JobId>& started);
  /// Call it when the job has ended; remove() then removes its partition.
  void release(model::JobId job) { partitions_.release(job); }
  /// Whether remove() has something to do now.
  [[nodiscard]] bool has_work() const;
  /// Removes the partitions of ended jobs.
  void remove();
  /// Takes over the partitions that Berth created before it was restarted, from the record in the
  /// journal. If the machine was restarted, forgets them: they no longer exist, and other programs
  /// may have created identical ones.
  void resume(std::string record, const std::vector<model::Job>& jobs, bool is_restarted);

  /// The record, if the journal contains only an older version of it; nullopt if not.
  [[nodiscard]] std::optional<std::string> unsaved_record() const;
  /// Call it when the journal contains this record.
  void saved(std::string record) { saved_ = std::move(record); }

 private:
  /// Whether the job has the partition that it needs, or needs none.
  [[nodiscard]] bool has_partition(model::JobId job);
  void notice(const std::string& sentence, const Error& error);
  [[nodiscard]] Status save(const std::string& record);

  Partitions partitions_;
  broker::Broker& broker_;
  std::optional<Fence>& fence_;
  Calls calls_;
  std::string saved_ = "[]";  // the record in the journal
  std::string last_notice_;
};

}  // namespace berth::serve
