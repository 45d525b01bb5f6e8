// `berth k8s verify`: makes a pod that tries to exceed its quota, and interprets its state. Pure:
// kubectl is called elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::engines {

struct VerifyPod {
  std::string name, space;  // `space`: the namespace; "": kubectl's default namespace
  std::string image;        // an image that contains `berth`
  std::string resource = "berth.dev/gpu-share";  // the resource that the pod requests
  std::string runtime_class;                     // "": the node's default runtime
};

/// The pod as JSON, for `kubectl create`.
[[nodiscard]] std::string verify_pod(const VerifyPod& pod);

/// The image and the runtime class that the installed DaemonSet uses: Berth's device plugin or
/// Berth's driver.
struct InstalledPlugin {
  std::string image, runtime_class;
};
/// Parses the output of `kubectl get daemonset -l … -o json`. Fails with kUnavailable (E0968) if it
/// cannot be parsed or lists no DaemonSet.
[[nodiscard]] Result<InstalledPlugin> installed_plugin(const std::string& json);

struct PodState {
  std::string phase;    // "Pending", "Running", "Succeeded", "Failed"
  std::string node;     // the node's name; "": the pod is not scheduled yet
  std::string waiting;  // why it has not started, in Kubernetes' words; "" if not known
  /// The pod waits for something that a retry cannot fix, such as a wrong image.
  bool is_hopeless = false;

  [[nodiscard]] bool is_scheduled() const { return !node.empty(); }
  [[nodiscard]] bool is_over() const { return phase == "Succeeded" || phase == "Failed"; }
};
/// Parses the output of `kubectl get pod -o json`. Fails with kUnavailable (E0968).
[[nodiscard]] Result<PodState> pod_state(const std::string& json);

/// What `berth k8s verify --inside` found in a container.
struct InsideReport {
  struct Check {
    std::string id;
    std::optional<bool> holds;
  };
  /// Devices that Berth's plugin gave to the container; empty: none.
  std::vector<std::string> devices;
  bool has_guard = false;  // the guard is loaded into the program
  /// The smallest limit of all devices. nullopt: a device has no limit, or the limits are not known
  /// and `limits_failure` says why.
  std::optional<std::uint64_t> quota_bytes;
  std::string limits_failure;  // why the limits cannot be read; "" if they can
  std::string failure;         // why the driver could not be used; "" if it could
  std::vector<Check> checks;
  std::vector<std::string> unknown;
};
[[nodiscard]] std::string inside_line(const InsideReport& report);
/// Reads the report from the pod's log. Fails with kUnavailable (E0968) if the log contains no
/// report.
[[nodiscard]] Result<InsideReport> inside_report(const std::string& log);

enum class VerifyProblem : unsigned char {
  kNone,
  kNotScheduled,
  kNotStarted,
  kNoDevice,  // the container has no device
  kNoGuard,   // the container has a device and a quota, but no guard
  /// The container has a share of a GPU, but no limit. Only whole GPUs may have no limit.
  kNoQuota,
  kBroken,  // the quota is not enforced
};
[[nodiscard]] const char* name_of(VerifyProblem problem);
[[nodiscard]] VerifyProblem problem_of(const InsideReport& report, bool is_share);
/// What the user can do about the problem. `runtime`: "containerd://1.6.20", or "" if it is not
/// known.
[[nodiscard]] std::string advice_for(VerifyProblem problem, const std::string& runtime);

}  // namespace berth::engines
