// Functions that the verbs for jobs share: they find the broker, and the jobs that the command line
// names.
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
  /// Connects to a broker. If this user's broker exited because it was idle, starts it again,
  /// because only a broker can read its journal. Returns nullopt if this user never had a broker.
  /// Fails with the errors of client::reach().
  [[nodiscard]] static Result<std::optional<JobCalls>> reach();
  /// Connects to a broker, and starts one if there is none. Fails with the errors of
  /// client::reach().
  [[nodiscard]] static Result<JobCalls> reach_or_start();
  /// Connects to a broker like reach(). Fails with kNotFound (E0901) if there is none, in addition
  /// to the errors of reach().
  [[nodiscard]] static Result<JobCalls> reach_for(std::string_view word);
  /// Calls client::left_with_own() with this connection.
  [[nodiscard]] std::string left_with_own() const { return client::left_with_own(client_); }

  /// Calls the broker. If the broker disconnects, repeats the call with the next broker. `at_most`
  /// 0 means no time limit.
  [[nodiscard]] Result<client::Response> call(std::string_view method, const std::string& path,
                                              std::chrono::milliseconds at_most,
                                              const std::string& body = "{}");
  /// The job with this number, or the jobs of the array with this number. Fails with E0901 if there
  /// is none.
  [[nodiscard]] Result<std::vector<model::Job>> jobs(model::JobId id);
  /// The single job with this number. Fails with E0901 if there is none, and with kInvalidArgument
  /// (E0935) if the number is that of an array.
  [[nodiscard]] Result<model::Job> job(model::JobId id);
  /// Waits for the end of the job and returns the job; nullopt if the job did not end within this
  /// time.
  [[nodiscard]] Result<std::optional<model::Job>> ended(model::JobId id,
                                                        std::chrono::milliseconds within);
  /// The id of the job that a word means: its number, "7_3" (index 3 of array 7), or the name of
  /// the caller's own job or array. If several have this name, the one that has not ended, or else
  /// the last one to end. Fails with kNotFound (E0931) and kInvalidArgument (E0932: the name is
  /// ambiguous).
  [[nodiscard]] Result<model::JobId> id_of(const std::string& word);
  /// Like id_of(), but for several jobs. "7-12" means the caller's own jobs with these numbers that
  /// have not ended. "26_[3-4]" means the jobs of array 26 with these indices.
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
  std::optional<model::JobId> asked_;  // the job whose end a pending call waits for
  client::Following following_;
};

/// The only operand of the verb. Fails with kInvalidArgument (E0930) if there are none or several.
[[nodiscard]] Result<std::string> one_job(const Context& context, const char* verb);
struct OneJob {
  JobCalls calls;
  model::JobId id = 0;
};
/// Finds the job that the user named, or the caller's last job if no job was named. Also returns
/// the connection to its broker.
[[nodiscard]] Result<OneJob> find_job(const Context& context, const char* verb);
/// The words of the command line that name jobs. Fails if there are none.
[[nodiscard]] Result<std::vector<std::string>> some_jobs(const Context& context, const char* verb);

/// The API path of a job, such as "/v1/jobs/7/why" for rest "why".
[[nodiscard]] std::string job_path(model::JobId id, std::string_view rest = {});
/// Escapes a word for the query of a URL.
[[nodiscard]] std::string query_word(std::string_view word);
/// If the job runs and its log is readable, adds the number of bytes in the log to `view`.
void add_output_bytes(const model::Job& job, output::JobsView& view);
/// Prints the broker's notices to stderr. With --json, prints nothing, because the document
/// contains them.
void say_notices(const Context& context, const client::Response& answer);
/// Prints an error about one of several jobs to stderr, as text or as JSON.
void say_error(const Context& context, const Error& error, int exit_code);

using client::kAnswerSoon;

}  // namespace berth::cli
