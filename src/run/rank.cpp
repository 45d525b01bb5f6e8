#include "run/rank.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"
#include "model/cpu_list.hpp"
#include "run/failure.hpp"

namespace berth::run {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLinesKept = 8;
constexpr std::size_t kErrorBytes = 1 << 20;

model::RankPart part_of(const Rank& rank, bool is_first, bool is_stopped) {
  if (rank.is_unkillable) return model::RankPart::kUnkillable;
  if (rank.status == 0) return model::RankPart::kOk;
  if (is_stopped) return model::RankPart::kStopped;
  return is_first ? model::RankPart::kFailedFirst : model::RankPart::kVictim;
}

}  // namespace

Rank::Rank(int number_)
    : number(number_),
      out(fmt::format("[rank {}] ", number_), 4 * 1024),
      err(fmt::format("[rank {}] ", number_), 16 * 1024) {}

std::string Rank::text_of_error_file() const {
  struct stat about = {};
  const bool is_file =
      !error_path.empty() && ::lstat(error_path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
  return is_file ? slurp(error_path, kErrorBytes).value_or("") : "";
}

void Rank::read_error_file(bool keeps_file) {
  if (error_path.empty()) return;
  error_text = text_of_error_file();
  error = parse_error_file(error_text);
  if (!keeps_file) ::unlink(error_path.c_str());
}

bool only_lost_a_peer(const Rank& rank) {
  return WIFEXITED(rank.status) &&
         ((rank.error && mentions_lost_peer(rank.error->message)) ||
          mentions_lost_peer(rank.err.tail()) || mentions_lost_peer(rank.out.tail()));
}

bool was_killed(const Rank& rank) {
  return rank.was_ended_by_us || (rank.ended && WIFSIGNALED(rank.status));
}

Rank* failed_first(std::vector<Rank>& ranks) {
  Rank* found = nullptr;
  const auto is_better = [](const Rank& a, const Rank& b) {
    if (only_lost_a_peer(a) != only_lost_a_peer(b)) return only_lost_a_peer(b);
    // Compare the times of the errors, because a rank may take long to end after its error.
    if (a.error && b.error && a.error->when && b.error->when && *a.error->when != *b.error->when)
      return *a.error->when < *b.error->when;
    return *a.ended < *b.ended;
  };
  for (Rank& rank : ranks)
    if (rank.has_failed() && !rank.was_ended_by_us && (found == nullptr || is_better(rank, *found)))
      found = &rank;
  return found;
}

model::RankEnd end_of(const Rank& rank, const RankSpec& spec, bool is_first, bool is_stopped) {
  const auto as_time = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  model::RankEnd end;
  end.rank = rank.number;
  end.pid = rank.pid;
  end.part = part_of(rank, is_first, is_stopped);
  if (rank.ended && WIFEXITED(rank.status)) end.exit_code = WEXITSTATUS(rank.status);
  if (rank.ended && WIFSIGNALED(rank.status)) end.signal = WTERMSIG(rank.status);
  end.wall = std::chrono::duration_cast<milliseconds>(
      rank.ended.value_or(std::chrono::steady_clock::now()) - rank.started);
  end.cpu = std::chrono::duration_cast<milliseconds>(as_time(rank.used.ru_utime) +
                                                     as_time(rank.used.ru_stime));
  end.peak_rss_bytes = static_cast<std::uint64_t>(rank.used.ru_maxrss) * 1024;
  end.devices = spec.devices;
  end.cpus = model::show_cpu_list(spec.cpus);
  end.threads = spec.threads;
  end.log = rank.log.is_open() ? rank.log.path() : "";
  end.log_left_out_bytes = rank.log.left_out();
  if (end.part == model::RankPart::kOk) return end;
  const auto err = rank.err.tail();
  end.traceback =
      rank.error && !rank.error->traceback.empty() ? rank.error->traceback : traceback_in(err);
  end.last_lines = last_lines(err, kLinesKept);
  if (end.last_lines.empty()) end.last_lines = last_lines(rank.out.tail(), kLinesKept);
  return end;
}

}  // namespace berth::run
