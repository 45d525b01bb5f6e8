// What leaves the machine in a bundle: no user names, hosts, tokens or command lines. Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// Names that must not be told, and what stands for each: user1, user2, HOST; the same one for the
/// same name everywhere, so that what belonged together still does.
class Redaction {
 public:
  /// Somebody's account, or this machine. It is replaced wherever it stands as a whole word ("lin"
  /// not in "linux"); one of two letters, or one that is a word of systems and packages ("ubuntu"),
  /// only where it names a folder.
  void hide_user(const std::string& name);
  void hide_host(const std::string& name);
  /// Without those names, and whoever's: a part of a path below /home and its like names somebody,
  /// whatever it is. Names of GPUs, numbers of boards and disks, and addresses of network cards
  /// become others.
  [[nodiscard]] std::string apply(std::string_view text);
  /// Bytes whose places count: names of people in their paths, by others as long.
  [[nodiscard]] std::string apply_in_place(std::string_view bytes);
  /// What was replaced, and how often, without the names: "HOST: 4 times".
  [[nodiscard]] std::vector<std::string> report() const;

 private:
  struct Name {
    std::string by;
    int times = 0;
    bool everywhere = false;
    bool is_host = false;
  };
  Name& name_of(std::string_view name, bool is_host);
  std::string replaced(std::string_view name, bool is_host);
  [[nodiscard]] std::string_view known_at(std::string_view part, std::size_t begin,
                                          bool is_whole_part) const;
  std::string without_known(std::string_view part, bool is_below, bool of_system, bool is_folder);
  std::string without_devices(std::string_view text);
  std::string device(std::string_view name);
  std::string unit(std::string_view name);

  std::map<std::string, Name, std::less<>> names_;
  int users_ = 0, hosts_ = 0, devices_ = 0;
  std::map<std::string, std::string> digits_;   // of names of GPUs: after which which ones came
  std::map<std::string, std::string> serials_;  // of boards
  std::map<std::string, std::string> units_;    // addresses of network cards, numbers of disks
};

/// Whether names in the folder are people's: "/home", "/export/home".
[[nodiscard]] bool has_homes(std::string_view folder);
/// Only variables that a rule could ask for, by name; `dropped` gets the names of the others.
[[nodiscard]] Environment redacted_environment(const Environment& environment,
                                               std::set<std::string>& dropped);
/// What a file of the system tells: of each that is known here what rules ask; nullopt: nothing,
/// since nobody has said what may stand in it.
[[nodiscard]] std::optional<std::string> redacted_file(std::string_view path,
                                                       std::string_view text);
/// Likewise of settings of container engines, services and NCCL, of packages and environments.
[[nodiscard]] std::optional<std::string> redacted_settings(std::string_view path,
                                                           std::string_view text);
/// Of a list of folders (ld.so.conf, *.pth) those that matter.
[[nodiscard]] std::string redacted_folders(std::string_view text,
                                           const std::function<bool(const std::string&)>& matters);
/// /etc/ld.so.cache, as long as it is, without the libraries that do not matter.
[[nodiscard]] std::string redacted_loader_cache(
    std::string_view bytes, const std::function<bool(const std::string&)>& matters);
/// By what a service's account is called: its name where it is Ollama's own or root.
[[nodiscard]] std::string_view told_service_user(std::string_view user);
/// /etc/group: whether `user`, a service's, may use the GPU's nodes.
[[nodiscard]] std::string redacted_group(std::string_view text, std::string_view user);
/// /etc/hosts: what it says of this machine (`own`, told as "HOST") and of localhost.
[[nodiscard]] std::string redacted_hosts(std::string_view text, std::string_view own);
/// Only lines that speak of GPUs, drivers and the bus; a process's name in them becomes "…".
[[nodiscard]] std::string redacted_log(std::string_view log);

}  // namespace berth::doctor
