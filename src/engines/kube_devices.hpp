// The devices that the kubelet is offered on this machine, and what a container gets for those it
// was allocated. Pure: neither gRPC nor files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// A GPU, or a MIG slice of one.
struct KubeUnit {
  std::string uuid;
  std::string profile;  // "1g.10gb"; "" a whole GPU
  std::optional<std::uint32_t> minor;
  std::optional<int> numa;
  std::optional<std::uint64_t> memory_bytes;  // available to jobs
  bool healthy = true;
  std::string why;  // the reason if it is unhealthy, for people; else ""
};

enum class KubePass : unsigned char {
  kEnv,    // NVIDIA_VISIBLE_DEVICES, for NVIDIA's container runtime
  kCdi,    // names of nvidia.com/gpu, for a runtime with CDI
  kNodes,  // only device nodes; the image must contain the driver's libraries
};

struct KubeConfig {
  int shares = 0;  // of each whole GPU; 0: GPUs are not shared
  KubePass pass = KubePass::kEnv;
};

/// An allocatable device.
struct KubeDevice {
  std::string id;  // the unit's uuid, followed by "::3" for a share
  bool healthy = true;
  std::string why;
  std::optional<int> numa;
  std::optional<std::uint64_t> memory_limit_bytes;  // of a share
};

struct KubeResource {
  std::string name;  // "berth.dev/gpu", "berth.dev/gpu-share", "berth.dev/mig-1g.10gb"
  std::vector<KubeDevice> devices;
};

/// NVIDIA GPUs with a uuid; a GPU with MIG enabled is offered as its slices.
[[nodiscard]] std::vector<KubeUnit> kube_units(const model::Snapshot& snapshot);
/// Keeps units that were known before and have disappeared, as unhealthy.
[[nodiscard]] std::vector<KubeUnit> with_missing(std::vector<KubeUnit> seen,
                                                 const std::vector<KubeUnit>& before);
[[nodiscard]] std::vector<KubeResource> kube_resources(const std::vector<KubeUnit>& units,
                                                       const KubeConfig& config);

/// Chooses from `available` for a container: prefers shares of one GPU and GPUs of one NUMA node,
/// to keep other GPUs whole. The result contains `required`.
[[nodiscard]] std::vector<std::string> preferred(const std::vector<KubeUnit>& units,
                                                 const std::vector<std::string>& available,
                                                 const std::vector<std::string>& required,
                                                 std::size_t size);

struct KubeMount {
  std::string container, host;
  bool read_only = true;
};

/// What the container gets.
struct KubeAnswer {
  std::map<std::string, std::string> variables;
  std::vector<std::string> nodes;  // device nodes, under the same path inside
  std::vector<KubeMount> mounts;
  std::vector<std::string> cdi;
  std::map<std::string, std::uint64_t> limits;  // uuid → bytes; enforced by the guard
};

/// Fails with kNotFound (E1031) if `ids` is empty or an id was not offered, and with kUnavailable
/// (E1032) if a device is unhealthy.
[[nodiscard]] Result<KubeAnswer> kube_answer(const std::vector<std::string>& ids,
                                             const std::vector<KubeUnit>& units,
                                             const KubeConfig& config);

/// The node's folder of the guard's files, to which kube_answer's limits are written.
struct KubeGuard {
  std::string library, limits, usage;
};
void add_guard(KubeAnswer& answer, const KubeGuard& files);

/// Converts to one line of JSON and back, because another process than the kubelet's server reads
/// the drivers. Fails with kInvalidArgument (E1033).
[[nodiscard]] std::string units_line(const std::vector<KubeUnit>& units);
[[nodiscard]] Result<std::vector<KubeUnit>> units_in(const std::string& line);

}  // namespace berth::engines
