// The devices that a kubelet is offered on this machine, and what a container gets for those that
// it was allocated. Pure: uses neither gRPC nor files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// A GPU, or a MIG slice of a GPU.
struct KubeUnit {
  std::string uuid;
  std::string profile;   // "1g.10gb"; "" for a whole GPU
  std::string model;     // "NVIDIA GeForce RTX 4090"
  std::string pci;       // "0000:01:00.0"; "" if it is not known
  std::string pci_path;  // as model::Device has it
  std::vector<model::NvLinkPeer> nvlink_peers;
  std::optional<std::uint32_t> minor;
  std::optional<int> numa;
  std::optional<std::uint64_t> memory_bytes;
  bool healthy = true;
  std::string why;    // if it is unhealthy: the reason for people; otherwise ""
  std::string fault;  // the reason as a word for programs: "no-answer", "memory-errors", "xid-79"
  bool unguarded = false;  // a program in a pod with a share uses memory without the guard
};

enum class KubePass : unsigned char {
  kEnv,    // NVIDIA_VISIBLE_DEVICES, for NVIDIA's container runtime
  kCdi,    // CDI names such as nvidia.com/gpu=…, for a runtime with CDI
  kNodes,  // only device nodes, so the image must contain the driver's libraries
};

struct KubeConfig {
  int shares = 0;  // number of shares of each whole GPU; 0: GPUs are not shared
  KubePass pass = KubePass::kEnv;
  /// The memory of whole GPUs is offered in steps of this size; 0: memory is not offered.
  std::uint64_t memory_step_bytes = 0;
};

/// An allocatable device.
struct KubeDevice {
  std::string id;  // the uuid of the unit; for a share or step, followed by its number ("::3")
  bool healthy = true;
  std::string why;
  std::optional<int> numa;
  std::optional<std::uint64_t> memory_limit_bytes;  // memory of a share or step
};

struct KubeResource {
  // "berth.dev/gpu", "berth.dev/gpu-share", "berth.dev/gpu-memory" or "berth.dev/mig-1g.10gb"
  std::string name;
  std::vector<KubeDevice> devices;
};

/// The NVIDIA GPUs that have a uuid. A GPU with MIG enabled is offered as its slices.
[[nodiscard]] std::vector<KubeUnit> kube_units(const model::Snapshot& snapshot);
/// Adds units that were known before but have disappeared, as unhealthy. If the driver reports less
/// about an unhealthy unit than before, the unit keeps the earlier values.
[[nodiscard]] std::vector<KubeUnit> with_missing(std::vector<KubeUnit> seen,
                                                 const std::vector<KubeUnit>& before);
[[nodiscard]] std::vector<KubeResource> kube_resources(const std::vector<KubeUnit>& units,
                                                       const KubeConfig& config);

/// uuid → the name of the group of GPUs that NVLinks connect, which is the uuid of its first GPU.
/// GPUs without an NVLink to another GPU are left out.
[[nodiscard]] std::map<std::string, std::string> nvlink_groups(const std::vector<KubeUnit>& units);

/// Chooses devices from `available` for a container. Prefers shares of one GPU, and GPUs that are
/// near each other (NVLink, PCIe switch, NUMA node), so that other GPUs and groups stay whole. The
/// result contains `required`.
[[nodiscard]] std::vector<std::string> preferred(const std::vector<KubeUnit>& units,
                                                 const std::vector<std::string>& available,
                                                 const std::vector<std::string>& required,
                                                 std::size_t size);

/// The memory of one of `shares` shares, in whole MiB. nullopt: the unit is not shared, or its
/// memory is not known.
[[nodiscard]] std::optional<std::uint64_t> share_of(const KubeUnit& unit, int shares);

struct KubeMount {
  std::string container, host;
  bool read_only = true;
};

/// What the container gets.
struct KubeAnswer {
  std::map<std::string, std::string> variables;
  std::vector<std::string> nodes;  // device nodes; they have the same path in the container
  std::vector<KubeMount> mounts;
  std::vector<std::string> cdi;
  std::map<std::string, std::uint64_t> limits;  // limit in bytes by uuid, which the guard enforces
};

/// Fails with kNotFound (E1031: `ids` is empty, or an id was not offered) and with kUnavailable
/// (E1032: a device is unhealthy; E1039: the steps of memory belong to more than one GPU).
[[nodiscard]] Result<KubeAnswer> kube_answer(const std::vector<std::string>& ids,
                                             const std::vector<KubeUnit>& units,
                                             const KubeConfig& config);

/// The folder on the node for the guard's files, to which the limits from kube_answer() are
/// written.
struct KubeGuard {
  std::string library, limits, usage;
};
void add_guard(KubeAnswer& answer, const KubeGuard& files);

/// Converts units to one line of JSON and back. Needed because the drivers are read in another
/// process than the server for the kubelet. Fails with kInvalidArgument (E1033).
[[nodiscard]] std::string units_line(const std::vector<KubeUnit>& units);
[[nodiscard]] Result<std::vector<KubeUnit>> units_in(const std::string& line);

}  // namespace berth::engines
