// Which devices of this node are allocated to pods, from the journal of claims and the kubelet's
// list of pods. `berth k8s reclaim` waits until there are none.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::kubelet {

/// Records that devices are being given to a container. The kubelet lists the devices a moment
/// later; until then, they count as given. Fails with kUnavailable (E0520).
[[nodiscard]] Status note_given(const std::string& state, const std::vector<std::string>& ids);

/// The pods that have a device of a vendor's resources ("nvidia.com/"): "default/train" by the id
/// of the device. `kubelet`: /var/lib/kubelet. nullopt if its pod resources API does not answer.
[[nodiscard]] std::optional<std::map<std::string, std::string>> pods_of(const std::string& kubelet,
                                                                        const char* vendor);

/// JSON for the exporter: {"pods":[{"device":"GPU-…","namespace":…,"pod":…,"container":…}]}. The
/// device of a claim has its name in the ResourceSlice. Fails with kUnavailable (E1082).
[[nodiscard]] Result<std::string> pods_with_devices(const std::string& kubelet);

struct HeldSettings {
  std::string state;                         // folder of the journal
  std::string kubelet;                       // folder of the kubelet, usually /var/lib/kubelet
  std::chrono::milliseconds settle{10'000};  // how long a device counts as given after note_given()
};
/// JSON for `berth k8s`: {"held":[{"device":"GPU-…" or "gpu-…","by":"default/train"}]}. Fails with
/// kUnavailable (E1082) if it is not known what pods have.
[[nodiscard]] Result<std::string> held_devices(const HeldSettings& settings);

}  // namespace berth::kubelet
