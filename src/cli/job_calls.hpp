// Shared by the verbs for jobs: finds the broker that has the jobs, and the jobs that the command
// line names.
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
  /// Connects to a broker. If this user's broker has exited because it was idle, starts it again,
  /// because only a broker can read its journal. nullopt if this user never had one. Returns the
  /// errors of client::reach.
  [[nodiscard]] static Result<std::optional<JobCalls>> reach();
  /// Connects to a broker, and starts one if there is none. Returns the errors of client::reach.
  [[nodiscard]] static Result<JobCalls> reach_or_start();
  /// Like reach(), but it is an error if there is no broker: also fails with kNotFound (E0901).
  [[nodiscard]] static Result<JobCalls> reach_for(std::string_view word);
  /// See client::left_with_own.
  [[nodiscard]] std::string left_with_own() const { return client::left_with_own(client_); }

  /// Calls the broker. If it disconnects, repeats the call with the next one. `at_most` 0: no time
  /// limit.
  [[nodiscard]] Result<client::Response> call(std::string_view method, const std::string& path,
                                              std::chrono::milliseconds at_most,
                                              const std::string& body = "{}");
  /// A job, or the jobs of an array. Fails like the API: E0901.
  [[nodiscard]] Result<std::vector<model::Job>> jobs(model::JobId id);
  /// A single job. Fails like the API (E0901), and with kInvalidArgument (E0935: an array has
  /// several jobs).
  [[nodiscard]] Result<model::Job> job(model::JobId id);
  /// Waits for the end of the job and returns it; nullopt if it did not end within this time.
  [[nodiscard]] Result<std::optional<model::Job>> ended(model::JobId id,
                                                        std::chrono::milliseconds within);
  /// The id of a job that is named by its number, by "7_3" (the job with index 3 of array 7), or by
  /// the name of the caller's own job or array. If several have this name, the one that has not
  /// ended is meant, or else the one that ended last. Fails with kNotFound (E0931) and
  /// kInvalidArgument (E0932: several have the name).
  [[nodiscard]] Result<model::JobId> id_of(const std::string& word);
  /// Like id_of(), but for several jobs: "7-12" means the caller's own jobs with these numbers that
  /// have not ended, "26_[3-4]" the jobs of array 26 with these indices.
  [[nodiscard]] Result<std::vector<model::JobId>> ids_of(const std::string& word);
  /// All of the caller's own jobs and arrays that have not ended.
  [[nodiscard]] Result<std::vector<model::JobId>> mine();
  /// The caller's own job that was queued last. Fails with kInvalidArgument (E0930: there is none).
  [[nodiscard]] Result<model::JobId> last(const char* verb);

 private:
  explicit JobCalls(client::Client client) : client_(std::move(client)) {}
  [[nodiscard]] Result<std::optional<model::JobId>> task(const std::string& word);
  [[nodiscard]] Status again(const Error& error);

  client::Client client_;
  std::optional<model::JobId> asked_;  // the job for whose end a pending call waits
  client::Following following_;
};

/// The only operand of the verb. Fails with kInvalidArgument (E0930) if there are none or several.
[[nodiscard]] Result<std::string> one_job(const Context& context, const char* verb);
struct OneJob {
  JobCalls calls;
  model::JobId id = 0;
};
/// The job that the user named, or else the caller's last job, and the broker that has it.
[[nodiscard]] Result<OneJob> find_job(const Context& context, const char* verb);
/// The words of the command line that name jobs. Fails if there are none.
[[nodiscard]] Result<std::vector<std::string>> some_jobs(const Context& context, const char* verb);

/// "/v1/jobs/7/why"
[[nodiscard]] std::string job_path(model::JobId id, std::string_view rest = {});
/// Escapes a word for the query of a URL.
[[nodiscard]] std::string query_word(std::string_view word);
/// Adds how much output a running job has written, if its log is readable.
void add_output_bytes(const model::Job& job, output::JobsView& view);
/// Prints the broker's notices to stderr; with --json they are in the document.
void say_notices(const Context& context, const client::Response& answer);
/// Prints an error about one of several jobs to stderr, as text or as JSON.
void say_error(const Context& context, const Error& error, int exit_code);

using client::kAnswerSoon;

}  // namespace berth::cli
