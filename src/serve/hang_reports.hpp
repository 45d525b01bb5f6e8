// HangReports: jobs whose ranks hang, as their `berth run` reported. `berth run` repeats its report
// every 30 s.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "model/job.hpp"
#include "policy/queue.hpp"
#include "watch/job_hang.hpp"

namespace berth::serve {

class HangReports {
 public:
  /// `sentence`: where the ranks hang; "": they do not hang.
  void set(model::JobId id, std::string sentence, policy::Instant now) {
    if (sentence.empty())
      reports_.erase(id);
    else
      reports_[id] = {std::move(sentence), now};
  }

  /// The reports of the last two minutes about running jobs. `job` finds a job by its id, and
  /// returns nullptr if there is none.
  [[nodiscard]] watch::ReportedHangs recent(
      const std::function<const model::Job*(model::JobId)>& job, policy::Instant now) {
    constexpr std::chrono::minutes kKept(2);
    watch::ReportedHangs found;
    std::erase_if(reports_, [&](const auto& one) {
      const model::Job* of = job(one.first);
      if (of == nullptr || of->state != model::JobState::kRunning || now - one.second.at > kKept)
        return true;
      found[one.first] = {of->user, of->uid, one.second.sentence};
      return false;
    });
    return found;
  }

 private:
  struct Report {
    std::string sentence;
    policy::Instant at{0};
  };
  std::map<model::JobId, Report> reports_;
};

}  // namespace berth::serve
