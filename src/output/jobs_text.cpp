#include "output/jobs_text.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <map>
#include <tuple>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/array_range.hpp"
#include "model/cpu_list.hpp"
#include "model/device_selector.hpp"
#include "output/guard_text.hpp"
#include "output/table.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Job;
using model::JobState;
using std::chrono::milliseconds;

constexpr std::size_t kUuidBeginning =
    12;  // so many characters of a uuid are enough to identify a device, such as "GPU-1a2b3c4d"

Style style_for(JobState state) {
  switch (state) {
    case JobState::kRunning:
      return Style::kGreen;
    case JobState::kFailed:
    case JobState::kLost:
      return Style::kRed;
    case JobState::kHeld:
      return Style::kYellow;
    case JobState::kDone:
    case JobState::kCancelled:
      return Style::kDim;
    case JobState::kWaiting:
      return Style::kPlain;
  }
  return Style::kPlain;
}

/// A device or partition in words: "GPU 2:1". If the device no longer exists, the start of its
/// uuid.
std::string unit_words(const std::string& unit, const model::Snapshot* snapshot) {
  const auto is_it = [&](const model::Partition& part) { return part.uuid == unit; };
  for (std::size_t i = 0; snapshot != nullptr && i < snapshot->devices.size(); ++i) {
    const model::Device& device = snapshot->devices[i];
    const auto& parts = device.partitions;
    const bool has_it = std::any_of(parts.begin(), parts.end(), is_it);
    const std::string& id = device.uuid.empty() ? device.pci_address : device.uuid;
    if (has_it || (unit == id && !unit.empty()))
      return fmt::format("{} {}", model::word_for(device.kind),
                         model::unit_name(device, has_it ? unit : ""));
  }
  return printable(unit.substr(0, kUuidBeginning)) + (unit.size() > kUuidBeginning ? "…" : "");
}

std::string span_words(std::int64_t from, std::int64_t to) {
  return show_age(static_cast<double>(std::max<std::int64_t>(0, to - from)) / 1000);
}

std::string waited(const Job& job, std::int64_t now) {
  const auto until =
      job.started_unix_milliseconds.value_or(job.ended_unix_milliseconds.value_or(now));
  return span_words(job.submitted_unix_milliseconds, until);
}

std::string ran(const Job& job, std::int64_t now) {
  if (!job.started_unix_milliseconds) return "";
  return span_words(*job.started_unix_milliseconds, job.ended_unix_milliseconds.value_or(now));
}

Cell devices_of(const Job& job, const JobsView& view) {
  if (!job.started_unix_milliseconds)
    return {model::has_ended(job.state) ? "" : wish_words(job.request), Style::kDim};
  return {has_words(job, view.snapshot), model::has_ended(job.state) ? Style::kDim : Style::kPlain};
}

Cell exit_of(const Job& job) {
  if (!job.outcome) return {};
  const Style style = job.outcome->exit_code == 0 ? Style::kPlain : Style::kRed;
  if (!job.outcome->signal) return {std::to_string(job.outcome->exit_code), style};
  const char* name = ::sigabbrev_np(*job.outcome->signal);
  return {name == nullptr ? std::to_string(*job.outcome->signal) : std::string("SIG") + name,
          style};
}

std::string what_of(const Job& job) {
  if (!job.name.empty()) return printable(job.name);
  std::string command;
  for (const std::string& word : job.command)
    command += (command.empty() ? "" : " ") + shell_word(printable(word));
  return short_command(command);
}

int rank_of(const Job& job) {
  return job.state == JobState::kRunning ? 0 : model::has_ended(job.state) ? 2 : 1;
}

std::vector<const Job*> in_order(const std::vector<Job>& jobs) {
  std::vector<const Job*> order;
  order.reserve(jobs.size());
  for (const Job& job : jobs) order.push_back(&job);
  std::sort(order.begin(), order.end(), [](const Job* a, const Job* b) {
    const int rank = rank_of(*a);
    if (rank != rank_of(*b)) return rank < rank_of(*b);
    if (rank < 2) return a->id < b->id;
    const auto ended_a = a->ended_unix_milliseconds.value_or(0);
    const auto ended_b = b->ended_unix_milliseconds.value_or(0);
    return ended_a != ended_b ? ended_a > ended_b : a->id > b->id;
  });
  return order;
}

/// Jobs of an array with the same values share a row. A running job has its own row.
using ArrayKind = std::tuple<model::JobId, JobState, int, std::string>;
ArrayKind kind_of(const Job& job) {
  const bool is_grouped = job.task && job.state != JobState::kRunning;
  return is_grouped ? ArrayKind{job.task->array, job.state, 0, exit_of(job).text}
                    : ArrayKind{job.id, job.state, 1, ""};
}

