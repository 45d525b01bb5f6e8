#include "cli/k8s_verify.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/self_test.hpp"
#include "engines/kube_verify.hpp"
#include "guard/resize.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"
#include "system/child_run.hpp"

namespace berth::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPatience{60'000}, kLook{500};
constexpr milliseconds kTest{70'000};  // longer than the self-test in the pod, which may take 60 s

/// Adds the limits of all devices to the report, and returns them. The list is empty if there are
/// no limits.
std::vector<guard::ContainerLimit> read_limits(const std::string& folder,
                                               engines::InsideReport& report) {
  auto limits = guard::limits_in_container(folder);
  if (!limits) {
    report.limits_failure = limits.error().message;
    return {};
  }
  for (const guard::ContainerLimit& one : *limits) {
    if (!one.memory_bytes) {
      report.quota_bytes.reset();
      return {};
    }
    report.quota_bytes =
        std::min(report.quota_bytes.value_or(*one.memory_bytes), *one.memory_bytes);
  }
  return *std::move(limits);
}

/// Adds the self-test results of one device. A check counts as failed if it fails on any device.
void add_checks(const guard::SelfTest& test, engines::InsideReport& report) {
  for (const auto& check : test.checks) {
    const auto known = std::find_if(report.checks.begin(), report.checks.end(),
                                    [&](const auto& one) { return one.id == check.id; });
    if (known == report.checks.end())
      report.checks.push_back({check.id, check.holds});
    else if (known->holds != false && check.holds)
      known->holds = check.holds;
  }
  report.unknown = test.unknown;
}

engines::InsideReport look_inside() {
  engines::InsideReport report;
  if (const auto given = env_nonempty("BERTH_DEVICES"))
    for (const std::string_view uuid : split(*given, ',')) report.devices.emplace_back(uuid);
  std::vector<guard::ContainerLimit> limits;
  if (const auto folder = env_nonempty("BERTH_GUARD")) limits = read_limits(*folder, report);
  if (limits.empty()) {
    // Call the self-test with 0 bytes: it allocates no memory, and only shows whether the driver
    // answers.
    const auto test = self_test_in_child({{"BERTH_GUARD", "/nonexistent"}}, 0);
    if (!test) report.failure = test.error().message;
    return report;
  }
  for (const guard::ContainerLimit& one : limits) {
    // The self-test uses the first device that the program sees.
    std::map<std::string, std::string> variables;
    if (limits.size() > 1) variables["CUDA_VISIBLE_DEVICES"] = one.uuid;
    const auto test = self_test_in_child(variables, one.memory_bytes.value_or(0));
    if (!test) {
      report.failure = test.error().message;
      return report;
    }
    add_checks(*test, report);
  }
  report.has_guard = std::any_of(report.checks.begin(), report.checks.end(), [](const auto& check) {
    return check.id == "path linked" && check.holds == true;
  });
  return report;
}

std::string detail_of(const engines::InsideReport& report) {
  if (report.devices.empty())
    return text("BERTH_DEVICES is not set, so Berth's plugin gave the container no device");
  return report.failure.empty() ? report.limits_failure : report.failure;
}

struct Verdict {
  engines::VerifyProblem problem = engines::VerifyProblem::kNone;
  std::string detail;  // a message from Kubernetes or from the driver
  std::string node, runtime;
  engines::InsideReport inside;
};

std::string words_of(const Verdict& verdict) {
  using engines::VerifyProblem;
  switch (verdict.problem) {
    case VerifyProblem::kNone:
      return verdict.inside.quota_bytes ? text("the quota was enforced for every request")
                                        : text("the pod has a whole GPU, so no quota applies");
    case VerifyProblem::kNotScheduled:
      return text("no node was found for the pod");
    case VerifyProblem::kNotStarted:
      return text("the pod did not start");
    case VerifyProblem::kNoDevice:
      return text("the container runs without its device");
    case VerifyProblem::kNoGuard:
      return text("the guard is not loaded into the container's programs");
    case VerifyProblem::kNoQuota:
      return text("the container has a share without a memory limit");
    case VerifyProblem::kBroken:
      break;
  }
  return text("the quota is not enforced");
}

void print(const Context& context, const Verdict& verdict) {
  using engines::VerifyProblem;
  const bool holds = verdict.problem == VerifyProblem::kNone;
  const std::string advice = engines::advice_for(verdict.problem, verdict.runtime);
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("holds", holds);
    json.text_field("problem", engines::name_of(verdict.problem));
    json.field("words", words_of(verdict));
    json.text_field("detail", verdict.detail);
    json.text_field("advice", advice);
    json.text_field("node", verdict.node);
    json.text_field("runtime", verdict.runtime);
    json.field("devices", verdict.inside.devices);
    json.field("quota_bytes", verdict.inside.quota_bytes);
    json.rows("checks", verdict.inside.checks, [&](const engines::InsideReport::Check& check) {
      json.field("id", check.id);
      json.field("holds", check.holds);
      json.field("words", words_of_check(check.id));
    });
    json.field("unknown_functions", verdict.inside.unknown);
    json.close('}');
    context.out(json.finish());
    return;
  }
  std::string out;
  if (!verdict.node.empty())
    out += text("node {}, {}", printable(verdict.node),
                verdict.runtime.empty() ? text("runtime not known") : printable(verdict.runtime)) +
           "\n";
  for (const std::string& uuid : verdict.inside.devices)
    out +=
        text("device {}, quota {}", printable(uuid),
             verdict.inside.quota_bytes ? show_bytes(*verdict.inside.quota_bytes) : text("none")) +
        "\n";
  if (verdict.inside.quota_bytes && !verdict.inside.checks.empty()) {
    output::Table table({{text("check")}, {text("result")}});
    for (const auto& check : verdict.inside.checks)
      table.add({words_of_check(check.id), !check.holds   ? text("not in this driver")
                                           : *check.holds ? text("passed")
                                                          : text("failed")});
    out += table.render(context.out_terminal);
  }
  for (const std::string& name : verdict.inside.unknown)
    out +=
        text("Berth does not know this function; a program that uses it may exceed the quota: {}",
             printable(name)) +
        "\n";
  out += words_of(verdict) + "\n";
  if (!verdict.detail.empty()) out += "  " + printable(verdict.detail) + "\n";
  if (!advice.empty()) out += "\n" + text("hint: {}", advice) + "\n";
  context.out(out);
}

Error cannot(std::string message, std::string hint) {
  return {ErrorCode::kUnavailable, "E0968", std::move(message), std::move(hint)};
}

/// Runs kubectl and returns its output. Fails with kUnavailable (E0968), with kubectl's message.
Result<std::string> kubectl(std::vector<std::string> words, std::string input = {}) {
  words.insert(words.begin(), {"kubectl", "--request-timeout=20s"});
  static const std::atomic<bool> kNever = false;
  const auto done = system::run_child(
      {"kubectl", words, std::move(input), std::chrono::seconds(30), std::size_t{8} << 20U},
      kNever);
  if (done.problem != 0)
    return cannot(text("kubectl cannot be started: {}", error_words(done.problem)),
                  "https://kubernetes.io/docs/tasks/tools");
  if (!done.is_over) return cannot(text("kubectl did not answer within 30 s"), "kubectl get nodes");
  if (done.status != 0) {
    // The last line contains the reason; the lines before are client-go's log of the same message.
    const std::string said(trim(done.errors.substr(
        done.errors.find_last_of('\n', done.errors.find_last_not_of('\n')) + 1)));
    return cannot(text("kubectl {} failed: {}", words[2], printable(said)), "kubectl get nodes");
  }
  return done.output;
}

class Verifier {
 public:
  explicit Verifier(const Context& context) : context_(context) {}

