// Reads the files of a Slurm configuration that concern GPUs: slurm.conf, gres.conf and
// cgroup.conf. Follows Slurm's own syntax. Sizes are limited, and unknown lines are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::engines {

/// Key-value pairs with keys in lower case.
using SlurmWords = std::map<std::string, std::string, std::less<>>;

/// One line of gres.conf.
struct GresLine {
  std::string name, type;          // such as "gpu" and "rtx_3090"; `type` may be ""
  std::vector<std::string> nodes;  // names of the nodes; empty: every node
  std::vector<std::string> files;
  bool is_slice = false;  // the line has MultipleFiles: all its files are one resource
  std::string cores;      // value of Cores=, not parsed
  std::string links;      // value of Links=, not parsed
  std::string autodetect;
  std::optional<std::uint64_t> count;
};

/// A NodeName line in slurm.conf, for one node.
struct SlurmNode {
  std::string name, host;
  SlurmWords words;
};

struct SlurmConfig {
  std::string folder;
  SlurmWords settings;  // settings in slurm.conf, except nodes and partitions
  std::vector<SlurmNode> nodes;
  std::optional<std::vector<GresLine>> gres;  // nullopt: there is no gres.conf
  std::optional<SlurmWords> cgroup;           // nullopt: there is no cgroup.conf

  [[nodiscard]] std::string setting(std::string_view key) const;
  /// Returns the node with this node name or host name (without the domain); nullptr if no line has
  /// it.
  [[nodiscard]] const SlurmNode* node(std::string_view name) const;
};

/// Expands a list of host names such as "n[1-3,07],m1" to at most 65 536 names.
[[nodiscard]] std::vector<std::string> expand_names(std::string_view list);
[[nodiscard]] std::string lower_case(std::string_view text);
/// The key-value pairs of one line: keys in lower case, values without quotes.
[[nodiscard]] SlurmWords words_of_line(std::string_view line);
[[nodiscard]] std::vector<GresLine> parse_gres(std::string_view text);
/// Reads slurm.conf. `text` is the file with its Include lines already replaced.
void parse_slurm(std::string_view text, SlurmConfig& config);
/// Reads the configuration in `folder`. Fails with kNotFound (E1001) if the folder has no
/// slurm.conf, and with the errors of read_file().
[[nodiscard]] Result<SlurmConfig> read_slurm_config(const std::string& folder);
/// Returns the folder of Slurm's configuration: that of SLURM_CONF, or /etc/slurm, or another usual
/// place. "" if no folder has a slurm.conf.
[[nodiscard]] std::string slurm_folder();

}  // namespace berth::engines
