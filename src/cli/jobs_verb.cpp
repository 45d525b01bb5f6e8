// `berth jobs`: what the broker runs, what waits, what ended lately.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "output/jobs_json.hpp"
#include "output/jobs_text.hpp"

namespace berth::cli {
namespace {

using model::Job;
using Json = nlohmann::ordered_json;

/// --mine and --user.
struct Filter {
  bool mine = false;
  std::string user;  // name or uid; "": everybody

  [[nodiscard]] bool is_any() const { return mine || !user.empty(); }
  [[nodiscard]] bool takes(const std::string& name, std::uint32_t uid) const {
    return (!mine || uid == ::geteuid()) &&
           (user.empty() || user == name || user == std::to_string(uid));
  }
};

/// The document of the API, without the jobs that were not asked for.
std::string filtered(const std::string& document, const Filter& filter) {
  if (!filter.is_any()) return document;
  Json json = Json::parse(document, nullptr, false);
  if (!json.is_object() || !json["jobs"].is_array()) return document;
  auto& jobs = json["jobs"].get_ref<Json::array_t&>();
  std::erase_if(jobs, [&](const Json& job) {
    const Json& user = job.value("user", Json());
    return !filter.takes(user.is_string() ? user.get<std::string>() : "", job.value("uid", 0U));
  });
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string none_words(const Filter& filter, bool all) {
  if (!filter.user.empty()) return text("no jobs of {}", printable(filter.user));
  if (filter.mine) return text("no jobs of yours");
  return all ? text("no jobs") : text("no jobs: none is there, and none ended in the last day");
}

}  // namespace

Result<int> run_jobs(const Context& context) {
  const bool all = context.arguments.has("--all");
  const Filter filter{context.arguments.has("--mine"),
                      context.arguments.value("--user").value_or("")};
  auto calls = JobCalls::reach();
  if (!calls) return std::move(calls).error();
  if (!*calls) {
    context.out(context.json ? output::jobs_json({}, {}, {})
                             : text("no jobs: no broker runs, and none did before") + "\n");
    return 0;
  }
  const auto answer = (*calls)->call("GET", all ? "/v1/jobs?all" : "/v1/jobs", kAnswerSoon);
  if (!answer) return answer.error();
  auto jobs = client::jobs_in(*answer);
  if (!jobs) return std::move(jobs).error();
  if (context.json) {
    context.out(filtered(answer->body, filter));
    return 0;
  }
  std::erase_if(*jobs, [&](const Job& job) { return !filter.takes(job.user, job.uid); });
  output::JobsView view;
  view.own_uid = ::geteuid();
  view.drained = client::closed_in(*answer).drained;
  std::optional<model::Snapshot> snapshot;
  if (!view.drained.empty() ||
      std::any_of(jobs->begin(), jobs->end(), [](const Job& job) { return !job.grants.empty(); })) {
    auto seen = look(context, Processes::kUsers, false);
    if (!seen) return std::move(seen).error();
    snapshot = *std::move(seen);
    view.snapshot = &*snapshot;
  }
  view.unix_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  for (const Job& job : *jobs) add_output_bytes(job, view);
  if (const std::string left = (*calls)->left_with_own(); !left.empty())
    context.err(
        text("note: {}", text("a broker of your own has jobs as well, and starts none beside "
                              "this one: {}",
                              left)) +
        "\n");
  if (jobs->empty()) {
    context.out(none_words(filter, all) + "\n" + output::drained_words(view));
    return 0;
  }
  context.out(output::jobs_text(*jobs, view, context.out_terminal));
  return 0;
}

}  // namespace berth::cli
