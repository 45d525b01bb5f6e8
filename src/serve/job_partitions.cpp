#include "serve/job_partitions.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace berth::serve {

using model::Job;
using model::JobId;

namespace {

/// The ledger as it was before the job got its lease.
model::Ledger without(model::Ledger ledger, JobId id) {
  std::erase_if(ledger.holdings, [&](const model::Holding& one) { return one.job == id; });
  return ledger;
}

}  // namespace

void JobPartitions::see(Look& look) {
  if (look.mig && *look.mig)
    partitions_.see(*std::move(*look.mig));
  else if (look.mig)
    notice(look.mig->error().message, look.mig->error());
  partitions_.correct(look.snapshot);
}

/// Reports each problem only once, because a problem may last for a while.
void JobPartitions::notice(const std::string& sentence, const Error& error) {
  if (std::exchange(last_notice_, sentence) != sentence) calls_.notice(sentence, error);
}

void JobPartitions::offer() {
  broker_.set_mig(partitions_.rooms(broker_.snapshot(), broker_.ledger(), calls_.now().steady),
                  partitions_.made(broker_.snapshot()));
}

Status JobPartitions::save(const std::string& record) {
  auto written = calls_.save(record);
  if (written) saved_ = record;
  return written;
}

bool JobPartitions::has_partition(JobId id) {
  const std::string card = broker_.needs_partition(id);
  if (card.empty()) return true;
  // Another job may have taken the last place for a partition since the snapshot was taken.
  const auto rooms =
      partitions_.rooms(broker_.snapshot(), without(broker_.ledger(), id), calls_.now().steady);
  const auto room = std::find_if(rooms.begin(), rooms.end(),
                                 [&](const model::MigRoom& one) { return one.device == card; });
  const std::uint64_t need = broker_.job(id)->request.memory_bytes.value_or(0);
  if (room == rooms.end() || room->now_bytes < need) return false;
  const auto part =
      partitions_.make(id, card, need, [this](const std::string& record) { return save(record); });
  if (part) {
    broker_.set_partition(id, *part);
    if (fence_) fence_->see(broker_.snapshot());
    return true;
  }
  if (part.error().id == "E1064") {
    notice(text("job {} waits: {}", model::job_number(*broker_.job(id)), part.error().message),
           part.error());
    partitions_.close(card, calls_.now().steady);
  } else {
    calls_.fail(part.error());
  }
  return false;
}

void JobPartitions::make(std::vector<JobId>& started) {
  const auto is_without = [&](JobId id) {
    if (has_partition(id)) return false;
    broker_.put_back(id, calls_.now());
    return true;
  };
  if (std::erase_if(started, is_without) > 0 || unsaved_record()) offer();
}

bool JobPartitions::has_work() const {
  return partitions_.has_work(calls_.now().steady);
}

void JobPartitions::remove() {
  std::vector<Error> problems;
  const auto done = partitions_.remove_released(
      calls_.now().steady, [this](const std::string& record) { return save(record); }, problems);
  for (const Error& one : problems) calls_.notice(one.message, one);
  if (!done) calls_.fail(done.error());
  offer();
}

void JobPartitions::resume(std::string record, const std::vector<Job>& jobs, bool is_restarted) {
  saved_ = std::move(record);
  partitions_.resume(is_restarted ? "[]" : saved_);
  model::Snapshot seen = broker_.snapshot();
  partitions_.correct(seen);
  std::vector<JobId> running;
  for (const Job& job : jobs) {
    if (job.state != model::JobState::kRunning) continue;
    running.push_back(job.id);
    if (!is_restarted) partitions_.adopt(job, broker_.snapshot());
  }
  partitions_.release_all_but(running);
  offer();
}

std::optional<std::string> JobPartitions::unsaved_record() const {
  std::string record = partitions_.record();
  return record == saved_ ? std::nullopt : std::optional(std::move(record));
}

}  // namespace berth::serve
