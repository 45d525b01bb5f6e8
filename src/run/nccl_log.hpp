// Reads NCCL's own log (NCCL_DEBUG=INFO): which transport each pair of ranks uses, and warnings.
// The ranks write these files, so nothing in them is trusted. RCCL's log has the same form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/nccl.hpp"

namespace berth::run {

/// One channel from one rank to another: "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM".
struct NcclChannel {
  int from = 0, to = 0, channel = 0, connection = 0;
  // the transport, without the number of the network device: "NET/IB/GDRDMA"
  std::string transport;
};
/// Parses a line of NCCL's log. nullopt: the line does not describe a channel.
[[nodiscard]] std::optional<NcclChannel> parse_nccl_channel(std::string_view line);

/// Sums up the logs of ranks; add() each file, then read the result.
class NcclLogs {
 public:
  void add(int rank, std::string_view log);
  /// The summary of all files. nullopt: no file had a line of NCCL.
  [[nodiscard]] std::optional<model::NcclSeen> result() const;

 private:
  struct Link {
    int from = 0, to = 0;
    std::string transport;
    // sorted and without duplicates, because both ends of a network connection log each channel
    std::vector<std::pair<int, int>> channels;
  };
  void add_channel(NcclChannel channel);
  bool has_lines_ = false;
  model::NcclSeen seen_;
  std::vector<Link> links_;  // sorted by ranks and transport
};

/// Value for NCCL_DEBUG_FILE: a file for each process, "STEM.PID.log".
[[nodiscard]] std::string nccl_debug_file(const std::string& stem);
/// Adds the files of this rank to the logs. `removes`: also deletes them.
void read_nccl_files(const std::string& stem, int rank, bool removes, NcclLogs& logs);

}  // namespace berth::run
