#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "output/jobs_text.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Job;
using model::JobId;
using model::JobState;

constexpr std::size_t kMostHolders = 8, kMostBefore = 5;

const Job* find_job(const JobStory& story, JobId id) {
  for (const Job& job : story.others)
    if (job.id == id) return &job;
  return nullptr;
}

/// The number to show for a job, such as "12" or "7_3".
std::string number_of(const JobStory& story, JobId id) {
  const Job* job = find_job(story, id);
  return job == nullptr ? std::to_string(id) : job_number(*job);
}

/// A job in words: "job 118 (lin)".
std::string job_words(const JobStory& story, JobId id) {
  const Job* job = find_job(story, id);
  return job == nullptr || job->user.empty()
             ? text("job {}", id)
             : text("job {} ({})", job_number(*job), printable(job->user));
}

/// Labelled lines below the answer. The texts are aligned to the widest label.
class Lines {
 public:
  /// Adds a line. With `may_fold` false, it is not wrapped: for commands, which the user may paste.
  void add(std::string_view label, std::string says, bool may_fold = true) {
    rows_.push_back({std::string(label), std::move(says), may_fold});
  }
  [[nodiscard]] std::string render(const Terminal& terminal) const {
    int width = 0;
    for (const Row& row : rows_) width = std::max(width, display_width(row.label));
    const int room = std::max(40, terminal.width - width - 3);
    std::string out, last;
    for (const Row& row : rows_) {
      const std::string shown = pad(row.label == last ? "" : row.label, width) + "   ";
      last = row.label;
      std::string begin = terminal.paint(Style::kDim, shown);
      for (const std::string& line :
           row.may_fold ? wrap(row.says, room) : std::vector<std::string>{row.says}) {
        out += std::exchange(begin, std::string(static_cast<std::size_t>(width) + 3, ' '));
        out += line + "\n";
      }
    }
    return out;
  }

 private:
  struct Row {
    std::string label, says;
    bool may_fold = true;
  };
  std::vector<Row> rows_;
};

/// Joins words with commas.
std::string listed(const std::vector<std::string>& words) {
  return join(words, tr(", "));
}

// ---- the first line of the answer

std::string free_words(const JobStory& story) {
  const model::Request& request = story.job.request;
  if (request.gpus == 0)
    return request.cpus.value_or(1) == 1 ? text("none is free") : text("too few are free");
  if (request.memory_bytes) return text("too little is free");
  const auto count = static_cast<long long>(story.free.size());
  if (count == 0) return text("none is free");
  return text_n("{} is free ({})", "{} are free ({})", count, count, listed(story.free));
}

/// What the job requests, in words. A job that was queued for the CPU without --cpus counts as one
/// core.
std::string wish_of(const Job& job) {
  model::Request request = job.request;
  if (job.queued && request.gpus == 0 && !request.cpus) request.cpus = 1;
  return wish_words(request);
}

/// The jobs that must have ended before this one may start.
std::vector<JobId> awaited(const JobStory& story) {
  std::vector<JobId> ids, all = story.job.after;
  for (const auto* more : {&story.job.after_any, &story.job.after_not_ok})
    all.insert(all.end(), more->begin(), more->end());
  for (const JobId id : all)
    if (std::any_of(story.others.begin(), story.others.end(), [&](const Job& job) {
          return (job.id == id || (job.task && job.task->array == id)) &&
                 !model::has_ended(job.state);
        }))
      ids.push_back(id);
  return ids;
}

/// Whether the job is in the queue for devices, so that it waits for no other job, pause or limit
/// of its array.
bool stands_in_line(const JobStory& story) {
  return story.job.state == JobState::kWaiting && awaited(story).empty() &&
         story.outlook.obstruction != "array_limit" && story.outlook.obstruction != "journal" &&
         story.outlook.obstruction != "pause";
}

