#include "model/job.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace berth::model {
namespace {

constexpr std::array<std::string_view, 7> kStates{"waiting", "held",      "running", "done",
                                                  "failed",  "cancelled", "lost"};

// the exit code of a job that Berth ended: that of a process killed by SIGTERM (15)
constexpr int kAsIfBySigterm = 128 + 15;

constexpr std::array<std::pair<int, std::string_view>, 6> kWarnings{{{SIGUSR1, "USR1"},
                                                                     {SIGUSR2, "USR2"},
                                                                     {SIGHUP, "HUP"},
                                                                     {SIGINT, "INT"},
                                                                     {SIGQUIT, "QUIT"},
                                                                     {SIGTERM, "TERM"}}};

}  // namespace

bool fits(const Warning& warning, std::optional<std::chrono::milliseconds> time_limit) {
  return time_limit ? warning.before < *time_limit : warning.at_any_end;
}

std::string_view warning_name(int signal) {
  for (const auto& [number, name] : kWarnings)
    if (number == signal) return name;
  return {};
}

std::optional<int> warning_signal(std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (const auto& [number, known] : kWarnings)
    if (known == name) return number;
  return std::nullopt;
}

std::string_view name(JobState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

std::optional<JobState> job_state(std::string_view name) {
  for (std::size_t i = 0; i < kStates.size(); ++i)
    if (kStates[i] == name) return static_cast<JobState>(i);
  return std::nullopt;
}

std::string job_number(const Job& job) {
  return job.task ? std::to_string(job.task->array) + "_" + std::to_string(job.task->index)
                  : std::to_string(job.id);
}

Outcome outcome_of(const ToldToEnd& how, const std::optional<Outcome>& own) {
  Outcome outcome;
  outcome.kind =
      how.state == JobState::kCancelled ? OutcomeClass::kCancelled : OutcomeClass::kTimeLimit;
  outcome.exit_code = kAsIfBySigterm;
  if (own) outcome.signal = own->signal;
  return outcome;
}

void take_back(Job& job, JobState state) {
  job.state = state;
  job.started_unix_milliseconds.reset();
  job.told_to_end.reset();
  job.warned = false;
  job.grants.clear();
  job.cpus.clear();
  job.affinity.clear();
  job.owners.clear();
  job.group.clear();
  job.access = Access::kVariable;
  job.refusals = 0;
  job.last_outcome.reset();
  job.next_try.reset();
  job.pause = std::chrono::milliseconds(0);
}

void wait_again(Job& job, const std::optional<Outcome>& outcome,
                std::int64_t now_unix_milliseconds) {
  const auto next = std::exchange(job.next_try, std::nullopt);
  const std::int64_t ran =
      now_unix_milliseconds - job.started_unix_milliseconds.value_or(now_unix_milliseconds);
  take_back(job, JobState::kWaiting);
  job.requeued_unix_milliseconds = now_unix_milliseconds;
  if (!next) {
    ++job.preemptions;
    job.last_outcome =
        Outcome{OutcomeClass::kPreempted, kAsIfBySigterm, outcome ? outcome->signal : std::nullopt};
    return;
  }
  ++job.retries;
  job.pause = next->pause;
  job.ran_before += std::chrono::milliseconds(std::max<std::int64_t>(0, ran));
  job.last_outcome = outcome;
  for (const std::string& unit : next->without)
    if (std::find(job.avoids.begin(), job.avoids.end(), unit) == job.avoids.end())
      job.avoids.push_back(unit);
}

std::optional<std::chrono::milliseconds> time_left(const Job& job) {
  if (!job.time_limit) return std::nullopt;
  return std::max(std::chrono::milliseconds(1), *job.time_limit - job.ran_before);
}

}  // namespace berth::model
