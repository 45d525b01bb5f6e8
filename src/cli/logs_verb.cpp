// `berth logs JOB`: prints the output of a queued job unchanged. With --follow, it continues until
// the job ends.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/job_calls.hpp"
#include "cli/verbs.hpp"
#include "output/json_writer.hpp"
#include "run/output_file.hpp"

namespace berth::cli {
namespace {

using model::Job;
using std::chrono::milliseconds;

constexpr milliseconds kGlance(100);  // the longest delay before new output is shown

Error no_log(const Job& job) {
  if (job.queued && job.uid != ::geteuid())
    return {ErrorCode::kPermissionDenied, "E0902",
            text("job {} is another user's", model::job_number(job)), "berth jobs --mine"};
  if (job.queued)
    return {ErrorCode::kNotFound, "E0933",
            text("job {} has no output file", model::job_number(job)),
            fmt::format("berth why {}", model::job_number(job))};
  return {ErrorCode::kNotFound, "E0933",
          text("job {} has no output file: only the output of queued jobs is kept",
               model::job_number(job)),
          text("{}    keeps the output of a job", "berth run --queue -- COMMAND")};
}

Error unreadable(const Job& job, int problem) {
  return {ErrorCode::kNotFound, "E0934",
          text("the output of job {} cannot be read from {}: {}", model::job_number(job),
               printable(job.log), error_words(problem)),
          "ls -l " + printable(job.log)};
}

/// Selects the lines of one rank from a log, and removes the prefix "[rank 3] " of each.
class RankLines {
 public:
  explicit RankLines(std::int64_t rank) : prefix_(fmt::format("[rank {}] ", rank)) {}

  /// Takes the next bytes of the log, and returns those that belong to the rank, without prefixes.
  std::string of(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
      if (matched_ == prefix_.size()) {
        text += c;
        found_ = true;
      } else if (matched_ != kOther) {
        matched_ = c == prefix_[matched_] ? matched_ + 1 : kOther;
      }
      if (c == '\n') matched_ = 0;
    }
    return text;
  }
  [[nodiscard]] bool found() const { return found_; }

 private:
  // value of matched_ if the line belongs to another rank
  static constexpr std::size_t kOther = std::string::npos;

  std::string prefix_;
  std::size_t matched_ = 0;  // how many characters of the prefix this line has matched so far
  bool found_ = false;
};

/// A log file that may still grow. It may not exist yet, and is truncated if the job restarts. If
/// the caller is an administrator without permission to open it, the broker reads it.
class LogFile {
 public:
  LogFile(const Job& job, JobCalls& calls, RankLines* rank)
      : path_(job.log), job_(job.id), calls_(calls), rank_(rank) {}

  /// Opens the file. Returns an errno, or 0 on success. Rejects pipes and links.
  int open() {
    if (file_) return 0;
    file_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    is_told_ = !file_ && errno == EACCES;
    if (is_told_) return 0;
    if (!file_) return errno;
    struct stat status = {};
    if (::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode)) return 0;
    file_.reset();
    return EINVAL;
  }

  /// Copies everything up to the current end of the file. Returns false if it could not be read or
  /// written.
  [[nodiscard]] bool copy_new(const Context& context) {
    if (is_told_) return copy_told(context);
    struct stat status = {};
    if (::fstat(file_.get(), &status) != 0) return false;
    if (status.st_size < at_) at_ = 0;
    while (context.write_error == 0) {
      const run::OutputPart part = run::read_output(file_.get(), at_, 1 << 16);
      if (part.bytes.empty()) return true;
      show(context, part.bytes);
      at_ = part.next;
    }
    return false;
  }

  /// Moves the read position so that only the last `lines` lines are copied.
  void go_to_last(std::int64_t lines) {
    if (is_told_) return;  // only the broker can open the file, and it always reads from the start
    at_ = size();
    if (lines == 0) return;
    // If the file ends with a newline, the last line is the one before this newline.
    std::int64_t ends = -1;
    std::array<char, 1 << 14> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (off_t block = at_; block > 0;) {
      const off_t from = std::max<off_t>(0, block - static_cast<off_t>(bytes.size()));
      const ssize_t n =
          ::pread(file_.get(), bytes.data(), static_cast<std::size_t>(block - from), from);
      if (n <= 0) return;
      if (ends < 0) ends = bytes.at(static_cast<std::size_t>(n - 1)) == '\n' ? -1 : 0;
      for (ssize_t i = n - 1; i >= 0; --i) {
        if (bytes.at(static_cast<std::size_t>(i)) != '\n') continue;
        if (++ends < lines) continue;
        at_ = from + i + 1;
        return;
      }
      block = from;
      at_ = from;
      if (const auto next = run::skip_removed(file_.get(), from); next != from) {
        at_ = next;
        return;
      }
    }
  }

