// What the verbs of the queue share: the broker that knows the jobs, and the jobs that words on the
// command line name.
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
  /// nullopt: no broker runs, and none ever did, for this user. One that left when it was idle is
  /// started again, because only a broker reads what it wrote down. Fails as client::reach.
  [[nodiscard]] static Result<std::optional<JobCalls>> reach();
  /// One is started where there is none. Fails as client::reach.
  [[nodiscard]] static Result<JobCalls> reach_or_start();
  /// The same as reach() where a job is to be had from it. Fails with kNotFound (E0901), too.
  [[nodiscard]] static Result<JobCalls> reach_for(std::string_view word);
  /// As client::left_with_own.
  [[nodiscard]] std::string left_with_own() const { return client::left_with_own(client_); }

  /// A broker that goes away meanwhile is followed by another, which is asked again. `at_most` 0:
  /// for ever.
  [[nodiscard]] Result<client::Response> call(std::string_view method, const std::string& path,
                                              std::chrono::milliseconds at_most,
                                              const std::string& body = "{}");
  /// A job, or those of an array. Fails as the API: E0901.
  [[nodiscard]] Result<std::vector<model::Job>> jobs(model::JobId id);
  /// Fails as the API (E0901), and with kInvalidArgument (E0935: an array has several).
  [[nodiscard]] Result<model::Job> job(model::JobId id);
  /// When it has ended; nullopt: it did not within that time.
  [[nodiscard]] Result<std::optional<model::Job>> ended(model::JobId id,
                                                        std::chrono::milliseconds within);
  /// A number as it is; "7_3" is the job of array 7 with index 3; else one's own job or array of
  /// that name:
  /// the one that has not ended, else the one that ended last. Fails with kNotFound (E0931),
  /// kInvalidArgument (E0932: several have it).
  [[nodiscard]] Result<model::JobId> id_of(const std::string& word);

 private:
  explicit JobCalls(client::Client client) : client_(std::move(client)) {}
  [[nodiscard]] Result<std::optional<model::JobId>> task(const std::string& word);
  [[nodiscard]] Status again(const Error& error);

  client::Client client_;
  std::optional<model::JobId> asked_;  // whose end an answer is due for
  client::Following following_;
};

/// The one job that the verb is about; E0930 (kInvalidArgument) where there are none or more.
[[nodiscard]] Result<std::string> one_job(const Context& context, const char* verb);
/// At least one.
[[nodiscard]] Result<std::vector<std::string>> some_jobs(const Context& context, const char* verb);

/// "/v1/jobs/7/why"
[[nodiscard]] std::string job_path(model::JobId id, std::string_view rest = {});
/// How much a job has written so far, where it runs and we may look.
void add_output_bytes(const model::Job& job, output::JobsView& view);
/// An error about one of several jobs, on stderr, in the form that was asked for.
void say_error(const Context& context, const Error& error, int exit_code);

/// An answer that waits for nothing but the broker's look at the machine.
inline constexpr std::chrono::milliseconds kAnswerSoon(30'000);

}  // namespace berth::cli
