#include "job/job.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/exit_code.hpp"
#include "base/language_for_tests.hpp"
#include "policy/candidates.hpp"
#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"
#include "system/temporary_tree.hpp"

namespace berth::job {
namespace {

using namespace std::chrono_literals;
using model::Snapshot;
using policy::machines::bare;
using policy::machines::nvidia;
using policy::machines::use;

const Error kNoBroker{ErrorCode::kUnavailable, "E0920", "no broker", ""};

/// A machine whose snapshots are given in advance. When there are no more, the last one repeats. It
/// has no broker.
class GivenMachine : public Machine {
 public:
  explicit GivenMachine(std::vector<Snapshot> snapshots) : snapshots_(std::move(snapshots)) {}

  Snapshot look(bool details) override {
    looks.push_back(details);
    return snapshots_[std::min(looks.size(), snapshots_.size()) - 1];
  }
  Result<model::Ledger> ledger() override { return held; }
  Result<std::optional<client::Lease>> lease_around(const model::Request& request) override {
    if (around && request.gpus.value_or(0) > *around)
      return Error{ErrorCode::kRefused, "E0421", "the lease is too small", ""};
    return std::optional<client::Lease>();
  }
  Result<client::Lease> take_lease(const client::Lease::Wishes& /*wishes*/,
                                   const Snapshot& /*snapshot*/, client::IfNone if_none) override {
    asked.push_back(if_none);
    return kNoBroker;
  }
  void pause(std::chrono::milliseconds duration) override { pauses.push_back(duration); }

  Result<model::Ledger> held = model::Ledger();
  std::optional<int> around;  // the number of devices in the lease around the job, if there is one
  std::vector<bool> looks;    // whether each call of look() read the details
  std::vector<client::IfNone> asked;
  std::vector<std::chrono::milliseconds> pauses;

 private:
  std::vector<Snapshot> snapshots_;
};

struct Notes {
  std::vector<std::string> sentences, hints;
  Note note = [this](const std::string& sentence, const std::vector<std::string>& more) {
    sentences.push_back(sentence);
    hints.insert(hints.end(), more.begin(), more.end());
  };
};

Spec one_gpu() {
  Spec spec;
  spec.job.request.gpus = 1;
  spec.job.command = {"true"};
  return spec;
}

Spec on_cpu(std::vector<std::string> command) {
  Spec spec;
  spec.job.request.gpus = 0;
  spec.job.command = std::move(command);
  return spec;
}

Snapshot all_used(int gpus) {
  Snapshot snapshot = nvidia(gpus);
  for (int i = 0; i < gpus; ++i) use(snapshot, i, 40);
  return snapshot;
}

model::Ledger first_gpu_held(const Snapshot& snapshot) {
  model::Ledger ledger;
  ledger.kept = true;
  ledger.holdings.push_back({7, "li", policy::unit_id(snapshot.devices.front(), nullptr), 0});
  return ledger;
}

TEST_CASE("a dry run looks once, takes no lease, and knows what other jobs hold") {
  GivenMachine machine({nvidia(2)});
  Notes notes;
  Spec spec = one_gpu();
  spec.dry_run = true;
  CHECK(make_plan(spec, machine, notes.note)->placement.devices == std::vector{0});
  machine.held = first_gpu_held(nvidia(2));
  CHECK(make_plan(spec, machine, notes.note)->placement.devices == std::vector{1});
  CHECK(machine.looks == std::vector{false, false});
  CHECK(machine.asked.empty());
  CHECK(notes.sentences.empty());
}

TEST_CASE("a dry run says that the devices of jobs are not known") {
  GivenMachine machine({nvidia(2)});
  machine.held = Error{ErrorCode::kUnavailable, "E0922", "no answer", "berth jobs"};
  Notes notes;
  Spec spec = one_gpu();
  spec.dry_run = true;
  CHECK(make_plan(spec, machine, notes.note));
  REQUIRE(notes.sentences.size() == 1);
  CHECK(notes.sentences[0] == "it is not known which jobs use which devices: no answer (E0922)");
  CHECK(notes.hints == std::vector<std::string>{"berth jobs"});
}

TEST_CASE("without a broker a job runs without a lease, and is told so") {
  GivenMachine machine({nvidia(2)});
  Notes notes;
  const auto plan = make_plan(one_gpu(), machine, notes.note);
  REQUIRE(plan);
  CHECK_FALSE(plan->lease);
  CHECK(plan->placement.devices == std::vector{0});
  CHECK(machine.looks == std::vector{false});
  CHECK(machine.asked == std::vector{client::IfNone::kStart});
  REQUIRE(notes.sentences.size() == 1);
  CHECK(notes.sentences[0].starts_with("no lease: no broker (E0920)"));
}

TEST_CASE("a job on the CPU starts no broker") {
  GivenMachine machine({nvidia(2)});
  Notes notes;
  CHECK(make_plan(on_cpu({"true"}), machine, notes.note)->placement.devices.empty());
  CHECK(machine.asked == std::vector{client::IfNone::kGlance});
  CHECK(notes.sentences.empty());
}

TEST_CASE("a request that waiting cannot help asks no broker") {
  GivenMachine machine({bare()});
  const auto plan = make_plan(one_gpu(), machine, Notes().note);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().id == "E0411");
  CHECK(machine.asked.empty());
  CHECK(machine.pauses.empty());
}

TEST_CASE("a job waits until a device is free, and says so once") {
  GivenMachine machine({all_used(2), all_used(2), all_used(2), nvidia(2)});
  Notes notes;
  const auto plan = make_plan(one_gpu(), machine, notes.note);
  REQUIRE(plan);
  CHECK(plan->placement.devices == std::vector{0});
  CHECK(machine.looks == std::vector{false, true, true, true});
  CHECK(machine.pauses == std::vector<std::chrono::milliseconds>{1000ms, 2000ms});
  REQUIRE(notes.sentences.size() == 2);
  CHECK(notes.sentences[1].starts_with("waiting: "));
  CHECK(notes.hints.back() == "berth run --no-wait …");
}

TEST_CASE("a job that may not wait is refused, and told who uses the devices") {
  for (const bool dry : {false, true}) {
    GivenMachine machine({all_used(2)});
    Spec spec = one_gpu();
    (dry ? spec.dry_run : spec.may_wait) = dry;
    const auto plan = make_plan(spec, machine, Notes().note);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().id == "E0412");
    CHECK(machine.looks == std::vector{false, true});
    CHECK(machine.pauses.empty());
    CHECK(exit_code_of(plan.error(), spec.waits()) == kRefused);
  }
}

