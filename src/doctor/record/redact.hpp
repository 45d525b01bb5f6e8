// Redacts what leaves the machine in a bundle: user names, hosts, tokens, command lines. Pure.
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

/// Replaces private names: user1, user2, HOST. A name has the same replacement everywhere, so that
/// references still match.
class Redaction {
 public:
  /// From now on, replaces the name of a user or of this machine. Only whole words are replaced
  /// ("lin", but not in "linux"). A name of two letters, or one that is also a word of systems and
  /// packages ("ubuntu"), is replaced only as a folder.
  void hide_user(const std::string& name);
  void hide_host(const std::string& name);
  /// Replaces these names in a text, and every folder in /home and similar folders, because it is
  /// always a user's name. Also replaces GPU uuids, serial numbers of boards and disks, and MAC
  /// addresses.
  [[nodiscard]] std::string apply(std::string_view text);
  /// For bytes with fixed offsets: replaces names in paths by names of equal length.
  [[nodiscard]] std::string apply_in_place(std::string_view bytes);
  /// What was replaced, with counts and without the names: "HOST: 4 times".
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
  std::map<std::string, std::string> digits_;   // for GPU uuids: the next digits for each prefix
  std::map<std::string, std::string> serials_;  // of boards
  std::map<std::string, std::string> units_;    // replacements of MAC addresses and disk ids
};

/// Whether names in the folder are user names: "/home", "/export/home".
[[nodiscard]] bool has_homes(std::string_view folder);
/// Keeps only variables that rules read, by name. `dropped` receives the names of the others.
[[nodiscard]] Environment redacted_environment(const Environment& environment,
                                               std::set<std::string>& dropped);
/// What a recording keeps of a file, by the tables of kept.hpp; nullopt: the file is left out.
[[nodiscard]] std::optional<std::string> redacted_file(std::string_view path,
                                                       std::string_view text);
/// The part of pip's, uv's and conda's settings that rules need: that an index is configured, and
/// how its address ends. Private hosts, users, passwords, tokens, and the values of all other keys
/// are removed.
[[nodiscard]] std::string redacted_package_settings(std::string_view settings);
/// Whether the path is a settings file of pip, uv or conda.
[[nodiscard]] bool is_package_settings(std::string_view path);
/// The text with all its addresses redacted, as redacted_package_settings() does.
[[nodiscard]] std::string without_hosts(std::string_view text);
/// The relevant lines of a list of folders (ld.so.conf, *.pth).
[[nodiscard]] std::string redacted_folders(std::string_view text,
                                           const std::function<bool(const std::string&)>& matters);
/// /etc/ld.so.cache in its original size, with irrelevant libraries removed.
[[nodiscard]] std::string redacted_loader_cache(
    std::string_view bytes, const std::function<bool(const std::string&)>& matters);
/// The name of a service's account in the bundle. "ollama" and "root" stay as they are.
[[nodiscard]] std::string_view redacted_service_user(std::string_view user);
/// The part of /etc/group that shows whether the service's `user` may use the GPU nodes.
[[nodiscard]] std::string redacted_group(std::string_view text, std::string_view user);
/// The lines of /etc/hosts for this machine (`own`, written as "HOST") and localhost.
[[nodiscard]] std::string redacted_hosts(std::string_view text, std::string_view own);
/// Keeps only lines about GPUs, drivers and the bus. Process names in them become "…".
[[nodiscard]] std::string redacted_log(std::string_view log);

}  // namespace berth::doctor