std::string waiting_head(const JobStory& story) {
  const Job& job = story.job;
  const std::string number = job_number(job);
  const std::string& why = story.outlook.obstruction;
  const std::string wish = wish_of(job);
  if (job.state == JobState::kHeld)
    return text("job {} is held: it does not start until it is released", number);
  if (const auto ids = awaited(story); !ids.empty()) {
    std::vector<std::string> names;
    names.reserve(ids.size());
    for (const JobId id : ids) names.push_back(text("job {}", number_of(story, id)));
    return text("job {} waits for the end of {}", number, listed(names));
  }
  if (why == "array_limit")
    return text_n("job {} waits: its array may have only {} job queued or running at once",
                  "job {} waits: its array may have only {} jobs queued or running at once",
                  job.task ? job.task->at_most : 0, number, job.task ? job.task->at_most : 0);
  if (why == "pause")
    return text("job {} waits: the pause before its next try is not over", number);
  if (why == "journal")
    return text("job {} waits: nothing starts until the broker can write its journal", number);
  if (why == "busy") return text("job {} waits for {}: {}", number, wish, free_words(story));
  if (why == "reserved")
    return story.kept_for == 0
               ? text(
                     "job {} waits for {}: enough is free, but reserved for a job that comes first",
                     number, wish)
               : text("job {} waits for {}: enough is free, but reserved for {}, which comes first",
                      number, wish, job_words(story, story.kept_for));
  if (why == "user_limit")
    return text("job {} waits: {} has reached the limit of devices or jobs for one user", number,
                printable(job.user));
  if (why == "gives_way")
    return text(
        "job {} waits: the broker for all users is running, so your own broker starts nothing",
        number);
  if (why == "never" && story.drained > 0)
    return text_n("job {} waits for {}: {} of the {} suitable devices is drained",
                  "job {} waits for {}: {} of the {} suitable devices are drained", story.drained,
                  number, wish, story.drained, story.possible);
  if (why == "never")
    return text("job {} waits for {}: it would not fit even if all other jobs ended", number, wish);
  return text("job {} waits for {}, and is next in the queue", number, wish);
}

// ---- the lines below the answer

/// The job whose end lets this one start at the time `when`. If several jobs end then, one that has
/// a device which this job could use is preferred.
const model::JobOutlook::Release* release_at(const JobStory& story, std::int64_t when) {
  const model::JobOutlook::Release *last = nullptr, *holding = nullptr;
  for (const auto& one : story.outlook.releases) {
    if (one.unix_milliseconds > when + 1) continue;
    last = &one;
    if (std::any_of(story.holders.begin(), story.holders.end(),
                    [&](const JobStory::Holder& holder) { return holder.job == one.job; }))
      holding = &one;
  }
  return holding == nullptr ? last : holding;
}

void add_when(Lines& lines, const JobStory& story, const JobsView& view) {
  const auto& fits_at = story.outlook.fits_at;
  const std::string& why = story.outlook.obstruction;
  if (story.job.state == JobState::kHeld || !awaited(story).empty()) return;
  if (!fits_at) {
    if (why == "user_limit")
      lines.add(tr("when"), text("never: the request exceeds the limit for one user"));
    if (why == "never" && story.drained > 0)
      lines.add(tr("when"), text("after `berth undrain` on one of these devices"));
    else if (why == "busy" || why == "never")
      lines.add(tr("when"), text("unknown: something other than this broker's jobs blocks it"));
    return;
  }
  const std::string when = soon_words(*fits_at, view.unix_milliseconds);
  if (why == "pause") return lines.add(tr("when"), text("the pause ends {}", when));
  const auto* release = release_at(story, *fits_at);
  if (release == nullptr || why == "nothing") return;
  const std::string whose = job_words(story, release->job);
  lines.add(tr("when"), release->by_limit
                            ? text("{}, when the time limit of {} expires", when, whose)
                            : text("{}; a guess, because {} has no time limit", when, whose));
  if (!story.outlook.before.empty())
    lines.add(tr("when"), text("later, if an earlier job in the queue starts first"));
}

