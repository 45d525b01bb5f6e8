// `berth guard check`: tests the guard with this machine's driver, in a child process that loads
// the guard.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/look.hpp"
#include "cli/self_test.hpp"
#include "cli/verbs.hpp"
#include "guard/self_test.hpp"
#include "guard/setup.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"
#include "run/job_folder.hpp"
#include "system/spawn.hpp"

namespace berth::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kQuota = 256U << 20U;
// The variable that marks the child process and holds its quota; not set in the parent.
constexpr const char* kInside = "BERTH_GUARD_SELF_TEST";

const model::Device* first_gpu(const model::Snapshot& snapshot) {
  for (const model::Device& device : snapshot.devices)
    if (device.kind == model::DeviceKind::kGpu && device.vendor == model::Vendor::kNvidia &&
        device.managed)
      return &device;
  return nullptr;
}

/// Reads the descriptor until the end of its data, or until the time `end`.
std::string read_until(int from, Clock::time_point end) {
  std::string all;
  std::array<char, 4096> part{};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wait{from, POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return all;
    const ssize_t n = ::read(from, part.data(), part.size());
    if (n <= 0) return all;
    all.append(part.data(), static_cast<std::size_t>(n));
  }
}

std::string json_of(const guard::SelfTest& test, const model::Device& gpu,
                    const model::Snapshot& snapshot) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("holds", all_hold(test));
  json.field("device", gpu.index);
  json.field("driver_version", snapshot.driver.version);
  json.field("simulated", snapshot.host.simulated);
  json.field("quota_bytes", kQuota);
  json.rows("checks", test.checks, [&](const guard::SelfTest::Check& check) {
    json.field("id", check.id);
    json.field("holds", check.holds);
    json.field("words", words_of_check(check.id));
  });
  json.field("unknown_functions", test.unknown);
  json.close('}');
  return json.finish();
}

std::string text_of(const guard::SelfTest& test, const model::Device& gpu,
                    const model::Snapshot& snapshot, const output::Terminal& terminal) {
  std::string out = text("GPU {} {}, driver {}, quota {}", gpu.index, gpu.name,
                         snapshot.driver.version, show_bytes(kQuota)) +
                    "\n";
  output::Table table({{text("check")}, {text("result")}});
  for (const guard::SelfTest::Check& check : test.checks)
    table.add({words_of_check(check.id), !check.holds   ? text("not in this driver")
                                         : *check.holds ? text("passed")
                                                        : text("failed")});
  out += table.render(terminal);
  for (const std::string& name : test.unknown)
    out +=
        text("Berth does not know this function; a program that uses it may exceed the quota: {}",
             name) +
        "\n";
  out +=
      (all_hold(test) ? text("the guard enforces a memory quota with this driver")
                      : text("the guard does not fully enforce a memory quota with this driver")) +
      "\n";
  return out;
}

Result<int> check(const Context& context) {
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  const model::Device* gpu = first_gpu(*snapshot);
  if (gpu == nullptr)
    return Error{ErrorCode::kNoDevice, "E0957",
                 text("there is no NVIDIA GPU with a working driver to try the guard on"),
                 "berth doctor"};
  const auto folder = run::make_job_folder();
  if (!folder) return folder.error();
  model::Request request;
  request.memory_bytes = kQuota;
  model::Placement placement;
  placement.devices = {gpu->index};
  const auto setup =
      guard::Setup::make(*folder, 0, request, placement, *snapshot, guard::Keep::kInMemory);
  std::map<std::string, std::string> variables{{"CUDA_VISIBLE_DEVICES", gpu->uuid}};
  if (setup) setup->set_variables(variables);
  const auto test =
      setup ? self_test_in_child(variables, kQuota) : Result<guard::SelfTest>(setup.error());
  if (setup) setup->remove();
  run::remove_job_folder(*folder);
  if (!test) return test.error();
  context.out(context.json ? json_of(*test, *gpu, *snapshot)
                           : text_of(*test, *gpu, *snapshot, context.out_terminal));
  return all_hold(*test) ? 0 : 1;
}

}  // namespace

Result<guard::SelfTest> self_test_in_child(std::map<std::string, std::string> variables,
                                           std::uint64_t quota) {
  constexpr std::chrono::seconds kPatience(60);
  variables[kInside] = std::to_string(quota);
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return Error{ErrorCode::kUnavailable, "E0958",
                 text("the self-test cannot be started: {}", error_words(errno)), ""};
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  std::map<std::string, std::optional<std::string>> before;
  for (const auto& [name, value] : variables) {
    before[name] = env(name.c_str());
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  system::Start start;
  start.program = "/proc/self/exe";
  start.words = {"berth", "guard", "check"};
  start.out = to.get();
  // The guard prints a message for each refusal. In this test refusals are expected, so discard the
  // messages.
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  start.err = nowhere ? nowhere.get() : 2;
  const system::Spawned child = system::spawn(start);
  for (const auto& [name, value] : before)
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  to.reset();
  if (child.problem != 0)
    return Error{ErrorCode::kUnavailable, "E0958",
                 text("the self-test cannot be started: {}", error_words(child.problem)), ""};
  const std::string said = read_until(from.get(), Clock::now() + kPatience);
  // The child has ended, or it hangs in the driver. In the driver, even SIGKILL may not end it.
  ::kill(child.pid, SIGKILL);
  for (int tries = 0; tries < 500 && ::waitpid(child.pid, nullptr, WNOHANG) == 0; ++tries)
    ::usleep(10'000);
  auto test = guard::read_self_test(said);
  if (!test.step.empty())
    return Error{ErrorCode::kUnavailable, "E0958",
                 test.error < 0
                     ? text("the driver's library cannot be loaded")
                     : text("{} failed with CUDA error {}", printable(test.step), test.error),
                 "berth doctor"};
  if (test.checks.empty())
    return Error{ErrorCode::kUnavailable, "E0958", text("the self-test crashed or hung"),
                 "berth doctor"};
  return test;
}

std::string words_of_check(const std::string& id) {
  if (id == "total") return text("the program sees the quota as the device's memory");
  if (id == "within") return text("half of the quota is granted");
  if (id == "over") return text("one byte more than the quota is refused");
  if (id == "freed") return text("freed memory is granted again");
  if (id == "path linked") return text("calls through linked symbols reach the guard");
  if (id.starts_with("path ")) return text("calls through {} reach the guard", id.substr(5));
  return text("a call of {} beyond the quota is refused", id);
}

bool all_hold(const guard::SelfTest& test) {
  return test.unknown.empty() && std::all_of(test.checks.begin(), test.checks.end(),
                                             [](const auto& one) { return one.holds != false; });
}

Result<int> run_guard(const Context& context) {
  if (const char* quota = std::getenv(kInside);                     // NOLINT(concurrency-mt-unsafe)
      quota != nullptr && std::getenv("BERTH_GUARD") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    guard::run_self_test(std::strtoull(quota, nullptr, 10), 1);
    return 0;
  }
  const auto& words = context.arguments.positional;
  if (words.size() != 1 || words.front() != "check")
    return Error{ErrorCode::kInvalidArgument, "E0959",
                 text("berth guard has no subcommand {}",
                      words.empty() ? "''" : "'" + printable(words.front()) + "'"),
                 "berth guard check"};
  return check(context);
}

}  // namespace berth::cli