  Result<int> run() {
    const Arguments& given = context_.arguments;
    if (const auto timeout = given.value("--timeout")) {
      const auto parsed = parse_duration(*timeout);
      if (!parsed || *parsed < std::chrono::seconds(1))
        return Error{ErrorCode::kInvalidArgument, "E1036",
                     text("--timeout: '{}' is not a time of at least 1 s", printable(*timeout)),
                     "berth k8s verify --timeout 2m"};
      patience_ = *parsed;
    }
    if (auto ready = describe(); !ready) return std::move(ready).error();
    auto created = kubectl(words({"create", "-f", "-"}), engines::verify_pod(pod_));
    if (!created) return std::move(created).error();
    const auto verdict = follow();
    if (const auto gone = kubectl(words({"delete", "pod", pod_.name, "--wait=false"})); !gone) {
      context_.err(text("note: {}", text("the pod {} could not be deleted: {}", pod_.name,
                                         gone.error().message)) +
                   "\n");
      context_.err(
          text("hint: {}", fmt::format("kubectl{} delete pod {}",
                                       pod_.space.empty() ? "" : " -n " + pod_.space, pod_.name)) +
          "\n");
    }
    if (!verdict) return verdict.error();
    print(context_, *verdict);
    return verdict->problem == engines::VerifyProblem::kNone ? 0 : 1;
  }

 private:
  [[nodiscard]] std::vector<std::string> words(std::vector<std::string> all) const {
    if (!pod_.space.empty()) all.insert(all.end(), {"--namespace", pod_.space});
    return all;
  }

