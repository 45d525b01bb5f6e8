#include "engines/kube_verify.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"

using namespace berth::engines;
using berth::ErrorCode;

TEST_CASE("the pod of berth k8s verify asks for one share and has no rights") {
  VerifyPod pod;
  pod.name = "p";
  pod.image = "r/berth:1";
  pod.runtime_class = "nvidia";
  const auto json = nlohmann::json::parse(verify_pod(pod));
  const auto& spec = json["spec"];
  CHECK(spec["runtimeClassName"] == "nvidia");
  CHECK(spec["automountServiceAccountToken"] == false);
  const auto& container = spec["containers"][0];
  CHECK(container["resources"]["limits"]["berth.dev/gpu-share"] == 1);
  CHECK(container["securityContext"]["capabilities"]["drop"][0] == "ALL");
  CHECK_FALSE(json["metadata"].contains("namespace"));
  pod.runtime_class = "";
  CHECK_FALSE(nlohmann::json::parse(verify_pod(pod))["spec"].contains("runtimeClassName"));
}

TEST_CASE("the state of a pod says why it waits") {
  const auto pending = pod_state(
      R"({"spec":{},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",
          "reason":"Unschedulable","message":"0/1 nodes are available"}]}})");
  REQUIRE(pending);
  CHECK_FALSE(pending->is_scheduled());
  CHECK(pending->waiting == "Unschedulable: 0/1 nodes are available");
  const auto no_image = pod_state(
      R"({"spec":{"nodeName":"n"},"status":{"phase":"Pending","containerStatuses":[{"state":{"waiting":
          {"reason":"ErrImageNeverPull","message":"not present"}}}]}})");
  REQUIRE(no_image);
  CHECK(no_image->is_hopeless);
  CHECK(no_image->is_scheduled());
  const auto done = pod_state(R"({"spec":{"nodeName":"n"},"status":{"phase":"Succeeded"}})");
  REQUIRE(done);
  CHECK(done->is_over());
  CHECK(done->waiting.empty());
}

TEST_CASE("hostile answers of kubectl are errors, not values") {
  for (const char* wrong : {"", "{", "[]", "3", R"({"status":3})", R"({"status":null})"})
    CHECK_FALSE(pod_state(wrong));
  const auto odd = pod_state(
      R"({"spec":[],"status":{"phase":7,"conditions":[3],"containerStatuses":[null,{"state":[]}]}})");
  REQUIRE(odd);
  CHECK(odd->phase.empty());
  for (const char* wrong : {"{}", R"({"items":3})", R"({"items":[]})", R"({"items":[[]]})"})
    CHECK_FALSE(installed_plugin(wrong));
  const auto installed = installed_plugin(
      R"({"items":[{"spec":{"template":{"spec":{"runtimeClassName":"nvidia","containers":[{"image":"r/b:1"}]}}}}]})");
  REQUIRE(installed);
  CHECK(installed->image == "r/b:1");
  CHECK(installed->runtime_class == "nvidia");
  for (const char* wrong : {R"({"checks":3})", R"({"checks":[],"devices":"x"})",
                            R"({"checks":[{"id":1}],"devices":[],"guard":true,"quota_bytes":null,
                                "unknown_functions":[]})"}) {
    std::string line = wrong;
    line.erase(std::remove(line.begin(), line.end(), '\n'), line.end());
    CHECK_FALSE(inside_report(line));
  }
}

TEST_CASE("what a container reports is read back, and judged") {
  InsideReport good;
  good.devices = {"GPU-1"};
  good.has_guard = true;
  good.quota_bytes = 1U << 30U;
  good.checks = {{"over", true}, {"cuMemCreate", std::nullopt}};
  const auto read = inside_report("a line of the runtime\n" + inside_line(good));
  REQUIRE(read);
  CHECK(read->devices == good.devices);
  CHECK(read->quota_bytes == good.quota_bytes);
  CHECK(read->checks.size() == 2);
  CHECK_FALSE(read->checks[1].holds);
  CHECK(problem_of(*read, true) == VerifyProblem::kNone);

  auto other = good;
  other.checks[0].holds = false;
  CHECK(problem_of(other, true) == VerifyProblem::kBroken);
  other = good;
  other.checks.clear();
  CHECK(problem_of(other, true) == VerifyProblem::kBroken);
  other = good;
  other.unknown = {"cuMemTakeTomorrow"};
  CHECK(problem_of(other, true) == VerifyProblem::kBroken);
  other = good;
  other.has_guard = false;
  CHECK(problem_of(other, true) == VerifyProblem::kNoGuard);
  other.quota_bytes.reset();
  CHECK(problem_of(other, true) == VerifyProblem::kNoQuota);
  CHECK(problem_of(other, false) == VerifyProblem::kNone);
  other.limits_failure = "the guard cannot use /run/berth/guard/limits";
  CHECK(inside_report(inside_line(other))->limits_failure == other.limits_failure);
  CHECK(problem_of(other, true) == VerifyProblem::kNoQuota);
  other.failure = "the driver's library cannot be loaded";
  CHECK(problem_of(other, false) == VerifyProblem::kNoDevice);
  other.failure.clear();
  other.devices.clear();
  CHECK(problem_of(other, true) == VerifyProblem::kNoDevice);
}

TEST_CASE("a container without its device points at a containerd that has no CDI") {
  const auto old = advice_for(VerifyProblem::kNoDevice, "containerd://1.6.20~ds1");
  CHECK(old.find("containerd 2") != std::string::npos);
  CHECK(advice_for(VerifyProblem::kNoDevice, "containerd://2.3.7").find("containerd 2") ==
        std::string::npos);
  CHECK(advice_for(VerifyProblem::kNoDevice, "").find("containerd 2") == std::string::npos);
}
