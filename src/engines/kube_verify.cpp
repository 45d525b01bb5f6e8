#include "engines/kube_verify.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::engines {
namespace {

using Json = nlohmann::json;

Error unreadable(const char* what) {
  return {ErrorCode::kUnavailable, "E0968", text("kubectl's answer cannot be read: {}", what),
          "kubectl version"};
}

std::string joined(const std::string& reason, const std::string& message) {
  return message.empty() ? reason : reason + ": " + message;
}

/// Whether this reason means that the pod will not start, however long we wait.
bool is_final(const std::string& reason) {
  return reason == "ErrImageNeverPull" || reason == "InvalidImageName" ||
         reason == "ImagePullBackOff" || reason == "CreateContainerConfigError";
}

/// Returns the major version: 1 for "containerd://1.6.20"; 0 if the runtime is not containerd.
int containerd_major(const std::string& runtime) {
  constexpr std::string_view kName = "containerd://";
  if (!runtime.starts_with(kName)) return 0;
  const auto number = runtime.substr(kName.size());
  return static_cast<int>(to_number(number.substr(0, number.find('.'))).value_or(0));
}

}  // namespace

std::string verify_pod(const VerifyPod& pod) {
  Json container{{"name", "verify"},
                 {"image", pod.image},
                 {"command", {"berth", "k8s", "verify", "--inside", "--json"}},
                 {"env",
                  {{{"name", "NVIDIA_DRIVER_CAPABILITIES"}, {"value", "compute,utility"}},
                   {{"name", "BERTH_RUNTIME_DIR"}, {"value", "/tmp"}}}},
                 {"securityContext",
                  {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}},
                 {"resources", {{"limits", {{pod.resource, 1}}}}}};
  Json spec{{"restartPolicy", "Never"},
            {"automountServiceAccountToken", false},
            {"terminationGracePeriodSeconds", 1},
            {"activeDeadlineSeconds", 300},
            {"tolerations", {{{"key", "nvidia.com/gpu"}, {"operator", "Exists"}}}},
            {"containers", Json::array({container})}};
  if (!pod.runtime_class.empty()) spec["runtimeClassName"] = pod.runtime_class;
  Json out{
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"name", pod.name}, {"labels", {{"app.kubernetes.io/name", "berth-verify"}}}}},
      {"spec", spec}};
  if (!pod.space.empty()) out["metadata"]["namespace"] = pod.space;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<InstalledPlugin> installed_plugin(const std::string& json) {
  const Json all = Json::parse(json, nullptr, false);
  const Json& items = json_member(all, "items");
  if (!items.is_array()) return unreadable("DaemonSetList");
  if (items.empty())
    return Error{ErrorCode::kUnavailable, "E0968",
                 text("Berth's DaemonSet is not installed in the namespace berth"),
                 "berth k8s verify --image IMAGE"};
  const Json& spec =
      json_member(json_member(json_member(items.front(), "spec"), "template"), "spec");
  const Json& containers = json_member(spec, "containers");
  if (!containers.is_array() || containers.empty()) return unreadable("DaemonSet");
  return InstalledPlugin{json_text(containers.front(), "image"),
                         json_text(spec, "runtimeClassName")};
}

Result<PodState> pod_state(const std::string& json) {
  const Json all = Json::parse(json, nullptr, false);
  const Json& status = json_member(all, "status");
  if (!status.is_object()) return unreadable("Pod");
  PodState state;
  state.phase = json_text(status, "phase");
  state.node = json_text(json_member(all, "spec"), "nodeName");
  if (const Json& conditions = json_member(status, "conditions"); conditions.is_array())
    for (const Json& one : conditions)
      if (json_text(one, "type") == "PodScheduled" && json_text(one, "status") == "False")
        state.waiting = joined(json_text(one, "reason"), json_text(one, "message"));
  if (const Json& containers = json_member(status, "containerStatuses"); containers.is_array())
    for (const Json& one : containers) {
      const Json& waiting = json_member(json_member(one, "state"), "waiting");
      if (!waiting.is_object()) continue;
      const std::string reason = json_text(waiting, "reason");
      if (reason == "ContainerCreating") continue;
      state.waiting = joined(reason, json_text(waiting, "message"));
      state.is_hopeless = is_final(reason);
    }
  // The kubelet has refused the pod, for example with "UnexpectedAdmissionError".
  if (const std::string reason = json_text(status, "reason"); !reason.empty())
    state.waiting = joined(reason, json_text(status, "message"));
  return state;
}