/// Adds a line about a start on the CPU, if that would be sooner.
void add_cpu(Lines& lines, const JobStory& story, const JobsView& view) {
  const Job& job = story.job;
  if (!job.or_cpu_after || job.request.gpus == 0 || !stands_in_line(story)) return;
  const std::int64_t then = job.submitted_unix_milliseconds + job.or_cpu_after->count();
  lines.add(tr("or"),
            then > view.unix_milliseconds
                ? text("{} on the CPU, after a wait of {}",
                       soon_words(then, view.unix_milliseconds), show_duration(*job.or_cpu_after))
                : text("on the CPU, as soon as the job fits there: it has waited {}",
                       show_duration(*job.or_cpu_after)));
}

/// Adds lines about preemption: how often the job was ended for another one, and whether it may be.
void add_preemptions(Lines& lines, const Job& job) {
  if (!job.preemptible) return;
  if (job.preemptions > 0)
    lines.add(tr("preemptible"),
              text_n("preempted {} time by another job", "preempted {} times by other jobs",
                     job.preemptions, job.preemptions));
  if (!model::has_ended(job.state))
    lines.add(tr("preemptible"),
              text("the job ends and waits again if another job needs its GPUs"));
}

/// Adds lines about the failed tries of the job. Each try had a lease of its own.
void add_retries(Lines& lines, const Job& job, const JobsView& view) {
  if (job.retries == 0) return;
  lines.add(tr("retries"),
            text_n("it went back to the queue {} time for another try",
                   "it went back to the queue {} times for another try", job.retries, job.retries));
  if (!model::has_ended(job.state) && !job.why.empty())
    lines.add(tr("retries"), printable(job.why));
  Job avoided;
  for (const std::string& unit : job.avoids) avoided.grants.push_back({unit, 0, 0, false});
  if (!avoided.grants.empty())
    lines.add(tr("retries"), text("the job now avoids {}", has_words(avoided, view.snapshot)));
}

/// Adds lines about restarts: what happened to the job at the machine's last restart, and what will
/// happen at the next one.
void add_restarts(Lines& lines, const Job& job) {
  if (!job.requeue) return;
  if (job.restarts > 0)
    lines.add(tr("restarts"), text_n("restarted {} time, because the machine was restarted",
                                     "restarted {} times, because the machine was restarted",
                                     job.restarts, job.restarts));
  if (!model::has_ended(job.state))
    lines.add(tr("restarts"),
              text("the job is restarted, at most {} times, if the machine restarts while it runs",
                   model::kMostRestarts));
  else if (job.state == JobState::kLost && job.restarts > 0 &&
           job.why == text("the machine was restarted while it ran"))
    lines.add(tr("restarts"),
              text_n("not restarted again after {} time: the job may be what crashes the machine",
                     "not restarted again after {} times: the job may be what crashes the machine",
                     job.restarts, job.restarts));
}

std::string holder_words(const JobStory& story, const JobStory::Holder& holder,
                         const JobsView& view) {
  if (holder.job == 0) return text("{}: {}", holder.device, holder.says);
  std::string out = text("{}: {}", holder.device, job_words(story, holder.job));
  const Job* job = find_job(story, holder.job);
  if (job == nullptr) return out;
  if (!job->grants.empty() && job->grants.front().memory_bytes != 0)
    out += " " + part_words(job->grants.front());
  const auto& started = job->started_unix_milliseconds;
  if (!started) return out;
  out += std::string(tr(", ")) + text("since {}", clock_words(*started, view.unix_milliseconds));
  if (!job->time_limit) return out;
  const std::int64_t end = *started + model::time_left(*job)->count();
  return out + std::string(tr(", ")) +
         text("until {} at the latest", clock_words(end, view.unix_milliseconds));
}

void add_holders(Lines& lines, const JobStory& story, const JobsView& view) {
  if (!stands_in_line(story)) return;  // then the job does not wait for devices
  for (std::size_t i = 0; i < story.holders.size() && i < kMostHolders; ++i)
    lines.add(tr("held by"), holder_words(story, story.holders[i], view));
  if (story.holders.size() > kMostHolders)
    lines.add(tr("held by"), text("and {} more", story.holders.size() - kMostHolders));
}

