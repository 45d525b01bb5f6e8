// `berth report`: what a job used until its end, or until now if it is running.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "output/jobs_text.hpp"
#include "output/report.hpp"

namespace berth::cli {
namespace {

using Ordered = nlohmann::ordered_json;

/// The text of output::stored_report for this job; "" if there is none. For a job that is queued
/// again, this is the report of its last start. The report is written just after the job's end, so
/// this function waits briefly for it.
std::string stored_report_of(JobCalls& calls, const model::Job& job, std::int64_t now) {
  constexpr std::int64_t kShortest = 500, kJustEnded = 3000;
  const bool is_over = model::has_ended(job.state) && job.started_unix_milliseconds;
  if (!is_over && !job.last_outcome) return "";
  const std::int64_t ended =
      (is_over ? job.ended_unix_milliseconds : job.requeued_unix_milliseconds).value_or(now);
  const std::int64_t ran = ended - job.started_unix_milliseconds.value_or(0);
  const bool may_come = job.queued && ran >= kShortest && now - ended < kJustEnded;
  int left = may_come ? 20 : 1;
  for (; left > 0; --left) {
    const auto answer = calls.call("GET", job_path(job.id, "/report"), kAnswerSoon);
    if (answer && answer->status == 200) return answer->body;
    if (left > 1) ::poll(nullptr, 0, 50);
  }
  return "";
}

}  // namespace

Result<int> run_report(const Context& context) {
  auto found = find_job(context, "report");
  if (!found) return std::move(found).error();
  const auto job = found->calls.job(found->id);
  if (!job) return job.error();
  const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  if (context.json) {
    const auto answer = found->calls.call("GET", job_path(job->id), kAnswerSoon);
    if (!answer) return answer.error();
    Ordered document = Ordered::parse(answer->body, nullptr, false);
    if (!document.is_object()) {
      context.out(answer->body);
      return 0;
    }
    const Ordered stored =
        Ordered::parse(stored_report_of(found->calls, *job, now), nullptr, false);
    document["report"] = stored.is_object() ? stored.value("report", Ordered()) : Ordered();
    document["waits_again"] = job->last_outcome.has_value();
    context.out(document.dump() + "\n");
    return 0;
  }
  output::JobsView view;
  view.own_uid = ::geteuid();
  view.unix_milliseconds = now;
  std::optional<model::Snapshot> snapshot;
  if (!job->grants.empty()) {
    auto seen = look(context, Processes::kUsers, false);
    if (!seen) return std::move(seen).error();
    snapshot = *std::move(seen);
    view.snapshot = &*snapshot;
  }
  const std::string more = output::stored_report_text(stored_report_of(found->calls, *job, now));
  const std::string head =
      job->last_outcome ? text("report of its last start:") + "\n" : std::string();
  context.out(output::job_report_text(*job, view, context.out_terminal) +
              (more.empty() ? "" : "\n" + context.out_terminal.spell(head + more)));
  return 0;
}

}  // namespace berth::cli
