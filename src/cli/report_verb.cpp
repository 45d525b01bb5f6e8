// `berth report`: what a job used, at its end or so far.
#include <unistd.h>

#include <chrono>

#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "output/jobs_text.hpp"

namespace berth::cli {

Result<int> run_report(const Context& context) {
  auto found = find_job(context, "report");
  if (!found) return std::move(found).error();
  const auto job = found->calls.job(found->id);
  if (!job) return job.error();
  if (context.json) {
    const auto answer = found->calls.call("GET", job_path(job->id), kAnswerSoon);
    if (!answer) return answer.error();
    context.out(answer->body);
    return 0;
  }
  output::JobsView view;
  view.own_uid = ::geteuid();
  view.unix_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  std::optional<model::Snapshot> snapshot;
  if (!job->grants.empty()) {
    auto seen = look(context, Processes::kUsers, false);
    if (!seen) return std::move(seen).error();
    snapshot = *std::move(seen);
    view.snapshot = &*snapshot;
  }
  context.out(output::job_report_text(*job, view, context.out_terminal));
  return 0;
}

}  // namespace berth::cli