void add_before(Lines& lines, const JobStory& story) {
  const auto& before = story.outlook.before;
  for (std::size_t i = 0; i < before.size() && i < kMostBefore; ++i) {
    const Job* job = find_job(story, before[i]);
    std::string says = job_words(story, before[i]);
    if (job != nullptr) says = text("{}: {}", says, wish_of(*job));
    if (job != nullptr && job->uid == story.job.uid && job->priority > story.job.priority)
      says += std::string(tr(", ")) + text("higher priority");
    lines.add(tr("before it"), says);
  }
  if (before.size() > kMostBefore)
    lines.add(tr("before it"), text("and {} more", before.size() - kMostBefore));
}

void add_sooner(Lines& lines, const JobStory& story) {
  int width = 0;
  for (const auto& one : story.sooner) width = std::max(width, display_width(one.command));
  for (const auto& one : story.sooner)
    lines.add(
        tr("sooner"),
        pad(one.command, width) + "   " +
            (one.where.empty() ? text("fits now, on the CPU") : text("fits now, on {}", one.where)),
        false);
}

// ---- the answer about a whole array

/// How many jobs are in each state: "3 done, 2 failed".
std::string counts_of(const std::vector<Job>& jobs) {
  std::map<JobState, int> counts;
  for (const Job& job : jobs) ++counts[job.state];
  std::vector<std::string> words;
  for (const JobState state :
       {JobState::kDone, JobState::kFailed, JobState::kLost, JobState::kCancelled,
        JobState::kRunning, JobState::kWaiting, JobState::kHeld})
    if (counts.contains(state)) words.push_back(text("{} {}", counts[state], state_word(state)));
  return listed(words);
}

/// Adds the jobs that failed, grouped by exit code or signal.
void add_bad_ends(Lines& lines, const std::vector<Job>& jobs) {
  using Ending = std::tuple<JobState, std::string, std::string>;
  std::map<Ending, std::vector<const Job*>> alike;
  for (const Job& job : jobs)
    if (model::has_ended(job.state) && job.state != JobState::kDone)
      alike[{job.state, ending_words(job), job.why}].push_back(&job);
  std::size_t shown = 0;
  const Job* with_output = nullptr;
  for (const auto& [ending, those] : alike) {
    if (with_output == nullptr && !those.front()->log.empty() &&
        those.front()->started_unix_milliseconds)
      with_output = those.front();
    if (++shown > kMostBefore) continue;
    const auto& [state, how, why] = ending;
    std::string says = numbers_of(those);
    if (how != state_word(state)) says = text("{}: {}", says, how);
    if (!why.empty()) says = text("{}: {}", says, printable(why));
    lines.add(state_word(state), says);
  }
  if (shown > kMostBefore) lines.add(tr("failed"), text("and {} more", shown - kMostBefore));
  if (with_output != nullptr)
    lines.add(tr("output"), fmt::format("berth logs {}", job_number(*with_output)));
}

/// Adds lines about an array that has unfinished jobs.
void add_array(Lines& lines, const JobStory& story) {
  if (story.array.empty()) return;
  lines.add(tr("its array"), counts_of(story.array));
  add_bad_ends(lines, story.array);
}

std::string of_ended_array(const JobStory& story, const JobsView& view, const Terminal& terminal) {
  Lines lines;
  add_bad_ends(lines, story.array);
  std::int64_t last = 0;
  bool is_over = true;
  for (const Job& job : story.array) {
    last = std::max(last, job.ended_unix_milliseconds.value_or(0));
    is_over = is_over && model::has_ended(job.state);
  }
  const auto number = story.array.front().task->array;
  const std::string counts = counts_of(story.array);
  return (is_over ? text("array {} ended at {}: {}", number,
                         clock_words(last, view.unix_milliseconds), counts)
                  : text("array {}: {}", number, counts)) +
         "\n" + lines.render(terminal);
}

// ---- the answer about a single job

