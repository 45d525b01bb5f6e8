#include "library/leased.hpp"

#include <unistd.h>

#include "base/environment_variables.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "broker/job_record.hpp"
#include "inventory/observe.hpp"
#include "library/program.hpp"
#include "output/environment_text.hpp"
#include "output/jobs_json.hpp"
#include "policy/environment.hpp"
#include "policy/visible.hpp"
#include "system/host.hpp"

namespace berth::library {

using Json = nlohmann::ordered_json;

Result<Leased> Leased::ask(std::string_view wish) {
  auto job = broker::job_of(wish);
  if (!job) return std::move(job).error();
  policy::inherit_visibility(job->request, whole_environment());
  auto around = client::Lease::around_us(job->request);
  if (!around) return std::move(around).error();
  if (*around) {
    Leased leased(**std::move(around), job->request);
    leased.owner_ = ::getpid();
    return leased;
  }
  auto lease = client::Lease::ask(*job, client::IfNone::kStart, program());
  if (!lease) return std::move(lease).error();
  Leased leased(*std::move(lease), job->request);
  leased.owner_ = ::getpid();
  return leased;
}

Result<std::optional<std::string>> Leased::wait(std::chrono::milliseconds at_most) {
  const auto granted = lease_.wait(std::max(at_most, std::chrono::milliseconds(1)));
  if (!granted) return granted.error();
  if (!*granted) return std::optional<std::string>();
  auto machine = lease_.machine();
  if (!machine) return machine.error();
  // Describe the host from this process, because the result must contain the CPUs that this process
  // may use.
  machine->host = system::read_host(inventory::Sources::from_environment().roots);
  const auto placement = lease_.placement(lease_.request(request_), *machine);
  if (!placement) return placement.error();
  const auto environment = policy::environment_for(*placement, *machine, whole_environment(), {});
  Json document{{"schema", 1}};
  document["job"] = Json::parse(output::job_json({&lease_.whole_job(), true})).at("job");
  document["environment"] =
      Json::parse(output::environment_json(environment, *placement, *machine));
  return std::optional(document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Result<std::string> Leased::why() {
  const auto machine = lease_.machine();
  if (!machine) return machine.error();
  const Error held = lease_.who_holds(*machine);
  const Json document{{"schema", 1}, {"message", held.message}, {"hint", held.hint}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Leased::end(int exit_code) {
  if (owner_ != ::getpid()) return;
  if (!lease_.is_granted()) return lease_.take_back();
  model::Outcome outcome;
  outcome.kind = exit_code == 0 ? model::OutcomeClass::kOk : model::OutcomeClass::kFailed;
  outcome.exit_code = exit_code;
  static_cast<void>(lease_.end(outcome));
}

}  // namespace berth::library