Spec some_ranks(int least, int most) {
  Spec spec;
  spec.job.command = {"true"};
  spec.supervision.ranks = run::RankWish{};
  spec.supervision.ranks->count = most;
  spec.supervision.ranks->least = least;
  return spec;
}

TEST_CASE("inside a lease there are as many ranks as it has devices, if they are enough") {
  GivenMachine machine({nvidia(8)});
  Notes notes;
  machine.around = 3;
  const auto plan = make_plan(some_ranks(2, 4), machine, notes.note);
  REQUIRE(plan);
  CHECK(plan->placement.devices.size() == 3);
  machine.around = 1;
  const auto refused = make_plan(some_ranks(2, 4), machine, notes.note);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().id == "E0421");
}

TEST_CASE("a refusal of ranks names --ranks, and no part of a device") {
  GivenMachine machine({nvidia(4)});
  Spec spec = some_ranks(2, 8);
  spec.supervision.ranks->least.reset();
  CHECK(make_plan(spec, machine, Notes().note).error().hint ==
        "berth run --ranks 4 …\nberth run --ranks 8 --oversubscribe …");
  spec.supervision.ranks->gpus_per_rank = 2;
  CHECK(make_plan(spec, machine, Notes().note).error().hint ==
        "berth run --ranks 2 --gpus-per-rank 2 …");
}

TEST_CASE("a number of ranks is tried only if the machine has the devices") {
  GivenMachine machine({nvidia(4)});
  Notes notes;
  auto& held = machine.held->holdings;
  machine.held->kept = true;
  for (const model::Device& device : nvidia(4).devices)
    held.push_back({7, "li", policy::unit_id(device, nullptr), 0});
  Spec spec = some_ranks(2, 1024);
  spec.may_wait = false;
  CHECK(make_plan(spec, machine, notes.note).error().id == "E0412");
  CHECK(machine.asked.size() == 3);
  machine.asked.clear();
  spec.job.request.gpus = 4;
  CHECK(make_plan(spec, machine, notes.note).error().id == "E0412");
  CHECK(machine.asked.size() == 1);
}

