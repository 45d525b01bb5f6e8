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
  std::optional<std::uint64_t> memory_bytes;  // that jobs can have
  bool healthy = true;
  std::string why;  // not healthy, for people; "" healthy
};

enum class KubePass : unsigned char {
  kEnv,    // NVIDIA_VISIBLE_DEVICES, for NVIDIA's container runtime
  kCdi,    // names of nvidia.com/gpu, for a runtime with CDI
  kNodes,  // device nodes alone; the image has to bring the driver's libraries
};

struct KubeConfig {
  int shares = 0;  // of each whole GPU; 0: GPUs are given as a whole
  KubePass pass = KubePass::kEnv;
};

/// One thing that a container can be given.
struct KubeDevice {
  std::string id;  // the unit's uuid, with "::3" behind it for a share
  bool healthy = true;
  std::string why;
  std::optional<int> numa;
  std::optional<std::uint64_t> memory_limit_bytes;  // of a share
};

struct KubeResource {
  std::string name;  // "berth.dev/gpu", "berth.dev/gpu-share", "berth.dev/mig-1g.10gb"
  std::vector<KubeDevice> devices;
};

/// NVIDIA GPUs with a uuid; a GPU with MIG on is its slices.
[[nodiscard]] std::vector<KubeUnit> kube_units(const model::Snapshot& snapshot);
/// Units that were known before and are gone now stay, as not healthy.
[[nodiscard]] std::vector<KubeUnit> with_missing(std::vector<KubeUnit> seen,
                                                 const std::vector<KubeUnit>& before);
[[nodiscard]] std::vector<KubeResource> kube_resources(const std::vector<KubeUnit>& units,
                                                       const KubeConfig& config);

/// Which of `available` a container should get: shares of one GPU, GPUs of one NUMA node, so that
/// as much as possible stays whole. `required` are among them.
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
  std::map<std::string, std::uint64_t> limits;  // uuid → bytes that the guard holds it to
};

/// Fails with kNotFound (E1031) for an id that was not offered, or none at all, and with
/// kUnavailable (E1032) if one is not healthy.
[[nodiscard]] Result<KubeAnswer> kube_answer(const std::vector<std::string>& ids,
                                             const std::vector<KubeUnit>& units,
                                             const KubeConfig& config);

/// The guard's files on the node, which kube_answer's limits were written to.
struct KubeGuard {
  std::string library, limits, usage;
};
void add_guard(KubeAnswer& answer, const KubeGuard& files);

/// One line of JSON, and back: the process that asks drivers is another one than the kubelet's
/// server. Fails with kInvalidArgument (E1033).
[[nodiscard]] std::string units_line(const std::vector<KubeUnit>& units);
[[nodiscard]] Result<std::vector<KubeUnit>> units_in(const std::string& line);

}  // namespace berth::engines
