// Dynamic resource allocation (resource.k8s.io/v1): the ResourceSlices of this machine, what was
// allocated to a claim, and the CDI file that gives it to containers. Pure.
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
/// unless it tolerates the taint; pods that run are left running.
inline constexpr const char* kUnhealthyTaint = "gpu.berth.dev/unhealthy";
/// The taint of a device in Berth's own queue. No claim gets it, even one that tolerates the taint.
inline constexpr const char* kOwnQueueTaint = "gpu.berth.dev/own-queue";
/// The taint of a device that another program may give to pods. No claim gets it either.
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
  std::string digest;  // of all attributes; shows whether the published slice is current
  /// The ResourceSlice as JSON. `generation`: that of the pool. `version`: the
  /// metadata.resourceVersion that it replaces, or "". `since`: PublishedSlice::tainted of the
  /// slice that it replaces.
  [[nodiscard]] std::string json(std::uint64_t generation, std::size_t slices,
                                 const std::string& version,
                                 const std::map<std::string, std::string>& since = {}) const;
  std::string node, node_uid, devices;  // `devices`: a JSON array
};

[[nodiscard]] std::vector<Slice> resource_slices(const std::vector<KubeUnit>& units,
                                                 const SliceSettings& settings);

/// A slice as the API server has it.
struct PublishedSlice {
  std::string name, digest, version;
  std::uint64_t generation = 0, slices = 0;
  bool is_consumable = false;  // the server kept allowMultipleAllocations
  /// When each taint was added, by "DEVICE KEY=VALUE". Empty if the server dropped the taints.
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
/// Read the API server's answer to a trial slice. nullopt: it cannot be read.
[[nodiscard]] std::optional<bool> keeps_divided(const std::string& json);
[[nodiscard]] std::optional<bool> keeps_taints(const std::string& json);

struct ClaimDevice {
  std::string request, pool, device, share;   // share: the id of a part of a device, or ""
  std::optional<std::uint64_t> memory_bytes;  // consumed capacity, or the size of a share
  bool tolerates = false;                     // the claim tolerates that the device is unhealthy
};
/// The units that may be published. Leaves out units that claims hold under an old name, or with an
/// old share size, from before a change of `settings`. The scheduler does not know that both names
/// mean the same memory. `withheld`: the names of the omitted units.
[[nodiscard]] std::vector<KubeUnit> publishable(const std::vector<KubeUnit>& units,
                                                const SliceSettings& settings,
                                                const std::vector<ClaimDevice>& held,
                                                std::vector<std::string>& withheld);

struct Claim {
  std::string space, name, uid;
  std::vector<ClaimDevice> devices;  // devices of this driver and pool
};
/// Reads a ResourceClaim. Fails with kUnavailable (E0969) if it cannot be read, and with kNotFound
/// (E1031) if the uid differs, or nothing of this driver is allocated to it (E1078: only devices of
/// another node).
[[nodiscard]] Result<Claim> claim_in(const std::string& json, const std::string& uid,
                                     const std::string& pool);

/// A new claim with the memory of each share. The memory stays the same even if `--shares` changes
/// later. Fails with kNotFound (E1031: a device is not offered) and with kUnavailable (E1032: a
/// part of a GPU has no size, or a shared GPU was allocated as a whole).
[[nodiscard]] Result<Claim> sized_claim(Claim claim, const std::vector<KubeUnit>& units,
                                        const KubeConfig& config);
/// What the containers of a claim with known sizes get. Fails as kube_answer() does.
[[nodiscard]] Result<KubeAnswer> claim_answer(const Claim& claim,
                                              const std::vector<KubeUnit>& units,
                                              const KubeConfig& config);

/// Whether a device of a slice is this unit, or a share of it.
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
/// "https://10.96.0.1:443", "https://[fd00::1]". nullopt if the text has another form.
[[nodiscard]] std::optional<ApiAddress> api_address(std::string_view url);
/// Whether Kubernetes allows this name for a node.
[[nodiscard]] bool is_node_name(const std::string& name);

/// A quantity of Kubernetes in bytes: "6Gi", "1500M", "2e9", "7". nullopt if the text is not a
/// quantity, or not a whole number of bytes.
[[nodiscard]] std::optional<std::uint64_t> quantity_bytes(const std::string& text);
/// Whether a uid can be used as a file name.
[[nodiscard]] bool is_safe_uid(const std::string& uid);

}  // namespace berth::engines
