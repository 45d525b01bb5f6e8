#include "serve/retention.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "run/output_file.hpp"

namespace berth::serve {
namespace {

constexpr std::uint64_t kLeastLimit = 1 << 20;  // a shorter output is never cut
// The maximum numbers of ended leases and of ended queued jobs that are kept for one user.
constexpr std::size_t kMostLeases = 20'000, kMostQueued = 100'000;

std::uint64_t bytes_on_disk(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512
                                            : 0;
}

}  // namespace

std::int64_t Retention::too_much_output_before(const Jobs& jobs) {
  std::vector<std::pair<std::int64_t, std::uint64_t>> kept;  // end time, bytes of output
  for (const auto& [id, job] : jobs) {
    if (!model::has_ended(job.state)) continue;
    const auto [size, is_new] = ended_bytes_.try_emplace(id, 0);
    if (is_new) {
      const Files files = files_of_(id);
      size->second = bytes_on_disk(files.report) + (job.queued ? bytes_on_disk(files.log) : 0);
    }
    if (!job.queued && size->second == 0) continue;  // this lease has no report
    kept.emplace_back(job.ended_unix_milliseconds.value_or(0), size->second);
  }
  std::sort(kept.rbegin(), kept.rend());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if ((sum += kept[i].second) > most_bytes_ && i > 0) return kept[i].first + 1;
  return 0;
}

std::map<broker::UserJobs, std::int64_t> Retention::too_many_before(const Jobs& jobs) {
  std::map<broker::UserJobs, std::vector<std::int64_t>> ended;
  for (const auto& [id, job] : jobs)
    if (model::has_ended(job.state))
      ended[{job.uid, job.queued}].push_back(job.ended_unix_milliseconds.value_or(0));
  std::map<broker::UserJobs, std::int64_t> before;
  for (auto& [whose, times] : ended) {
    const std::size_t most = whose.second ? kMostQueued : kMostLeases;
    if (times.size() <= most) continue;
    const auto newest = times.end() - static_cast<std::ptrdiff_t>(most);
    std::nth_element(times.begin(), newest, times.end());
    before[whose] = *newest;
  }
  return before;
}

std::string Retention::limit_running(model::JobId running) {
  const std::string log = files_of_(running).log;
  const std::uint64_t used = bytes_on_disk(log);
  if (used < kLeastLimit) return "";
  std::uint64_t most = most_bytes_;
  struct statvfs disk = {};
  if (::statvfs(log.c_str(), &disk) == 0)
    most = std::min(most, (std::uint64_t{disk.f_bavail} * disk.f_frsize + used) / 2);
  Removed& removed = removed_[running];
  const auto done = run::limit_output(log, std::max(most, kLeastLimit));
  if (!done) return std::exchange(removed.is_refused, true) ? "" : done.error().message;
  removed.bytes += *done;
  if (removed.bytes == 0 || removed.bytes < 2 * removed.reported) return "";
  removed.reported = removed.bytes;
  return text(
      "running job {} has written more than {}: {} in the middle of its output were removed",
      running, show_bytes(std::max(most, kLeastLimit)), show_bytes(removed.bytes));
}

void Retention::forget(model::JobId id) {
  ended_bytes_.erase(id);
  removed_.erase(id);
}

}  // namespace berth::serve
