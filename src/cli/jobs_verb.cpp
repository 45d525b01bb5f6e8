// `berth jobs`: running and waiting jobs, and jobs that ended recently.
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "output/jobs_json.hpp"
#include "output/jobs_text.hpp"

namespace berth::cli {
namespace {

using model::Job;

/// The maximum number of rows on a terminal. Output for programs has all rows.
constexpr int kRowsOnAScreen = 100;

/// Checks words such as "12" and "7-12", and joins them with commas.
Result<std::string> numbers_of(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (word.empty() || word.find_first_not_of("0123456789-,") != std::string::npos)
      return Error{ErrorCode::kInvalidArgument, "E0930",
                   text("{} is not a job number or a range of them", printable(word)),
                   "berth jobs 7 9-12"};
    out += (out.empty() ? "" : ",") + word;
  }
  return out;
}

std::int64_t now_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<std::string> limit_of(const Context& context) {
  const auto given = context.arguments.value("--limit");
  if (!given)
    return context.json ? std::string() : fmt::format("&compact&limit={}", kRowsOnAScreen);
  if (*given == "none") return std::string(context.json ? "" : "&compact");
  const auto number = parse_integer(*given, 1, 1'000'000'000);
  if (!number) return Error(number.error()).during("--limit");
  return fmt::format("{}&limit={}", context.json ? "" : "&compact", *number);
}

/// Converts the options to a URL query, because the broker filters the jobs.
Result<std::string> query_of(const Context& context) {
  const Arguments& arguments = context.arguments;
  std::string query = arguments.has("--all") ? "all" : "";
  if (arguments.has("--mine")) query += "&mine";
  if (const auto user = arguments.value("--user")) query += "&user=" + query_word(*user);
  if (const auto states = arguments.value("--state")) {
    for (const std::string_view word : split(*states, ','))
      if (!model::job_state(word))
        return Error{ErrorCode::kInvalidArgument, "E0003",
                     text("'{}' is not a state of a job: waiting, held, running, done, failed, "
                          "cancelled or lost",
                          printable(word)),
                     "berth jobs --state waiting,held"};
    query += "&state=" + query_word(*states);
  }
  if (const auto given = arguments.value("--since")) {
    const auto since = parse_duration(*given);
    if (!since) return Error(since.error()).during("--since");
    query +=
        fmt::format("&since={}", std::max<std::int64_t>(0, now_milliseconds() - since->count()));
  }
  const auto numbers = numbers_of(arguments.positional);
  if (!numbers) return numbers.error();
  if (!numbers->empty()) query += "&number=" + *numbers;
  const auto limit = limit_of(context);
  if (!limit) return limit.error();
  return query + *limit;
}

std::string none_words(const Arguments& arguments) {
  const auto user = arguments.value("--user");
  if (arguments.has("--state") || arguments.has("--since") || !arguments.positional.empty())
    return text("no such jobs");
  if (user && !user->empty()) return text("no jobs of {}", printable(*user));
  if (arguments.has("--mine")) return text("no jobs of yours");
  return arguments.has("--all")
             ? text("no jobs")
             : text("no jobs: none runs or waits, and none ended in the last day");
}

}  // namespace

Result<int> run_jobs(const Context& context) {
  const auto query = query_of(context);
  if (!query) return query.error();
  auto calls = JobCalls::reach();
  if (!calls) return std::move(calls).error();
  if (!*calls) {
    context.out(context.json ? output::jobs_json({}, {})
                             : text("no jobs: no broker has been started yet") + "\n");
    return 0;
  }
  const auto answer = (*calls)->call("GET", "/v1/jobs?" + *query, kAnswerSoon);
  if (!answer) return answer.error();
  if (context.json && answer->status < 300) {
    context.out(answer->body);
    return 0;
  }
  auto jobs = client::jobs_in(*answer);
  if (!jobs) return std::move(jobs).error();
  say_notices(context, *answer);
  output::JobsView view;
  view.own_uid = ::geteuid();
  view.closed = client::closed_in(*answer);
  std::optional<model::Snapshot> snapshot;
  if (!view.closed.drained.empty() || !view.closed.lent.empty() ||
      std::any_of(jobs->begin(), jobs->end(), [](const Job& job) { return !job.grants.empty(); })) {
    auto seen = look(context, Processes::kUsers, false);
    if (!seen) return std::move(seen).error();
    snapshot = *std::move(seen);
    view.snapshot = &*snapshot;
  }
  view.unix_milliseconds = now_milliseconds();
  for (const Job& job : *jobs) add_output_bytes(job, view);
  if (const std::string left = (*calls)->left_with_own(); !left.empty())
    context.err(text("note: {}", text("your own broker also has jobs, but starts none while the "
                                      "broker for all users runs: {}",
                                      left)) +
                "\n");
  if (jobs->empty()) {
    context.out(none_words(context.arguments) + "\n" + output::drained_words(view));
    return 0;
  }
  context.out(output::jobs_text(*jobs, view, context.out_terminal));
  if (const auto more = client::not_shown_in(*answer); more > 0)
    context.err(
        text("note: {}", text_n("{} more job is not shown: {}", "{} more jobs are not shown: {}",
                                static_cast<long long>(more), more, "berth jobs --limit none")) +
        "\n");
  return 0;
}

}  // namespace berth::cli