std::map<ArrayKind, std::vector<const Job*>> alike_in_arrays(const std::vector<const Job*>& order) {
  std::map<ArrayKind, std::vector<const Job*>> alike;
  for (const Job* job : order)
    if (job->task) alike[kind_of(*job)].push_back(job);
  return alike;
}

bool is_one(const std::vector<const Job*>& jobs) {
  return jobs.size() == 1 && jobs.front()->alike.empty();
}

/// The text that is the same for all jobs in a row; "" if their texts differ.
template <typename Words>
auto of_all(const std::vector<const Job*>& jobs, Words words) -> decltype(words(*jobs.front())) {
  auto first = words(*jobs.front());
  for (const Job* job : jobs)
    if (Cell(words(*job)).text != Cell(first).text) return {};
  return first;
}

/// A line below the list: the command that explains why the user's first waiting job waits.
std::string next_step(const std::vector<const Job*>& order, const JobsView& view,
                      const Terminal& terminal) {
  for (const Job* job : order)
    if (rank_of(*job) == 1 && job->uid == view.own_uid) {
      const std::string number = job_number(*job);
      return "\n" +
             terminal.paint(Style::kDim, text("{}   what job {} waits for",
                                              fmt::format("berth why {}", number), number)) +
             "\n";
    }
  return "";
}

/// A line about running jobs with more than 1 GiB of output, which may fill a disk that others use.
std::string output_words(const std::vector<const Job*>& order, const JobsView& view) {
  constexpr std::uint64_t kLong = 1ULL << 30;
  std::string out;
  for (const Job* job : order) {
    const auto found = view.output_bytes.find(job->id);
    if (found != view.output_bytes.end() && found->second >= kLong)
      out += "\n" +
             text("output: job {} has written {}", job_number(*job), show_bytes(found->second)) +
             "\n";
  }
  return out;
}

bool is_same_day(const std::tm& a, const std::tm& b) {
  return a.tm_year == b.tm_year && a.tm_yday == b.tm_yday;
}

std::string local_time(std::int64_t then, std::int64_t now, bool with_seconds) {
  const std::time_t moment = then / 1000, today = now / 1000;
  std::tm local{}, here{};
  if (::localtime_r(&moment, &local) == nullptr || ::localtime_r(&today, &here) == nullptr)
    return show_time(then);
  std::string out;
  if (!is_same_day(local, here))
    out = fmt::format("{:04}-{:02}-{:02} ", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
  out += fmt::format("{:02}:{:02}", local.tm_hour, local.tm_min);
  return with_seconds ? out + fmt::format(":{:02}", local.tm_sec) : out;
}

}  // namespace

std::string_view state_word(JobState state) {
  switch (state) {
    case JobState::kWaiting:
      return tr("waiting");
    case JobState::kHeld:
      return tr("held");
    case JobState::kRunning:
      return tr("running");
    case JobState::kDone:
      return tr("done");
    case JobState::kFailed:
      return tr("failed");
    case JobState::kCancelled:
      return tr("cancelled");
    case JobState::kLost:
      return tr("end unknown");
  }
  return "";
}

std::string numbers_of(const std::vector<const Job*>& jobs) {
  if (is_one(jobs)) return job_number(*jobs.front());
  std::vector<int> indices;
  indices.reserve(jobs.size());
  for (const Job* job : jobs) {
    const auto alike = model::parse_array_range(job->alike);
    if (alike)
      indices.insert(indices.end(), alike->indices.begin(), alike->indices.end());
    else
      indices.push_back(job->task->index);
  }
  std::sort(indices.begin(), indices.end());
  const model::ArrayTask& first = *jobs.front()->task;
  const bool is_limited = first.at_most > 0 && jobs.front()->state == JobState::kWaiting;
  return fmt::format("{}_[{}{}]", first.array, model::show_cpu_list(indices),
                     is_limited ? fmt::format("%{}", first.at_most) : "");
}

std::string clock_words(std::int64_t then, std::int64_t now) {
  return local_time(then, now, true);
}

std::string soon_words(std::int64_t then, std::int64_t now) {
  constexpr std::int64_t kSoon = 100'000;
  if (then - now < 1000) return text("about now");
  if (then - now < kSoon) return text("in about {} s", (then - now + 500) / 1000);
  return text("at about {}", local_time(then, now, false));
}

std::string wish_words(const model::Request& request) {
  std::string out;
  const int gpus = request.gpus.value_or(1);
  if (request.gpus == 0)
    out = request.cpus ? "" : text("the CPU");
  else if (request.memory_bytes && gpus == 1)
    out = text("{} on a GPU", show_bytes(*request.memory_bytes));
  else if (request.memory_bytes)
    out = text("{} on each of {} GPUs", show_bytes(*request.memory_bytes), gpus);
  else if (!request.devices.empty() && !request.gpus)
    out = text("devices {}", printable(join(request.devices, ",")));
  else
    out = text_n("{} GPU", "{} GPUs", gpus, gpus);
  if (request.share_permille)
    out += std::string(tr(", ")) + text("{} of the time", show_share(*request.share_permille));
  if (const std::string turns = turns_of(request.turns); !turns.empty())
    out += std::string(tr(", ")) + turns;
  if (!request.devices.empty() && (request.gpus || request.memory_bytes))
    out = text("{} ({})", out, printable(join(request.devices, ",")));
  if (!request.cpus) return out;
  return out + (out.empty() ? "" : std::string(tr(", "))) +
         text_n("{} core", "{} cores", *request.cpus, *request.cpus);
}

