// Shared by the verbs of the queue: finds the broker that knows the jobs, and the jobs named on the
// command line.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "client/jobs.hpp"
#include "client/reach.hpp"
#include "output/jobs_text.hpp"

namespace berth::cli {

class JobCalls {
 public:
  /// Restarts this user's broker if it left when idle, because only a broker can read its journal.
  /// nullopt: this user never had a broker. Returns the errors of client::reach.
  [[nodiscard]] static Result<std::optional<JobCalls>> reach();
  /// Starts a broker if there is none. Returns the errors of client::reach.
  [[nodiscard]] static Result<JobCalls> reach_or_start();
  /// Like reach(), but a missing broker is an error: fails also with kNotFound (E0901).
  [[nodiscard]] static Result<JobCalls> reach_for(std::string_view word);
  /// See client::left_with_own.
  [[nodiscard]] std::string left_with_own() const { return client::left_with_own(client_); }

  /// If the broker disconnects, repeats the call with the next one. `at_most` 0: no time limit.
  [[nodiscard]] Result<client::Response> call(std::string_view method, const std::string& path,
                                              std::chrono::milliseconds at_most,
                                              const std::string& body = "{}");
  /// A job, or the jobs of an array. Fails as the API: E0901.
  [[nodiscard]] Result<std::vector<model::Job>> jobs(model::JobId id);
  /// Fails as the API (E0901), and with kInvalidArgument (E0935: an array has several jobs).
  [[nodiscard]] Result<model::Job> job(model::JobId id);
  /// The job after its end; nullopt: it did not end within that time.
  [[nodiscard]] Result<std::optional<model::Job>> ended(model::JobId id,
                                                        std::chrono::milliseconds within);
  /// A job named by a number; by "7_3" (the job of array 7 with index 3); or by the name of one's
  /// own job or array: the unfinished one, or the one that ended last. Fails with kNotFound
  /// (E0931), kInvalidArgument (E0932: several have the name).
  [[nodiscard]] Result<model::JobId> id_of(const std::string& word);
  /// Like id_of(), but accepts several: "7-12" are one's own unfinished jobs with these numbers,
  /// "26_[3-4]" the jobs of array 26 with these indices. Fails as id_of().
  [[nodiscard]] Result<std::vector<model::JobId>> ids_of(const std::string& word);
  /// All own unfinished jobs and arrays.
  [[nodiscard]] Result<std::vector<model::JobId>> mine();
  /// The own job that was queued last. Fails with kInvalidArgument (E0930: there is none).
  [[nodiscard]] Result<model::JobId> last(const char* verb);

 private:
  explicit JobCalls(client::Client client) : client_(std::move(client)) {}
  [[nodiscard]] Result<std::optional<model::JobId>> task(const std::string& word);
  [[nodiscard]] Status again(const Error& error);

  client::Client client_;
  std::optional<model::JobId> asked_;  // the job whose end a pending call waits for
  client::Following following_;
};

/// The only operand of the verb. Fails with kInvalidArgument (E0930) if there are none or several.
[[nodiscard]] Result<std::string> one_job(const Context& context, const char* verb);
struct OneJob {
  JobCalls calls;
  model::JobId id = 0;
};
/// The named job, or the last own one if none is named, and the broker that knows it.
[[nodiscard]] Result<OneJob> find_job(const Context& context, const char* verb);
/// Fails if no job is named.
[[nodiscard]] Result<std::vector<std::string>> some_jobs(const Context& context, const char* verb);

/// "/v1/jobs/7/why"
[[nodiscard]] std::string job_path(model::JobId id, std::string_view rest = {});
/// Escapes a word for a query.
[[nodiscard]] std::string query_word(std::string_view word);
/// Adds how much a running job has written, if we may read its log.
void add_output_bytes(const model::Job& job, output::JobsView& view);
/// Prints the broker's notices to stderr; with --json they are in the document.
void say_notices(const Context& context, const client::Response& answer);
/// Prints an error about one of several jobs to stderr, as text or JSON.
void say_error(const Context& context, const Error& error, int exit_code);

using client::kAnswerSoon;

}  // namespace berth::cli
