#include "job/hang_report.hpp"

#include <chrono>

#include "run/tries_record.hpp"

namespace berth::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Time limit of a call to the broker, because this process also has to forward signals.
constexpr milliseconds kAtMost(500);
constexpr seconds kAgain(30);
/// Report the end of a hang only after this time, because ranks that hang may use the processor for
/// a moment.
constexpr seconds kOver(30);

}  // namespace

void HangReport::read_record() {
  struct stat now = {};
  if (::fstat(supervision_->record.get(), &now) != 0) return;
  if (now.st_size == seen_.st_size && now.st_mtim.tv_sec == seen_.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec)
    return;
  seen_ = now;
  const model::Tries tries = run::read_record(supervision_->record);
  const model::HangSeen* const hang = model::hang_now(tries);
  hang_ = hang == nullptr ? "" : model::hang_sentence(*hang);
}

void HangReport::look(Clock::time_point now) {
  if (supervision_ == nullptr || !supervision_->has_ranks || !lease_ || now < next_) return;
  next_ = now + seconds(1);
  read_record();
  if (!hang_.empty()) hung_at_ = now;
  const bool is_told = hang_ == told_;
  if (hang_.empty() ? is_told || now - hung_at_ < kOver : is_told && now - told_at_ < kAgain)
    return;
  told_at_ = now;
  if (lease_->report_hang(hang_, kAtMost)) told_ = hang_;
}

}  // namespace berth::job