std::string drained_words(const JobsView& view) {
  Job drained;
  for (const std::string& unit : view.closed.drained) drained.grants.push_back({unit, 0});
  std::string lines;
  if (!drained.grants.empty())
    lines += "\n" + text("drained: {}", has_words(drained, view.snapshot)) + "\n";
  for (const model::AsideUnit& one : view.closed.aside) {
    Job unit;
    unit.grants = {{one.unit, 0, 0, false}};
    lines += "\n" +
             text("set aside: {}, because process {} of job {} cannot be killed",
                  has_words(unit, view.snapshot),
                  one.processes.empty() ? 0 : one.processes.front().first, one.number) +
             "\n";
  }
  for (const model::Scheduler& scheduler : model::kSchedulers) {
    Job lent;
    for (const auto& [unit, to] : view.closed.lent)
      if (to == scheduler.key) lent.grants.push_back({unit, 0});
    if (!lent.grants.empty())
      lines += "\n" +
               text("lent to {}: {} (to get them back: sudo berth {} reclaim)", scheduler.title,
                    has_words(lent, view.snapshot), scheduler.verb) +
               "\n";
  }
  return lines;
}

std::string part_words(const model::Grant& grant) {
  if (grant.memory_bytes == 0) return "";
  return show_bytes(grant.memory_bytes) +
         (grant.share_permille == 0 ? ""
                                    : std::string(tr(", ")) + show_share(grant.share_permille));
}

std::string has_words(const Job& job, const model::Snapshot* snapshot) {
  if (job.grants.empty()) {
    const int cores = job.request.cpus.value_or(0);
    return cores == 0 ? "CPU"
                      : "CPU" + std::string(tr(", ")) + text_n("{} core", "{} cores", cores, cores);
  }
  std::string out, last;
  for (const model::Grant& grant : job.grants) {
    const std::string words = unit_words(grant.unit, snapshot);
    const std::string kind = words.substr(0, words.find(' ') + 1);
    // Write the word "GPU" only once, as in "GPU 0, 2".
    if (out.empty())
      out = words;
    else
      out += ", " + (kind == last ? words.substr(kind.size()) : words);
    last = kind;
  }
  return out;
}

std::string ending_words(const Job& job) {
  // Do not show the signal of a cancelled job, because Berth itself sent it.
  if (job.state == JobState::kCancelled) return std::string(state_word(job.state));
  if (job.outcome && job.outcome->kind == model::OutcomeClass::kTimeLimit)
    return std::string(tr("ended by its time limit"));
  if (job.outcome && job.outcome->signal) return text("ended by {}", exit_of(job).text);
  if (job.outcome && job.outcome->exit_code != 0)
    return text("exit code {}", job.outcome->exit_code);
  return std::string(state_word(job.state));
}

std::string jobs_text(const std::vector<Job>& jobs, const JobsView& view,
                      const Terminal& terminal) {
  Table table({{std::string(tr("job")), true},
               {std::string(tr("user"))},
               {std::string(tr("state"))},
               {std::string(tr("devices")), false, kLeastText},
               {std::string(tr("memory")), true, 0, 1},
               {std::string(tr("waited")), true, 0, 2},
               {std::string(tr("ran")), true},
               {std::string(tr("exit")), true},
               {std::string(tr("what")), false, kLeastText}});
  const auto order = in_order(jobs);
  const auto alike = alike_in_arrays(order);
  for (const Job* job : order) {
    const auto found = alike.find(kind_of(*job));
    const auto together = found == alike.end() ? std::vector{job} : found->second;
    if (together.front() != job) continue;
    const bool alone = is_one(together);
    const auto part = [](const Job& one) {
      return one.grants.empty() ? std::string() : part_words(one.grants.front());
    };
    table.add({Cell(numbers_of(together), Style::kBold),
               job->user.empty() ? std::to_string(job->uid) : printable(job->user),
               Cell(std::string(state_word(job->state)), style_for(job->state)),
               of_all(together, [&](const Job& one) { return devices_of(one, view); }),
               of_all(together, part), alone ? waited(*job, view.unix_milliseconds) : "",
               alone ? ran(*job, view.unix_milliseconds) : "", exit_of(*job), what_of(*job)});
  }
  return terminal.spell(table.render(terminal) + drained_words(view) + output_words(order, view) +
                        next_step(order, view, terminal));
}

}  // namespace berth::output
