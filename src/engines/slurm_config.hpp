// The files of a Slurm configuration that concern GPUs: slurm.conf, gres.conf and cgroup.conf,
// parsed as Slurm parses them. Sizes are limited, and unknown lines are ignored.
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
  std::string name, type;          // such as "gpu" and "rtx_3090"; "" not given
  std::vector<std::string> nodes;  // empty: every node
  std::vector<std::string> files;
  bool is_slice = false;  // the line has MultipleFiles: all its files are one resource
  std::string cores;      // as written
  std::string links;      // as written
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
  /// The node with this name or host name, without the domain; nullptr if no line has it.
  [[nodiscard]] const SlurmNode* node(std::string_view name) const;
};

/// The names in a list such as "n[1-3,07],m1", at most 65 536.
[[nodiscard]] std::vector<std::string> expand_names(std::string_view list);
[[nodiscard]] std::string lower_case(std::string_view text);
/// The key-value pairs of one line: keys in lower case, values without quotes.
[[nodiscard]] SlurmWords words_of_line(std::string_view line);
[[nodiscard]] std::vector<GresLine> parse_gres(std::string_view text);
/// `text` is slurm.conf with its Include lines resolved.
void parse_slurm(std::string_view text, SlurmConfig& config);
/// Reads the configuration in `folder`. Fails with kNotFound (E1001) if it has no slurm.conf, and
/// like read_file().
[[nodiscard]] Result<SlurmConfig> read_slurm_config(const std::string& folder);
/// The folder that Slurm's own programs use: from SLURM_CONF, or /etc/slurm, …; "" if none has a
/// slurm.conf.
[[nodiscard]] std::string slurm_folder();

}  // namespace berth::engines
