// What NCCL's log says about the links between the ranks of a job.
#pragma once

#include <string>
#include <vector>

namespace berth::model {

struct NcclLink {
  int from = 0, to = 0;   // ranks, as NCCL numbers them
  std::string transport;  // "P2P/CUMEM", "SHM/direct/direct", "NET/IB/GDRDMA"
  int channels = 0;
};

struct NcclSeen {
  std::string version;                // "2.27.5+cuda12.9"; "" not known
  std::string network;                // "IB", "Socket"; "" not known
  int communicators = 0;              // communicators of the rank that has the most
  std::vector<NcclLink> links;        // sorted by rank
  std::vector<std::string> warnings;  // the first distinct warnings, each with its rank
  int more_warnings = 0;
};

}  // namespace berth::model