std::string of_waiting(const JobStory& story, const JobsView& view, const Terminal& terminal) {
  Lines lines;
  if (!story.narrowed.empty()) lines.add(tr("because"), story.narrowed);
  add_when(lines, story, view);
  add_cpu(lines, story, view);
  add_holders(lines, story, view);
  add_before(lines, story);
  if (story.outlook.obstruction != "gives_way")
    add_sooner(lines, story);
  else
    lines.add(tr("continue"),
              text("berth run --queue …    queues it there; berth cancel {} removes it here",
                   job_number(story.job)));
  if (story.job.state == JobState::kHeld && story.job.uid == view.own_uid)
    lines.add(tr("continue"),
              fmt::format("berth release {}", story.array.empty()
                                                  ? job_number(story.job)
                                                  : std::to_string(story.job.task->array)));
  for (const JobId id : awaited(story))
    lines.add(tr("see also"), fmt::format("berth why {}", number_of(story, id)));
  add_preemptions(lines, story.job);
  add_retries(lines, story.job, view);
  add_restarts(lines, story.job);
  add_array(lines, story);
  return waiting_head(story) + "\n" + lines.render(terminal);
}

std::string of_running(const JobStory& story, const JobsView& view, const Terminal& terminal) {
  const Job& job = story.job;
  const std::int64_t now = view.unix_milliseconds;
  // If the clock was set back, the start may be later than "now".
  const std::int64_t since = std::min(job.started_unix_milliseconds.value_or(now), now);
  Lines lines;
  if (job.time_limit)
    lines.add(tr("until"), text("{} at the latest: its time limit is {}",
                                clock_words(since + model::time_left(job)->count(), now),
                                show_duration(*job.time_limit)));
  const auto written = view.output_bytes.find(job.id);
  if (!job.log.empty()) {
    const std::string logs = fmt::format("berth logs -f {}", job_number(job));
    lines.add(tr("output"), written == view.output_bytes.end()
                                ? logs
                                : text("{} ({} so far)", logs, show_bytes(written->second)));
  }
  add_preemptions(lines, job);
  add_retries(lines, job, view);
  add_restarts(lines, job);
  add_array(lines, story);
  return text("job {} has been running on {} since {} ({})", job_number(job),
              has_words(job, view.snapshot), clock_words(since, now),
              show_age(static_cast<double>(now - since) / 1000)) +
         "\n" + lines.render(terminal);
}

std::string of_ended(const JobStory& story, const JobsView& view, const Terminal& terminal) {
  const Job& job = story.job;
  const std::string when =
      clock_words(job.ended_unix_milliseconds.value_or(0), view.unix_milliseconds);
  const std::string how = ending_words(job);
  Lines lines;
  if (!job.why.empty()) lines.add(tr("because"), printable(job.why));
  if (!job.ended_by.empty()) lines.add(tr("ended by"), printable(job.ended_by));
  if (!job.log.empty() && job.started_unix_milliseconds)
    lines.add(tr("output"), fmt::format("berth logs {}", job_number(job)));
  add_preemptions(lines, job);
  add_retries(lines, job, view);
  add_restarts(lines, job);
  std::string head;
  if (job.started_unix_milliseconds) {
    const auto span = job.ended_unix_milliseconds.value_or(0) - *job.started_unix_milliseconds;
    head = text("job {} ended at {} after {} on {}: {}", job_number(job), when,
                show_age(static_cast<double>(span) / 1000), has_words(job, view.snapshot), how);
  } else {
    head = text("job {} ended at {} without having started: {}", job_number(job), when, how);
  }
  return head + "\n" + lines.render(terminal);
}

}  // namespace

std::string why_text(const JobStory& story, const JobsView& view, const Terminal& terminal) {
  const JobState state = story.job.state;
  if (!story.array.empty() && model::has_ended(state))
    return terminal.spell(of_ended_array(story, view, terminal));
  return terminal.spell(state == JobState::kRunning ? of_running(story, view, terminal)
                        : model::has_ended(state)   ? of_ended(story, view, terminal)
                                                    : of_waiting(story, view, terminal));
}

}  // namespace berth::output
