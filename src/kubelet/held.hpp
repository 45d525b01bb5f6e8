// Finds which devices of this node pods have, from the journal of claims and the kubelet's list of
// pods. `berth k8s reclaim` waits until no pod has one.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::kubelet {

/// Records that a container is getting these devices. The kubelet lists them only a moment later;
/// until then, this record counts. Fails with kUnavailable (E0520).
[[nodiscard]] Status note_given(const std::string& state, const std::vector<std::string>& ids);

/// Maps the id of each device that a pod has to the pod ("default/train"). `vendor` selects the
/// resources ("nvidia.com/"). `kubelet`: /var/lib/kubelet. nullopt if the kubelet's pod resources
/// API does not answer.
[[nodiscard]] std::optional<std::map<std::string, std::string>> pods_of(const std::string& kubelet,
                                                                        const char* vendor);

/// Returns JSON for the exporter:
/// {"pods":[{"device":"GPU-…","namespace":…,"pod":…,"container":…}]}. A device of a claim has the
/// name that its ResourceSlice gives it. Fails with kUnavailable (E1082).
[[nodiscard]] Result<std::string> pods_with_devices(const std::string& kubelet);

struct HeldSettings {
  std::string state;                         // folder of the journal
  std::string kubelet;                       // folder of the kubelet, usually /var/lib/kubelet
  std::chrono::milliseconds settle{10'000};  // how long the record of note_given() counts
};
/// Returns JSON for `berth k8s`: {"held":[{"device":"GPU-…" or "gpu-…","by":"default/train"}]}.
/// Fails with kUnavailable (E1082) if it cannot be found out which devices pods have.
[[nodiscard]] Result<std::string> held_devices(const HeldSettings& settings);

}  // namespace berth::kubelet