  /// Reads the image and the runtime class from the installed DaemonSet, unless the user gave them.
  Status describe() {
    const Arguments& given = context_.arguments;
    std::random_device random;
    pod_.name = fmt::format("berth-verify-{:08x}", random());
    pod_.space = given.value("--namespace").value_or("");
    pod_.resource = given.value("--resource").value_or(pod_.resource);
    pod_.image = given.value("--image").value_or("");
    const auto runtime_class = given.value("--runtime-class");
    pod_.runtime_class = runtime_class.value_or("");
    if (!pod_.image.empty() && runtime_class) return Done{};
    auto found = kubectl({"get", "daemonset", "-n", "berth", "-o", "json", "-l",
                          "app.kubernetes.io/name in (berth-device-plugin,berth-dra)"});
    if (!found) return std::move(found).error();
    auto installed = engines::installed_plugin(*found);
    if (!installed && !pod_.image.empty()) return Done{};
    if (!installed) return std::move(installed).error();
    if (pod_.image.empty()) pod_.image = installed->image;
    if (!runtime_class) pod_.runtime_class = installed->runtime_class;
    return Done{};
  }

  Result<Verdict> follow() {
    auto end = Clock::now() + patience_;
    bool has_run = false;
    engines::PodState state;
    for (;;) {
      auto seen = kubectl(words({"get", "pod", pod_.name, "-o", "json"}));
      if (!seen) return std::move(seen).error();
      auto read = engines::pod_state(*seen);
      if (!read) return std::move(read).error();
      state = *std::move(read);
      if (state.is_over() || state.is_hopeless) break;
      // The time limit applies until the pod runs. From then on, the test in the pod gets a time
      // limit of its own: the same time, or kTest if that is longer.
      if (state.phase == "Running" && !std::exchange(has_run, true))
        end = Clock::now() + std::max(patience_, kTest);
      if (Clock::now() > end) break;
      std::this_thread::sleep_for(kLook);
    }
    return judge(state);
  }

  Result<Verdict> judge(const engines::PodState& state) {
    using engines::VerifyProblem;
    Verdict verdict;
    verdict.node = state.node;
    verdict.detail = state.waiting;
    if (!state.is_scheduled()) {
      verdict.problem = VerifyProblem::kNotScheduled;
      return verdict;
    }
    if (auto runtime = kubectl({"get", "node", state.node, "-o",
                                "jsonpath={.status.nodeInfo.containerRuntimeVersion}"});
        runtime)
      verdict.runtime = *std::move(runtime);
    auto log = kubectl(words({"logs", pod_.name}));
    if (state.phase == "Running" && (!log || log->empty()))
      return cannot(text("the pod runs, but its test did not finish"), "berth guard check");
    if (!log || log->empty()) {
      verdict.problem = VerifyProblem::kNotStarted;
      if (verdict.detail.empty()) verdict.detail = events();
      return verdict;
    }
    auto inside = engines::inside_report(*log);
    if (!inside) return std::move(inside).error();
    verdict.inside = *std::move(inside);
    verdict.problem = engines::problem_of(verdict.inside, pod_.resource == "berth.dev/gpu-share");
    verdict.detail = detail_of(verdict.inside);
    return verdict;
  }

  /// The newest event that Kubernetes reports about the pod, which tells why its container did not
  /// start.
  std::string events() {
    const auto found = kubectl(words({"get", "events", "--sort-by=.metadata.creationTimestamp",
                                      "--field-selector", "involvedObject.name=" + pod_.name, "-o",
                                      "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}"}));
    if (!found) return "";
    std::string last;
    for (const std::string_view line : split(*found, '\n'))
      if (!line.empty()) last = std::string(line);
    return last;
  }

  const Context& context_;
  engines::VerifyPod pod_;
  milliseconds patience_ = kPatience;
};

}  // namespace

Result<int> run_k8s_verify(const Context& context) {
  if (!context.arguments.has("--inside")) return Verifier(context).run();
  // The device is a share if the guard is present. This does not depend on whether its limits can
  // be read.
  const bool is_share = env_nonempty("BERTH_GUARD").has_value();
  const auto report = look_inside();
  if (context.json) {
    context.out(engines::inside_line(report));
    return 0;
  }
  Verdict verdict;
  verdict.inside = report;
  verdict.problem = engines::problem_of(report, is_share);
  verdict.detail = detail_of(report);
  print(context, verdict);
  return verdict.problem == engines::VerifyProblem::kNone ? 0 : 1;
}

}  // namespace berth::cli