  [[nodiscard]] bool is_told() const { return is_told_; }
  [[nodiscard]] std::int64_t size() const {
    struct stat status = {};
    return file_ && ::fstat(file_.get(), &status) == 0 ? status.st_size : 0;
  }

 private:
  void show(const Context& context, const std::string& bytes) {
    context.out(rank_ ? rank_->of(bytes) : bytes);
  }

  bool copy_told(const Context& context) {
    while (context.write_error == 0) {
      const auto more = calls_.call("GET", job_path(job_, fmt::format("/log?from={}", at_)),
                                    std::chrono::seconds(30));
      if (!more || more->status != 200) return false;
      if (more->body.empty()) return true;
      show(context, more->body);
      at_ = more->next.value_or(at_ + static_cast<off_t>(more->body.size()));
    }
    return false;
  }

  std::string path_;
  model::JobId job_;
  JobCalls& calls_;
  RankLines* rank_;  // selects the lines of one rank; null means all lines
  Descriptor file_;
  bool is_told_ = false;  // this user may not open the file, so the broker reads it
  off_t at_ = 0;
};

/// --lines
Result<std::optional<std::int64_t>> lines_wanted(const Context& context) {
  const auto given = context.arguments.value("--lines");
  if (!given) return std::optional<std::int64_t>();
  const auto number = parse_integer(*given, 0, 1'000'000'000);
  if (!number) return Error(number.error()).during("--lines");
  return std::optional(*number);
}

/// --rank
Result<std::optional<RankLines>> rank_wanted(const Context& context) {
  const auto given = context.arguments.value("--rank");
  if (!given) return std::optional<RankLines>();
  const auto number = parse_integer(*given, 0, 10'000'000);
  if (!number) return Error(number.error()).during("--rank");
  if (const auto lines = context.arguments.value("--lines"))
    return Error{ErrorCode::kInvalidArgument, "E0010",
                 text("{} and {} contradict each other", "--rank", "--lines"),
                 fmt::format("berth logs {} --rank {} | tail -n {}",
                             context.arguments.positional.empty()
                                 ? "JOB"
                                 : printable(context.arguments.positional.front()),
                             *number, printable(*lines))};
  return std::optional(RankLines(*number));
}

/// The JSON document with the log's path. Programs read the log themselves, because it may be
/// larger than memory.
std::string document_of(const Job& job, LogFile& log) {
  const bool is_there = log.open() == 0 && !log.is_told();
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("job", job.id);
  json.field("state", model::name(job.state));
  json.field("log", job.log);
  json.key("size_bytes");
  is_there ? json.value(log.size()) : json.value(nullptr);
  json.close('}');
  return json.finish();
}

/// Copies new output until the job has ended, and then the remaining output.
Result<Job> follow(const Context& context, JobCalls& calls, Job job, LogFile& log) {
  while (!model::has_ended(job.state)) {
    auto ended = calls.ended(job.id, kGlance);
    if (!ended) return std::move(ended).error();
    if (*ended) job = **std::move(ended);
    if (!context.json && log.open() == 0 && !log.copy_new(context)) break;
  }
  return job;
}

}  // namespace

Result<int> run_logs(const Context& context) {
  const auto lines = lines_wanted(context);
  if (!lines) return lines.error();
  auto rank = rank_wanted(context);
  if (!rank) return std::move(rank).error();
  auto found = find_job(context, "logs");
  if (!found) return std::move(found).error();
  JobCalls* const calls = &found->calls;
  auto job = calls->job(found->id);
  if (!job) return std::move(job).error();
  if (job->log.empty()) return no_log(*job);
  LogFile log(*job, *calls, *rank ? &**rank : nullptr);
  if (*lines && log.open() == 0) log.go_to_last(**lines);
  if (context.arguments.has("--follow")) {
    job = follow(context, *calls, *std::move(job), log);
    if (!job) return std::move(job).error();
  }
  if (context.json) {
    context.out(document_of(*job, log));
    return 0;
  }
  const int problem = log.open();
  // The log does not exist. If the job never started, this is not an error, because it has written
  // nothing.
  if (problem == ENOENT && !job->started_unix_milliseconds) {
    context.err(text("note: {}",
                     text("job {} has not started: there is no output", model::job_number(*job))) +
                "\n");
    return 0;
  }
  if (problem != 0) return unreadable(*job, problem);
  if (!log.copy_new(context) && log.is_told() && context.write_error == 0)
    return unreadable(*job, EACCES);
  if (*rank && !(*rank)->found())
    context.err(text("note: {}", text("the output of job {} has no line of that rank",
                                      model::job_number(*job))) +
                "\n");
  return 0;
}

}  // namespace berth::cli
