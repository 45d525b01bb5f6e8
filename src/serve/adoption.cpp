#include "serve/adoption.hpp"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <set>

#include "base/file.hpp"
#include "base/text.hpp"
#include "broker/job_record.hpp"
#include "run/queued.hpp"
#include "serve/watches.hpp"

namespace berth::serve {
namespace {

using model::Job;
using model::JobId;
using model::JobState;

/// Job numbers are never larger than this. A file with a larger number was not written by Berth.
constexpr std::int64_t kHighestNumber = 1'000'000'000'000;

std::set<JobId> numbers_in(const std::string& folder) {
  std::set<JobId> numbers;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    const auto& path = at->path();
    if (path.extension() != ".log" && path.extension() != ".status") continue;
    const auto number = to_number(path.stem().string());
    if (number && *number > 0 && *number <= kHighestNumber)
      numbers.insert(static_cast<JobId>(*number));
  }
  return numbers;
}

/// The time in UTC as a file name, for example "2026-11-23T19-40-11".
std::string name_of(std::int64_t unix_milliseconds) {
  const std::time_t seconds = unix_milliseconds / 1000;
  std::tm utc = {};
  std::array<char, 32> out{};
  if (::gmtime_r(&seconds, &utc) == nullptr) return "unknown";
  const std::size_t size = std::strftime(out.data(), out.size(), "%Y-%m-%dT%H-%M-%S", &utc);
  return {out.data(), size};
}

/// Moves those files of a job that exist. Returns false if one of them could not be moved.
bool move_files(const std::string& from, const std::string& to, JobId id) {
  bool done = true;
  for (const char* kind : {".log", ".status", ".report", ".tries"}) {
    const std::string name = "/" + std::to_string(id) + kind;
    if (::rename((from + name).c_str(), (to + name).c_str()) != 0 && errno != ENOENT) done = false;
  }
  return done;
}

}  // namespace

std::optional<Job> job_from_files(const std::string& files, JobId id, std::int64_t now) {
  auto job = broker::job_of(run::job_record_in(files));
  if (!job || job->id != id || !job->queued) return std::nullopt;
  const auto keeper = run::keeper_of(files);
  job->state = JobState::kRunning;
  job->owners.clear();
  job->told_to_end.reset();
  if (keeper && start_ticks_of(keeper->pid) == keeper->start_ticks) {
    job->owners.push_back(*keeper);
    return *std::move(job);
  }
  job->outcome = run::outcome_of(files);
  job->ended_unix_milliseconds = run::ended_at(files).value_or(now);
  if (!job->outcome) {
    job->state = JobState::kLost;
    job->why = text("the journal was lost, and the exit status of the job is unknown");
  } else {
    const bool is_good = job->outcome->kind == model::OutcomeClass::kOk;
    job->state = is_good && !run::was_told_to_end(files) ? JobState::kDone : JobState::kFailed;
  }
  return *std::move(job);
}

UnknownFiles adopt_unknown_files(const std::string& jobs_folder,
                                 const std::function<bool(JobId)>& is_known,
                                 const std::vector<JobId>& forgotten, std::int64_t now) {
  UnknownFiles found;
  const std::set<JobId> gone(forgotten.begin(), forgotten.end());
  const std::string state = jobs_folder.substr(0, jobs_folder.rfind('/'));
  for (const JobId id : numbers_in(jobs_folder)) {
    found.highest = id;
    if (is_known(id)) continue;
    const std::string files = jobs_folder + "/" + std::to_string(id);
    if (gone.contains(id)) {
      run::remove_files(files);
      continue;
    }
    if (auto job = job_from_files(files, id, now)) {
      found.jobs.push_back(*std::move(job));
      continue;
    }
    // If the job still runs, its files stay here, because the job still writes its log.
    const auto keeper = run::keeper_of(files);
    if (keeper && start_ticks_of(keeper->pid) == keeper->start_ticks) {
      found.alone.push_back(id);
      continue;
    }
    if (found.folder.empty()) {
      struct stat about = {};
      const mode_t mode = ::stat(jobs_folder.c_str(), &about) == 0 ? about.st_mode & 0777 : 0700;
      found.folder = state + "/unknown-" + name_of(now);
      static_cast<void>(::mkdir(found.folder.c_str(), mode));
    }
    if (move_files(jobs_folder, found.folder, id)) found.aside.push_back(id);
  }
  return found;
}

std::string list_of_jobs(const std::vector<JobId>& ascending) {
  constexpr std::size_t kMostParts = 20;
  std::string out;
  std::size_t parts = 0;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (++parts > kMostParts) return out + " " + text("and {} more", ascending.size() - i);
    out += (out.empty() ? "" : ", ") + std::to_string(ascending[i]);
    if (last > i) out += "-" + std::to_string(ascending[last]);
    i = last + 1;
  }
  return out;
}

std::string left_alone(const std::vector<JobId>& ascending) {
  return text_n("job {} is still running, but is not in the journal: Berth leaves it unchanged",
                "jobs {} are still running, but are not in the journal: they are not changed",
                static_cast<long long>(ascending.size()), list_of_jobs(ascending));
}

std::vector<std::string> words_of(const UnknownFiles& found) {
  std::vector<std::string> words;
  std::vector<JobId> ids;
  for (const Job& job : found.jobs) ids.push_back(job.id);
  if (!ids.empty())
    words.push_back(
        text_n("job {} was missing in the journal: it was restored from its files",
               "jobs {} were missing in the journal: they were restored from their files",
               static_cast<long long>(ids.size()), list_of_jobs(ids)));
  if (!found.aside.empty())
    words.push_back(text_n("job {} was missing in the journal: its output is now in {}",
                           "jobs {} were missing in the journal: their output is now in {}",
                           static_cast<long long>(found.aside.size()), list_of_jobs(found.aside),
                           printable(found.folder)));
  if (!found.alone.empty()) words.push_back(left_alone(found.alone));
  return words;
}

}  // namespace berth::serve
