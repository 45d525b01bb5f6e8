#include "client/lease.hpp"

#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "broker/job_record.hpp"
#include "client/machine.hpp"
#include "model/cpu_list.hpp"
#include "policy/demand.hpp"
#include "policy/placement.hpp"
#include "system/control_group.hpp"
#include "system/device_locks.hpp"
#include "system/process.hpp"
#include "system/runtime_folder.hpp"

namespace berth::client {
namespace {

using model::Job;
using model::JobState;
using std::chrono::milliseconds;

constexpr milliseconds kSilentWait(1000);  // shorter waits are not reported

std::string path_of(model::JobId job, std::string_view rest = {}) {
  return "/v1/jobs/" + std::to_string(job) + std::string(rest);
}

/// Time limit for the broker if its answer is useful but not required.
constexpr milliseconds kGlance(2000);

Result<Job> submitted(Client& client, const Job& job, milliseconds at_most) {
  const auto answer = client.call("POST", "/v1/jobs", broker::record_of(job), at_most);
  if (!answer) return answer.error();
  return job_in(*answer);
}

}  // namespace

bool is_another_machine() {
  return env_nonempty("BERTH_ROOT") || env_nonempty("BERTH_NVML_LIBRARY");
}

Result<Client> broker_here(IfNone if_none, const std::string& program) {
  if (!is_another_machine()) return reach(if_none, program);
  return Error{ErrorCode::kUnavailable, "E0920", text("a recorded machine has no broker"), ""};
}

std::string who_has_elsewhere(const std::string& unit) {
  if (system::system_broker_expected_for().count() > 0)
    return text("the broker for all users manages the device");
  const auto pid = system::holder_of(system::lock_file(system::lock_folder(), unit));
  struct stat status = {};
  if (!pid || ::stat(fmt::format("/proc/{}", *pid).c_str(), &status) != 0)
    return text("another user's broker has leased the device");
  return text("user {} holds the device's lock: process {}",
              printable(system::UserNames("/etc").of(status.st_uid)), *pid);
}

model::Ledger ledger_of(const std::vector<Job>& jobs, const model::ClosedUnits& closed) {
  model::Ledger ledger;
  ledger.kept = true;
  for (const std::string& unit : closed.elsewhere)
    ledger.holdings.push_back({0, std::string(model::kAnotherBroker), unit, 0});
  for (const std::string& unit : closed.drained) ledger.holdings.push_back({0, "", unit, 0});
  for (const auto& [unit, to] : closed.lent)
    if (std::find(closed.drained.begin(), closed.drained.end(), unit) == closed.drained.end())
      ledger.holdings.push_back({0, "", unit, 0});
  for (const model::AsideUnit& one : closed.aside)
    ledger.holdings.push_back({one.job, one.user, one.unit, 0, 0, one.number,
                               one.processes.empty() ? -1 : one.processes.front().first});
  for (const Job& job : jobs) {
    if (job.state != JobState::kRunning) continue;
    for (const model::Grant& grant : job.grants)
      ledger.holdings.push_back({job.id, job.user, grant.unit, grant.memory_bytes,
                                 grant.share_permille, model::job_number(job)});
    if (!job.request.cpus) continue;
    const auto cpus = model::parse_cpu_list(job.affinity).value_or(std::vector<int>());
    ledger.cpus.insert(ledger.cpus.end(), cpus.begin(), cpus.end());
  }
  std::sort(ledger.cpus.begin(), ledger.cpus.end());
  return ledger;
}

Result<model::Ledger> ledger_now() {
  auto client = broker_here(IfNone::kGlance);
  if (!client)
    return client.error().id == "E0922" ? Result<model::Ledger>(client.error()) : model::Ledger();
  const auto answer = client->call("GET", "/v1/jobs?running", {}, kGlance);
  if (!answer) return answer.error();
  const auto jobs = jobs_in(*answer);
  if (!jobs) return jobs.error();
  return ledger_of(*jobs, closed_in(*answer));
}

Result<Lease> Lease::ask(const Job& job, IfNone if_none, const std::string& program) {
  // If the broker disconnects before it answers, it is unknown whether the job is in the journal.
  // The key lets the next broker recognise the job.
  Job keyed = job;
  keyed.key = new_key();
  Following following;
  for (;;) {
    auto client = broker_here(if_none, program);
    if (!client) return std::move(client).error();
    following.begin();
    auto asked = submitted(*client, keyed, if_none == IfNone::kGlance ? kGlance : kAnswerSoon);
    if (asked) {
      Lease lease(*std::move(client), *std::move(asked));
      lease.program_ = program;
      lease.share_locks();
      return lease;
    }
    if (keyed.key.empty() || !went_away(asked.error()) || !following.goes_on())
      return std::move(asked).error();
  }
}

Result<Lease> Lease::take(const Wishes& wishes, const model::Snapshot& snapshot, IfNone if_none) {
  auto lease = ask(wishes.job, if_none);
  if (!lease || lease->is_granted()) return lease;
  if (!wishes.may_wait) {
    Error held = lease->who_holds(snapshot);
    lease->take_back();
    constexpr const char* kJobs = "berth jobs";
    if (held.hint.find(kJobs) == std::string::npos)
      held.hint += (held.hint.empty() ? "" : "\n") + std::string(kJobs);
    return Error{ErrorCode::kRefused, "E0412", held.message, held.hint};
  }
  if (auto granted = lease->wait(wishes, snapshot); !granted) return std::move(granted).error();
  return lease;
}

void Lease::take_back() {
  static_cast<void>(call("POST", path_of(job_.id, "/cancel")));
}

Status Lease::wait(const Wishes& wishes, const model::Snapshot& snapshot) {
  waited_ = true;
  auto granted = wait(kSilentWait);
  if (granted && !*granted) {
    wishes.on_waiting(who_holds(snapshot));
    granted = wait(milliseconds(0));
  }
  return granted ? Status(Done{}) : Status(std::move(granted).error());
}

Result<bool> Lease::wait(milliseconds at_most) {
  waited_ = waited_ || !is_granted();
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (job_.state == JobState::kWaiting || job_.state == JobState::kHeld) {
    if (auto here = reconnect(); !here) return std::move(here).error();
    if (!std::exchange(asking_, true)) {
      client_->ask("GET", path_of(job_.id, "?wait=started"));
      following_.begin();
    }
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    const auto answer = [&]() -> Result<std::optional<Response>> {
      if (at_most.count() != 0)
        return client_->answer(std::max<milliseconds>(milliseconds(1), left));
      auto response = client_->await();
      if (!response) return std::move(response).error();
      return std::optional(*std::move(response));
    }();
    if (answer && !*answer) return false;
    if (!answer) {
      forget_connection();
      if (!following_.goes_on()) return answer.error();
      continue;
    }
    asking_ = false;
    auto job = job_in(**answer);
    if (!job) return std::move(job).error();
    job_ = *std::move(job);
  }
  share_locks();
  if (is_granted()) return true;
  return Error{ErrorCode::kRefused, "E0412",
               text("job {} was {} while it waited", job_.id, model::name(job_.state)),
               "berth jobs --all"};
}

Error Lease::who_holds(const model::Snapshot& snapshot) {
  // Ask the broker for the reason. A limit for the user or a reservation can make the job wait even
  // if no other job holds the devices.
  if (const auto answer = call("GET", path_of(job_.id, "/why")))
    if (const auto outlook = outlook_in(*answer)) {
      if (outlook->obstruction == "user_limit")
        return Error{ErrorCode::kRefused, "E0412",
                     text("you have reached the limit of devices or jobs for one user"),
                     "berth jobs --mine"};
      if (outlook->obstruction == "reserved")
        return Error{ErrorCode::kRefused, "E0412",
                     text("the free devices are reserved for an earlier job"),
                     fmt::format("berth why {}", job_.id)};
    }
  if (const auto answer = call("GET", "/v1/jobs?running"))
    if (const auto jobs = jobs_in(*answer))
      if (const auto place =
              policy::place(job_.request, snapshot, ledger_of(*jobs, closed_in(*answer)));
          !place && (place.error().id == "E0412" || !job_.request.mig_only))
        return place.error();
  if (job_.request.mig_only)
    return Error{ErrorCode::kRefused, "E0412",
                 text("no GPU has a free MIG partition, or room for a new one"),
                 fmt::format("berth why {}", job_.id)};
  return Error{ErrorCode::kRefused, "E0412", text("job {} is waiting in the queue", job_.id), ""};
}

Result<model::Snapshot> Lease::machine() {
  const auto answer = call("GET", "/v1/machine");
  if (!answer) return answer.error();
  return machine_in(*answer);
}

Result<std::optional<Lease>> Lease::around_us(const model::Request& request) {
  const auto id = to_number(env_nonempty("BERTH_JOB").value_or(""));
  if (!id || *id < 1) return std::optional<Lease>();
  auto client = broker_here(IfNone::kFail);
  if (!client) return std::optional<Lease>();
  const auto answer = client->call("GET", path_of(static_cast<model::JobId>(*id)));
  if (!answer && !went_away(answer.error())) return answer.error();
  if (!answer) return std::optional<Lease>();
  auto job = job_in(*answer);
  // If BERTH_JOB names a job that has ended or that belongs to another user, ignore it.
  if (!job || job->state != JobState::kRunning || job->uid != ::geteuid())
    return std::optional<Lease>();
  const auto wanted =
      request.all_gpus.value_or(false)
          ? job->grants.size()
          : static_cast<std::size_t>(request.gpus.value_or(job->grants.empty() ? 0 : 1));
  if (wanted > job->grants.size())
    return Error{ErrorCode::kRefused, "E0421",
                 text_n("this is job {}, which has {} GPU; {} were requested",
                        "this is job {}, which has {} GPUs; {} were requested",
                        static_cast<long long>(job->grants.size()), model::job_number(*job),
                        job->grants.size(), wanted),
                 text("request more when the job starts: berth lease --gpus {}", wanted)};
  job->grants.resize(wanted);
  Lease lease(*std::move(client), *std::move(job));
  lease.ours_ = false;
  // BERTH_JOB may have been copied to a process outside the job's control group.
  const auto mount = system::unified_mount("/proc");
  const bool is_inside = mount && !lease.job_.group.empty() &&
                         system::group_of("/proc", *mount, "self").starts_with(lease.job_.group);
  if (!is_inside) {
    lease.job_.access = model::Access::kVariable;
    lease.job_.group.clear();
  }
  return std::optional(std::move(lease));
}

model::Request Lease::request(const model::Request& asked) const {
  // The job was moved to the CPU while it waited. (On a machine without GPUs, asked.gpus is already
  // 0.)
  return ours_ && job_.or_cpu_after && asked.gpus != 0 && job_.request.gpus == 0
             ? policy::on_cpu(asked)
             : asked;
}

Result<model::Placement> Lease::placement(const model::Request& request,
                                          const model::Snapshot& snapshot) const {
  std::vector<std::string> units;
  for (const model::Grant& grant : job_.grants) units.push_back(grant.unit);
  return policy::place_leased(request, units, job_.affinity, snapshot);
}

void Lease::share_with(pid_t keeper) {
  if (!ours_) return;
  Job owners;
  owners.owners = {{::getpid(), 0}, {keeper, 0}};
  static_cast<void>(call("POST", path_of(job_.id, "/owners"), broker::record_of(owners)));
}

Status Lease::enter(pid_t keeper) {
  Job entering;
  entering.owners = {{keeper, 0}};
  const auto answer = call("POST", path_of(job_.id, "/enter"), broker::record_of(entering));
  if (!answer) return answer.error();
  auto job = job_in(*answer);
  if (!job) return std::move(job).error();
  job_.access = job->access;
  return Done{};
}

void Lease::share_locks() {
  if (!is_granted() || !locks_.empty()) return;
  std::vector<std::string> files;
  for (const model::Grant& grant : job_.grants)
    files.push_back(system::lock_file(system::lock_folder(), grant.unit));
  locks_ = system::share_locks(files);
}

std::uint64_t Lease::end(const model::Outcome& outcome, const model::JobUsage& usage,
                         const std::vector<model::ProcessId>& stuck) {
  if (!ours_) return 0;
  // Unlock explicitly, because forked children have copies of the descriptors and would keep the
  // locks.
  for (const Descriptor& lock : locks_) ::flock(lock.get(), LOCK_UN);
  Job ended;
  ended.outcome = outcome;
  ended.usage = usage;
  ended.stuck = stuck;
  const auto answer = call("POST", path_of(job_.id, "/end"), broker::record_of(ended));
  const auto job = answer ? job_in(*answer) : Result<Job>(answer.error());
  if (!job) return 0;
  job_.state = job->state;
  job_.why = job->why;
  job_.outcome = job->outcome;
  return job->refusals;
}

void Lease::end_without_front(const std::vector<model::ProcessId>& stuck) const {
  if (!ours_) return;
  Job ended;
  ended.stuck = stuck;
  if (auto client = Client::connect(client_ ? client_->socket() : socket_, kGlance))
    static_cast<void>(
        client->call("POST", path_of(job_.id, "/end"), broker::record_of(ended), kGlance));
}

void Lease::keep_report(const std::string& stored, milliseconds at_most) {
  if (ours_ && client_)
    static_cast<void>(client_->call("POST", path_of(job_.id, "/report"), stored, at_most));
}

std::string Lease::ended_because() const {
  if (job_.state == JobState::kCancelled) return text("it was cancelled");
  return job_.state == JobState::kFailed ? job_.why : std::string();
}

std::optional<model::Outcome> Lease::outcome_if_told_to_end() const {
  using model::OutcomeClass;
  const auto& outcome = job_.outcome;
  const bool told = outcome && (outcome->kind == OutcomeClass::kCancelled ||
                                outcome->kind == OutcomeClass::kTimeLimit);
  return told ? outcome : std::nullopt;
}

std::optional<Response> Lease::call_now(std::string_view method, const std::string& what,
                                        const std::string& body, milliseconds at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  if (asking_) forget_connection();
  if (!client_) {
    auto again = Client::connect(socket_, at_most);
    if (!again) return std::nullopt;
    client_ = *std::move(again);
  }
  const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
  if (left.count() <= 0) return std::nullopt;
  auto answer = client_->call(method, path_of(job_.id, what), body, left);
  if (answer) return *std::move(answer);
  forget_connection();
  return std::nullopt;
}

/// The job as the broker has it now.
std::optional<model::Job> Lease::job_now(milliseconds at_most) {
  const auto answer = call_now("GET", "", {}, at_most);
  auto job = answer ? job_in(*answer) : Result<Job>(Error{});
  if (!job) return std::nullopt;
  return *std::move(job);
}

bool Lease::report_hang(const std::string& sentence, milliseconds at_most) {
  const auto answer = call_now("POST", "/hang", broker::hang_record(sentence), at_most);
  return answer && answer->status == 200;
}

std::optional<model::Grant> Lease::granted_now(milliseconds at_most) {
  const auto job = job_now(at_most);
  if (!job || job->grants.empty()) return std::nullopt;
  return job->grants.front();
}

bool Lease::is_preempted(milliseconds at_most) {
  const auto job = job_now(at_most);
  return job && job->told_to_end && job->told_to_end->state == JobState::kWaiting;
}

Status Lease::ask_for_next_try(const model::QueuedTry& next, milliseconds at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  const auto left = [&] {
    return std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
  };
  if (asking_) forget_connection();
  for (;;) {
    auto again = client_ ? Result<Client>(*std::move(client_)) : Client::connect(socket_, left());
    if (again) {
      client_ = *std::move(again);
      const auto answer = client_->call("POST", path_of(job_.id, "/next-try"),
                                        broker::record_of(next), std::max(milliseconds(1), left()));
      if (answer) {
        const auto job = job_in(*answer);
        return job ? Status(Done{}) : Status(job.error());
      }
      forget_connection();
      if (!went_away(answer.error()) || left().count() <= 0) return answer.error();
    } else if (left().count() <= 0) {
      return std::move(again).error();
    }
    // A new broker may be starting, so wait 200 ms before the next attempt.
    ::poll(nullptr, 0, 200);
  }
}

void Lease::forget_connection() {
  if (client_) socket_ = client_->socket();
  client_.reset();
  asking_ = false;
}

Status Lease::reconnect() {
  if (client_) return Done{};
  auto again = reach_again(socket_, program_);
  if (!again) return std::move(again).error();
  client_ = *std::move(again);
  return Done{};
}

/// Repeats the call if the broker disconnects. The job is in the broker's journal, so the next
/// broker continues with it.
Result<Response> Lease::call(std::string_view method, const std::string& path,
                             const std::string& body) {
  Result<Response> answer = Response{};
  if (asking_) forget_connection();
  do {
    if (auto here = reconnect(); !here) return std::move(here).error();
    following_.begin();
    answer = client_->call(method, path, body);
    if (!answer) forget_connection();
  } while (!answer && went_away(answer.error()) && following_.goes_on());
  return answer;
}

}  // namespace berth::client
