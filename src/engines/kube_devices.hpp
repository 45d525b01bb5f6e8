// The devices of this machine that the kubelet may allocate, and what a container gets for its
// allocated devices. Pure: uses neither gRPC nor files.
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
  std::string pci_path;  // the PCIe path, as in model::Device
  std::vector<model::NvLinkPeer> nvlink_peers;
  std::optional<std::uint32_t> minor;
  std::optional<int> numa;
  std::optional<std::uint64_t> memory_bytes;
  bool healthy = true;
  std::string why;    // why the unit is unhealthy, for people; "" if it is healthy
  std::string fault;  // the reason as a word for programs: "no-answer", "memory-errors", "xid-79"
  bool unguarded = false;  // a pod with a share runs a program that uses memory without the guard
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
  std::string id;  // the unit's uuid; a share or step adds its number ("GPU-1::3")
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

/// Returns the NVIDIA GPUs that have a uuid. For a GPU with MIG enabled, returns its MIG slices
/// instead.
[[nodiscard]] std::vector<KubeUnit> kube_units(const model::Snapshot& snapshot);
/// Adds units that were seen before and are missing now, marked as unhealthy. If the driver reports
/// less about an unhealthy unit than before, the unit keeps the earlier values.
[[nodiscard]] std::vector<KubeUnit> with_missing(std::vector<KubeUnit> seen,
                                                 const std::vector<KubeUnit>& before);
[[nodiscard]] std::vector<KubeResource> kube_resources(const std::vector<KubeUnit>& units,
                                                       const KubeConfig& config);

/// Maps the uuid of each GPU to the name of its NVLink group, which is the uuid of the group's
/// first GPU. GPUs without an NVLink to another GPU are left out.
[[nodiscard]] std::map<std::string, std::string> nvlink_groups(const std::vector<KubeUnit>& units);

/// Chooses devices from `available` for a container; the result contains `required`. Prefers shares
/// of one GPU, and GPUs that are near each other (NVLink, PCIe switch, NUMA node), so that the
/// remaining groups stay whole.
[[nodiscard]] std::vector<std::string> preferred(const std::vector<KubeUnit>& units,
                                                 const std::vector<std::string>& available,
                                                 const std::vector<std::string>& required,
                                                 std::size_t size);

/// The memory of one share in whole MiB, if the unit is divided into `shares` shares. nullopt: the
/// unit is not shared, or its memory is not known.
[[nodiscard]] std::optional<std::uint64_t> share_of(const KubeUnit& unit, int shares);

struct KubeMount {
  std::string container, host;
  bool read_only = true;
};

/// What a container gets for its allocated devices.
struct KubeAnswer {
  std::map<std::string, std::string> variables;
  std::vector<std::string> nodes;  // device nodes; they have the same path in the container
  std::vector<KubeMount> mounts;
  std::vector<std::string> cdi;
  /// Maps a GPU's uuid to the limit in bytes that the guard enforces.
  std::map<std::string, std::uint64_t> limits;
};

/// Returns what a container with these device ids gets. Fails with kNotFound (E1031: `ids` is
/// empty, or an id was not offered) and with kUnavailable (E1032: a device is unhealthy; E1039: the
/// steps of memory belong to more than one GPU).
[[nodiscard]] Result<KubeAnswer> kube_answer(const std::vector<std::string>& ids,
                                             const std::vector<KubeUnit>& units,
                                             const KubeConfig& config);

/// Paths on the node of the guard's files. The limits from kube_answer() are written to `limits`.
struct KubeGuard {
  std::string library, limits, usage;
};
void add_guard(KubeAnswer& answer, const KubeGuard& files);

/// Convert units to one line of JSON and back. One process reads the drivers, and another is the
/// kubelet's server. Fails with kInvalidArgument (E1033).
[[nodiscard]] std::string units_line(const std::vector<KubeUnit>& units);
[[nodiscard]] Result<std::vector<KubeUnit>> units_in(const std::string& line);

}  // namespace berth::engines
