// What leaves the machine in a bundle: no user names, hosts, tokens or command lines. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// Names that must not be told, and what stands for each.
class Redaction {
 public:
  /// `name` is replaced wherever it stands as a whole word ("lin" not in "linux"). Names shorter
  /// than 3 characters, and those of the system ("root"), stay.
  void hide(const std::string& name, const std::string& by);
  [[nodiscard]] std::string apply(std::string_view text);
  /// What was replaced, and how often, without the names: "the host name: 4 times".
  [[nodiscard]] std::vector<std::string> report() const;

 private:
  struct Name {
    std::string name, by;
    int times = 0;
  };
  std::vector<Name> names_;
};

/// Only variables that a rule could ask for, by name; `dropped` gets the names of the others.
[[nodiscard]] Environment redacted_environment(const Environment& environment,
                                               std::set<std::string>& dropped);
/// What /proc/PID/comm and stat say, without the program's name, unless it is one of NVIDIA's; of
/// the kernel's command line what rules ask; any other file as redacted_settings().
[[nodiscard]] std::string redacted_file(std::string_view path, std::string_view text);
/// Of settings of container engines and NCCL, of packages and environments what rules ask; of any
/// other text no passwords in addresses; what is no text as it is.
[[nodiscard]] std::string redacted_settings(std::string_view path, std::string_view text);
/// /etc/hosts after apply(): what it says of this machine ("HOST") and of localhost.
[[nodiscard]] std::string redacted_hosts(std::string_view text);
/// Only lines that speak of GPUs, drivers and the bus; a process's name in them becomes "…".
[[nodiscard]] std::string redacted_log(std::string_view log);

}  // namespace berth::doctor
