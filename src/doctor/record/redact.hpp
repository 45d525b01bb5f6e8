// Redacts the data that leaves the machine in a bundle: user names, hosts, tokens, command lines.
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

/// Replaces private names by user1, user2, HOST and similar. The same name always has the same
/// replacement, so that references still match.
class Redaction {
 public:
  /// Adds the name of a user or of this machine to those that apply() replaces. apply() replaces
  /// whole words only: the name "lin" is not replaced in "linux". A name of two letters, or one
  /// that systems and packages also use ("ubuntu"), is replaced only as the name of a folder.
  void hide_user(const std::string& name);
  void hide_host(const std::string& name);
  /// Replaces the hidden names in a text, and all names of folders in /home and similar folders,
  /// which are names of users. Also replaces GPU uuids, serial numbers of boards and disks, and MAC
  /// addresses.
  [[nodiscard]] std::string apply(std::string_view text);
  /// Replaces names in paths inside binary data. The replacements have equal length, so that
  /// offsets stay valid.
  [[nodiscard]] std::string apply_in_place(std::string_view bytes);
  /// One line for each replacement, with the count and without the private name: "HOST: 4 times".
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
  /// for each prefix of a GPU uuid: the digits that followed the prefix so far
  std::map<std::string, std::string> digits_;
  std::map<std::string, std::string> serials_;  // serial numbers of boards
  std::map<std::string, std::string> units_;    // replacements of MAC addresses and disk ids
};

/// Whether the names in the folder are those of users: "/home", "/export/home".
[[nodiscard]] bool has_homes(std::string_view folder);
/// Keeps only variables that rules read. `dropped` receives the names of the others.
[[nodiscard]] Environment redacted_environment(const Environment& environment,
                                               std::set<std::string>& dropped);
/// What the tables of kept.hpp keep of a file; nullopt: the file is left out.
[[nodiscard]] std::optional<std::string> redacted_file(std::string_view path,
                                                       std::string_view text);
/// What rules need from the settings of pip, uv and conda: that an index is configured, and the end
/// of its address. Removes private hosts, users, passwords, tokens, and the values of other keys.
[[nodiscard]] std::string redacted_package_settings(std::string_view settings);
/// Whether the path is a settings file of pip, uv or conda.
[[nodiscard]] bool is_package_settings(std::string_view path);
/// Replaces the addresses in a text as redacted_package_settings() does.
[[nodiscard]] std::string without_hosts(std::string_view text);
/// Those lines of a list of folders (ld.so.conf, *.pth) for which `matters` returns true.
[[nodiscard]] std::string redacted_folders(std::string_view text,
                                           const std::function<bool(const std::string&)>& matters);
/// /etc/ld.so.cache in its original size, without the names of libraries that do not matter.
[[nodiscard]] std::string redacted_loader_cache(
    std::string_view bytes, const std::function<bool(const std::string&)>& matters);
/// The name in the bundle for the account of a service: "ollama" and "root" do not change, other
/// names are replaced.
[[nodiscard]] std::string_view redacted_service_user(std::string_view user);
/// The part of /etc/group that shows whether `user`, which runs a service, may use the GPU nodes.
[[nodiscard]] std::string redacted_group(std::string_view text, std::string_view user);
/// The lines of /etc/hosts with the name of this machine (`own`, replaced by "HOST") or localhost.
[[nodiscard]] std::string redacted_hosts(std::string_view text, std::string_view own);
/// The lines about GPUs, drivers and the bus. Names of programs in them become "…".
[[nodiscard]] std::string redacted_log(std::string_view log);

}  // namespace berth::doctor
