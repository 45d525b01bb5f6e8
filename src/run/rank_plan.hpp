// Divides a placement among ranks: devices, cores, threads, variables. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "run/supervisor.hpp"

namespace berth::run {

struct RankWish {
  int count = 1;                     // number of ranks; 0: as many as there are devices
  std::optional<int> gpus_per_rank;  // nullopt: the number of devices divided by the ranks
  bool own_cores = false;  // the job has its own processors, which are divided among the ranks
  // number of this node, and number of nodes; each node runs `count` ranks
  int node = 0, nodes = 1;
  std::optional<int> least = {};  // the MIN of --ranks MIN:MAX; `count` is MAX
  bool or_cores = false;          // if `count` is 0 and there is no device: one rank for each core
  bool oversubscribe = false;     // several ranks may have the same device
};

/// One spec per rank, in order. Rank r has the devices r*K to r*K+K-1 of the placement. With one
/// device per rank, all ranks see all devices, as programs for torchrun expect, and LOCAL_RANK is
/// the index of the rank's own device. With several per rank, each rank sees only its own. If there
/// are more ranks than devices and `oversubscribe` is set, rank r sees only device r modulo their
/// number. Fails with kInvalidArgument (E0530) if the devices cannot be divided.
[[nodiscard]] Result<std::vector<RankSpec>> plan_ranks(const RankWish& wish,
                                                       const model::Placement& placement,
                                                       const model::Snapshot& snapshot,
                                                       const model::Environment& environment);

/// Where the ranks of a job meet.
struct Meeting {
  std::string address;                   // address of rank 0
  std::uint16_t port = 0, jax_port = 0;  // ports at `address`; 0: no port is free
  std::vector<std::string> workers;  // "host:port" of each rank, for TensorFlow; empty: not known
  // port to which the ranks above 0 connect; 0: they connect directly to rank 0
  std::uint16_t relay_port = 0;
};

/// The variables by which ranks find each other: MASTER_ADDR and MASTER_PORT; TF_CONFIG for
/// TensorFlow, with one worker per rank; the variable that JAX reads, and those that JAX programs
/// read by convention.
void add_meeting(const Meeting& meeting, int rank, int world_size,
                 std::map<std::string, std::string>& variables);

}  // namespace berth::run
