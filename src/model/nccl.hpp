// What NCCL's log says about the connections between the ranks of a job.
#pragma once

#include <string>
#include <vector>

namespace berth::model {

struct NcclLink {
  int from = 0, to = 0;   // rank numbers as in NCCL's log
  std::string transport;  // "P2P/CUMEM", "SHM/direct/direct", "NET/IB/GDRDMA"
  int channels = 0;
};

struct NcclSeen {
  std::string version;                // "2.27.5+cuda12.9"; "" if not known
  std::string network;                // "IB" or "Socket"; "" if not known
  int communicators = 0;              // number of communicators, for the rank that has the most
  std::vector<NcclLink> links;        // sorted by rank
  std::vector<std::string> warnings;  // the first warnings, each only once, with the rank
  int more_warnings = 0;
};

}  // namespace berth::model
