// `berth report JOB`: what a job used, from the broker's record.
#include <algorithm>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "output/jobs_text.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Job;
using std::chrono::milliseconds;

struct Row {
  std::string_view label;
  std::string says;
};

std::string head_of(const Job& job) {
  const std::string number = job_number(job);
  const std::string name = job.name.empty() ? "" : printable(job.name);
  const std::string how =
      model::has_ended(job.state) ? ending_words(job) : std::string(state_word(job.state));
  return name.empty() ? text("job {}: {}", number, how)
                      : text("job {} ({}): {}", number, name, how);
}

std::string cpu_words(const Job& job, milliseconds ran) {
  const std::string time = show_duration(*job.usage.cpu);
  if (ran.count() <= 0) return time;
  return text("{} ({} cores on average)", time,
              fmt::format("{:.1f}", static_cast<double>(job.usage.cpu->count()) /
                                        static_cast<double>(ran.count())));
}

/// For a job that waits again: how it ended after its last start.
std::string last_words(const Job& job, std::int64_t now) {
  Job last = job;
  last.state = job.last_outcome->exit_code == 0 ? model::JobState::kDone : model::JobState::kFailed;
  last.outcome = job.last_outcome;
  const std::string how = job.last_outcome->kind == model::OutcomeClass::kPreempted
                              ? text("preempted by another job")
                              : ending_words(last);
  return text("{}; it has been waiting again since {}", how,
              clock_words(job.requeued_unix_milliseconds.value_or(now), now));
}

std::vector<Row> rows_of(const Job& job, const JobsView& view) {
  std::vector<Row> rows;
  const std::int64_t now = view.unix_milliseconds;
  const auto started = job.started_unix_milliseconds;
  const auto ended = job.ended_unix_milliseconds;
  if (job.last_outcome) rows.push_back({tr("last start"), last_words(job, now)});
  if (!job.why.empty()) rows.push_back({tr("because"), printable(job.why)});
  if (!job.ended_by.empty()) rows.push_back({tr("ended by"), printable(job.ended_by)});
  const milliseconds waited((started ? *started : ended.value_or(now)) -
                            job.submitted_unix_milliseconds);
  if (job.retries > 0)
    rows.push_back({tr("retries"), text_n("it went back to the queue {} time for another try",
                                          "it went back to the queue {} times for another try",
                                          job.retries, job.retries)});
  rows.push_back({tr("waited"), show_duration(std::max(waited, milliseconds(0)))});
  if (started) {
    const milliseconds ran(std::max<std::int64_t>(0, ended.value_or(now) - *started));
    rows.push_back(
        {tr("ran"), text("{} on {}", show_duration(ran), has_words(job, view.snapshot))});
    if (!job.grants.empty())
      rows.push_back(
          {tr("GPU time"), show_duration(ran * static_cast<std::int64_t>(job.grants.size()))});
    const std::string unknown = ended ? text("not known") : text("known when the job has ended");
    rows.push_back({tr("CPU time"), job.usage.cpu ? cpu_words(job, ran) : unknown});
    rows.push_back({tr("peak memory"), job.usage.peak_memory_bytes
                                           ? show_bytes(*job.usage.peak_memory_bytes)
                                           : unknown});
  }
  std::string command;
  for (const std::string& word : job.command)
    command += (command.empty() ? "" : " ") + shell_word(printable(word));
  if (!command.empty()) rows.push_back({tr("command"), command});
  if (!job.log.empty() && (started || job.last_outcome))
    rows.push_back({tr("output"), fmt::format("berth logs {}", job_number(job))});
  return rows;
}

}  // namespace

std::string job_report_text(const Job& job, const JobsView& view, const Terminal& terminal) {
  const auto rows = rows_of(job, view);
  int width = 0;
  for (const Row& row : rows) width = std::max(width, display_width(row.label));
  std::string out = head_of(job) + "\n";
  for (const Row& row : rows)
    out += terminal.paint(Style::kDim, pad(row.label, width) + "   ") + row.says + "\n";
  return terminal.spell(out);
}

}  // namespace berth::output
