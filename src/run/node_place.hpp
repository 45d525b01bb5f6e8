// Which part of a job on several nodes starts here, and where its ranks meet: from the variables of
// Slurm, Kubernetes, torchrun's PET_* or the user. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::run {

struct NodePlace {
  // number of this node, and number of nodes; each node starts the same number of ranks
  int rank = 0, count = 1;
  std::string address;             // the address of node 0; "": this machine
  std::uint16_t port = 0;          // the port on node 0; 0: any free port
  std::vector<std::string> peers;  // host names by node; empty: not known
};

/// `nodes` is the value of --nodes. Without --nodes, Slurm's task count is used if it is above 1.
/// If it is not, PET_NNODES is used. A pod of an indexed Kubernetes job then runs alone, because
/// its variables do not tell the number of pods. `hosts` is the text of /etc/hosts, where a pod
/// finds the domain of its service. Fails with kInvalidArgument: E0534 (the number of this node or
/// the address of node 0 is unknown) and E0535 (--nodes differs from Slurm's tasks).
[[nodiscard]] Result<NodePlace> node_place(const std::map<std::string, std::string>& variables,
                                           std::optional<int> nodes, std::string_view hosts);

/// "n[01-03,7],login" → n01, n02, n03, n7, login. nullopt if it is not a list in Slurm's form, or
/// has more than 4096 names.
[[nodiscard]] std::optional<std::vector<std::string>> expand_host_list(std::string_view list);

}  // namespace berth::run
