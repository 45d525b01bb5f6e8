// Dynamic resource allocation (resource.k8s.io/v1): the ResourceSlices of this machine, the devices
// that were allocated to a claim, and the CDI file that adds these devices to containers. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engines/kube_devices.hpp"

namespace berth::engines {

inline constexpr const char* kDraDriver = "gpu.berth.dev";
/// The taint of an unhealthy device; its value is KubeUnit::fault. No new claim gets the device,
/// unless it tolerates the taint. Pods that already use the device keep running.
inline constexpr const char* kUnhealthyTaint = "gpu.berth.dev/unhealthy";
/// The taint of a device in Berth's own queue. No claim gets it, even one that tolerates the taint.
inline constexpr const char* kOwnQueueTaint = "gpu.berth.dev/own-queue";
/// The taint of a device that another program may give to pods. No claim gets the device, even if
/// it tolerates the taint.
inline constexpr const char* kOtherPluginTaint = "gpu.berth.dev/other-plugin";

struct SliceSettings {
  std::string node, node_uid;
  int shares = 0;  // the most claims on one GPU; 0: a GPU belongs to one claim
  /// Whether the cluster divides the capacity of one device among claims. If it does not, each
  /// share is a device of its own.
  bool consumable = true;
  /// Whether the cluster keeps taints of devices. If it does not, an unhealthy device is left out.
  bool taints = true;
};

struct Slice {
  std::string name;
  std::string digest;  // hash of all attributes; shows whether the published slice is current
  /// Returns the ResourceSlice as JSON. `generation`: the generation of the pool. `version`: the
  /// metadata.resourceVersion of the slice that is replaced, or "". `since`:
  /// PublishedSlice::tainted of that slice.
  [[nodiscard]] std::string json(std::uint64_t generation, std::size_t slices,
                                 const std::string& version,
                                 const std::map<std::string, std::string>& since = {}) const;
  std::string node, node_uid, devices;  // `devices`: a JSON array
};

[[nodiscard]] std::vector<Slice> resource_slices(const std::vector<KubeUnit>& units,
                                                 const SliceSettings& settings);

/// A ResourceSlice that the API server has stored.
struct PublishedSlice {
  std::string name, digest, version;
  std::uint64_t generation = 0, slices = 0;
  bool is_consumable = false;  // the server kept the field allowMultipleAllocations
  /// Maps "DEVICE KEY=VALUE" to the time at which the taint was added. Empty if the server dropped
  /// the taints.
  std::map<std::string, std::string> tainted;
};
/// Reads a list of ResourceSlices. Fails with kUnavailable (E0969).
[[nodiscard]] Result<std::vector<PublishedSlice>> published_slices(const std::string& json);
[[nodiscard]] bool is_current(const std::vector<Slice>& wanted,
                              const std::vector<PublishedSlice>& published);

/// Whether a device of these slices is divided among claims.
[[nodiscard]] bool has_divided(const std::vector<Slice>& slices);
/// Whether a device of these slices has a taint.
[[nodiscard]] bool has_tainted(const std::vector<Slice>& slices);
/// A ResourceSlice to create with dryRun=All. The API server's answer shows whether it keeps
/// allowMultipleAllocations and taints. If it drops allowMultipleAllocations, one claim would get a
/// whole divided GPU. If it drops taints, a claim would get an unhealthy GPU.
[[nodiscard]] std::string trial_slice(const Slice& slice);
/// Reads the API server's answer to a trial slice. nullopt if the answer cannot be read.
[[nodiscard]] std::optional<bool> keeps_divided(const std::string& json);
[[nodiscard]] std::optional<bool> keeps_taints(const std::string& json);

struct ClaimDevice {
  /// `share`: the id of a part of the device, or "" for the whole device.
  std::string request, pool, device, share;
  std::optional<std::uint64_t> memory_bytes;  // consumed capacity, or the size of a share
  bool tolerates = false;  // the claim may have the device even if it is unhealthy
};
/// Returns the units that may be published. A unit is left out if a claim has it under a name or
/// share size from before a change of `settings`. If it were published, its memory could be
/// allocated twice. `withheld`: the names of the units left out.
[[nodiscard]] std::vector<KubeUnit> publishable(const std::vector<KubeUnit>& units,
                                                const SliceSettings& settings,
                                                const std::vector<ClaimDevice>& held,
                                                std::vector<std::string>& withheld);

struct Claim {
  std::string space, name, uid;
  std::vector<ClaimDevice> devices;  // devices of this driver and pool
};
/// Reads a ResourceClaim. Fails with kUnavailable (E0969) if it cannot be read. Fails with
/// kNotFound: E1031 if the uid differs or no device of this driver is allocated, E1078 if all
/// allocated devices belong to another node.
[[nodiscard]] Result<Claim> claim_in(const std::string& json, const std::string& uid,
                                     const std::string& pool);

/// Returns a new claim with the memory of each share stored, so that a later change of `--shares`
/// does not change it. Fails with kNotFound (E1031: a device is not offered) and with kUnavailable
/// (E1032: a part of a GPU has no size, or a shared GPU was allocated as a whole).
[[nodiscard]] Result<Claim> sized_claim(Claim claim, const std::vector<KubeUnit>& units,
                                        const KubeConfig& config);
/// What the containers of a claim get; the sizes of its shares must be known. Fails with the errors
/// of kube_answer().
[[nodiscard]] Result<KubeAnswer> claim_answer(const Claim& claim,
                                              const std::vector<KubeUnit>& units,
                                              const KubeConfig& config);

/// Whether the name of a device in a ResourceSlice means this unit, or a share of this unit.
[[nodiscard]] bool is_device_of(const std::string& device, const std::string& uuid);

/// The claim's name in CDI: "berth.dev/claim=UID".
[[nodiscard]] std::string claim_cdi_name(const std::string& uid);
/// The CDI file of a claim, version 0.5.0.
[[nodiscard]] std::string claim_cdi_file(const std::string& uid, const KubeAnswer& answer);

/// Convert a claim to a line of the journal and back. Fails with kUnavailable (E0969).
[[nodiscard]] std::string claim_line(const Claim& claim, const std::vector<std::string>& cdi);
struct JournalledClaim {
  Claim claim;
  std::vector<std::string> cdi;
};
[[nodiscard]] Result<JournalledClaim> journalled_claim(const std::string& line);

struct ApiAddress {
  std::string host, port;
};
/// Splits a URL such as "https://10.96.0.1:443" or "https://[fd00::1]". nullopt if it has another
/// form.
[[nodiscard]] std::optional<ApiAddress> api_address(std::string_view url);
/// Whether Kubernetes allows this name for a node.
[[nodiscard]] bool is_node_name(const std::string& name);

/// Converts a Kubernetes quantity to bytes: "6Gi", "1500M", "2e9", "7". nullopt if the text is not
/// a quantity, or not a whole number of bytes.
[[nodiscard]] std::optional<std::uint64_t> quantity_bytes(const std::string& text);
/// Whether a uid can be used as a file name.
[[nodiscard]] bool is_safe_uid(const std::string& uid);

}  // namespace berth::engines