std::string inside_line(const InsideReport& report) {
  Json checks = Json::array();
  for (const InsideReport::Check& check : report.checks)
    checks.push_back(
        {{"id", check.id}, {"holds", check.holds ? Json(*check.holds) : Json(nullptr)}});
  const Json all{{"schema", 1},
                 {"devices", report.devices},
                 {"guard", report.has_guard},
                 {"quota_bytes", report.quota_bytes ? Json(*report.quota_bytes) : Json(nullptr)},
                 {"limits_failure",
                  report.limits_failure.empty() ? Json(nullptr) : Json(report.limits_failure)},
                 {"failure", report.failure.empty() ? Json(nullptr) : Json(report.failure)},
                 {"checks", checks},
                 {"unknown_functions", report.unknown}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<InsideReport> inside_report(const std::string& log) {
  for (const std::string_view line : split(log, '\n')) {
    if (!line.starts_with('{')) continue;
    const Json all = Json::parse(line, nullptr, false);
    if (!all.is_object() || !all.contains("checks")) continue;
    InsideReport report;
    try {
      read_json(all.at("devices"), report.devices);
      report.has_guard = all.at("guard").get<bool>();
      if (!all.at("quota_bytes").is_null())
        report.quota_bytes = json_value<std::uint64_t>(all.at("quota_bytes"));
      report.limits_failure = json_text(all, "limits_failure");
      report.failure = json_text(all, "failure");
      read_json(all.at("unknown_functions"), report.unknown);
      for (const Json& one : all.at("checks"))
        report.checks.push_back(
            {one.at("id").get<std::string>(), one.at("holds").is_null()
                                                  ? std::nullopt
                                                  : std::optional(one.at("holds").get<bool>())});
    } catch (const Json::exception&) {
      return unreadable("log");
    }
    return report;
  }
  return Error{ErrorCode::kUnavailable, "E0968",
               text("the pod did not report: {}", printable(log.substr(0, 200))),
               "kubectl get events"};
}

const char* name_of(VerifyProblem problem) {
  switch (problem) {
    case VerifyProblem::kNone:
      return "";
    case VerifyProblem::kNotScheduled:
      return "not_scheduled";
    case VerifyProblem::kNotStarted:
      return "not_started";
    case VerifyProblem::kNoDevice:
      return "no_device";
    case VerifyProblem::kNoGuard:
      return "no_guard";
    case VerifyProblem::kNoQuota:
      return "no_quota";
    case VerifyProblem::kBroken:
      break;
  }
  return "quota_broken";
}

VerifyProblem problem_of(const InsideReport& report, bool is_share) {
  if (report.devices.empty() || !report.failure.empty()) return VerifyProblem::kNoDevice;
  if (!is_share) return VerifyProblem::kNone;
  if (!report.quota_bytes) return VerifyProblem::kNoQuota;
  if (!report.has_guard) return VerifyProblem::kNoGuard;
  const bool broken =
      report.checks.empty() || !report.unknown.empty() ||
      std::any_of(report.checks.begin(), report.checks.end(),
                  [](const InsideReport::Check& check) { return check.holds == false; });
  return broken ? VerifyProblem::kBroken : VerifyProblem::kNone;
}

std::string advice_for(VerifyProblem problem, const std::string& runtime) {
  switch (problem) {
    case VerifyProblem::kNone:
      return "";
    case VerifyProblem::kNotScheduled:
      return "kubectl describe nodes | grep -A9 Allocatable";
    case VerifyProblem::kNotStarted:
      return "kubectl get events";
    case VerifyProblem::kNoDevice:
      if (containerd_major(runtime) == 1)
        return text(
            "{} may silently start containers without their CDI devices: install containerd 2, or "
            "pass devices with --pass env",
            runtime);
      return text(
          "the node's container runtime gave no GPU: check the RuntimeClass, or the CDI "
          "files in /etc/cdi and /var/run/cdi");
    case VerifyProblem::kNoGuard:
      return text("the image is not made for glibc, or clears LD_PRELOAD");
    case VerifyProblem::kNoQuota:
      return text("offer shares: berth k8s device-plugin --shares N");
    case VerifyProblem::kBroken:
      break;
  }
  return "berth guard check";
}

}  // namespace berth::engines