TEST_CASE("--or-cpu-after: a job without a broker turns to the CPU") {
  GivenMachine machine({all_used(2)});
  Notes notes;
  Spec spec = one_gpu();
  spec.job.or_cpu_after = 0ms;
  const auto plan = make_plan(spec, machine, notes.note);
  REQUIRE(plan);
  CHECK(plan->placement.devices.empty());
  CHECK(plan->request.gpus == 0);
  CHECK(machine.pauses.size() == 1);
  CHECK(notes.sentences.back() == "the job waited 0 ms for GPUs, and now runs on the CPU");
  CHECK(plan->placement.reasons ==
        std::vector<std::string>{"on the CPU: the job waited 0 ms for GPUs"});

  GivenMachine without({bare()});
  const auto at_once = make_plan(spec, without, notes.note);
  REQUIRE(at_once);
  CHECK(at_once->placement.devices.empty());
  CHECK(without.pauses.empty());
}

TEST_CASE("the report's reasons are those of the placement, in the reader's language") {
  GivenMachine machine({nvidia(2)});
  machine.held = first_gpu_held(nvidia(2));
  const auto plan = make_plan(one_gpu(), machine, Notes().note);
  REQUIRE(plan);
  CHECK(reasons_of(*plan) == plan->placement.reasons);
  const InLanguage chinese(Language::kChinese);
  const auto again = reasons_of(*plan);
  CHECK(again != plan->placement.reasons);
  CHECK(again == policy::place(plan->request, plan->snapshot, plan->ledger)->reasons);
}

/// Runs perform() in a child process, because it closes descriptors and blocks signals permanently.
/// Returns the Caller's functions that were called, and the result, such as "start report:ok 0".
std::string steps_of(const Spec& spec, bool may_start = true) {
  std::array<int, 2> pipe{-1, -1};
  REQUIRE(::pipe(pipe.data()) == 0);
  const system::TemporaryTree runtime;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("BERTH_RUNTIME_DIR", runtime.path.c_str(), 1);
    ::close(pipe[0]);
    std::string steps;
    Caller caller;
    caller.note = [](const std::string&, const std::vector<std::string>&) {};
    caller.show_plan = [&](const Plan&) { steps += "plan "; };
    caller.before_start = [&]() -> Status {
      steps += "start ";
      return may_start ? Status(Done{}) : Status(Error{ErrorCode::kUnavailable, "E0515", "no", ""});
    };
    const auto add = [&](const char* step, const model::Report& report) {
      steps += step + std::string(model::name(report.outcome.kind)) + " ";
    };
    caller.report = [&](const MakeReport& make) { add("report:", make()); };
    caller.report_no_start = [&](const MakeReport& make, const Error& error) {
      steps += error.id + " ";
      add("no start:", make());
    };
    GivenMachine machine({bare()});
    run::Inherited inherited = run::inherit();
    std::erase(inherited.descriptors, pipe[1]);
    const auto code = perform(spec, machine, caller, inherited);
    steps += code ? std::to_string(*code) : code.error().id;
    const auto written = ::write(pipe[1], steps.data(), steps.size());
    ::_exit(written > 0 ? 0 : 1);
  }
  ::close(pipe[1]);
  std::string steps(200, '\0');
  const auto n = ::read(pipe[0], steps.data(), steps.size());
  ::close(pipe[0]);
  ::waitpid(child, nullptr, 0);
  steps.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return steps;
}

TEST_CASE("one job from request to report, step by step") {
  CHECK(steps_of(on_cpu({"true"})) == "start report:ok 0");
  CHECK(steps_of(on_cpu({"sh", "-c", "exit 7"})) == "start report:failed 7");
  CHECK(steps_of(on_cpu({"/nonexistent/command"})) == "start E0510 no start:not_found 127");
  CHECK(steps_of(on_cpu({"true"}), false) == "start E0515");
  CHECK(steps_of(one_gpu()) == "E0411");
  Spec dry = on_cpu({"/nonexistent/command"});
  dry.dry_run = true;
  CHECK(steps_of(dry) == "plan 0");
}

}  // namespace
}  // namespace berth::job
