// HangReport: tells the broker while the ranks of a job hang, so that it can raise an alert. The
// broker sees only how busy the GPUs are, and ranks that wait in a collective keep them busy.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <optional>
#include <string>

#include "client/lease.hpp"
#include "run/supervisor.hpp"

namespace berth::job {

class HangReport {
 public:
  using Clock = std::chrono::steady_clock;
  /// `supervision`: nullptr if the job has no ranks.
  HangReport(const run::Supervision* supervision, std::optional<client::Lease>& lease)
      : supervision_(supervision), lease_(lease) {}
  /// Looks at the supervisor's record once a second. While the ranks hang, tells the broker every
  /// 30 s, because a broker that restarts forgets about the hang.
  void look(Clock::time_point now);

 private:
  void read_record();

  const run::Supervision* supervision_;
  std::optional<client::Lease>& lease_;
  std::string hang_, told_;  // "": none
  struct stat seen_ = {};    // status of the record's file when the record was last read
  Clock::time_point next_{}, told_at_{}, hung_at_{};
};

}  // namespace berth::job
