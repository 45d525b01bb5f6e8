// Which names of files and folders a bundle may contain: those that any machine may have. Other
// names are removed, or replaced by one with the same sort position.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/tree/recording.hpp"

namespace berth::doctor {

/// Whether the name consists only of words of systems, drivers and packages:
/// "nvidia-graphics-drivers.conf", "enp5s0", "/usr/local/cuda-12.4/lib64".
[[nodiscard]] bool is_common(std::string_view name);

/// The replacements of names in a folder; missing names are omitted. `interfaces` are network
/// interfaces that variables name; these are kept.
[[nodiscard]] std::map<std::string, std::string> shareable_names(
    const std::string& folder, const std::vector<std::string>& names,
    std::string_view interfaces = "");

/// Maps the paths of a recording to those in a bundle.
class ShareablePaths {
 public:
  /// `words` is the text of variables and similar in the bundle. Folders in it are kept, because
  /// the bundle names them anyway.
  ShareablePaths(const Recording& seen, std::string_view interfaces, std::string words);

  /// The path in the bundle; "" if it is omitted.
  [[nodiscard]] std::string shareable(const std::string& path) const;
  /// The names to write for a listed folder; sorted.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder) const;
  /// Whether a listed file or folder is included. This is so if its name is common, or if something
  /// in it was read.
  [[nodiscard]] bool matters(const std::string& path) const;
  /// Whether a folder is omitted. It is if only a list or its parent mentions it.
  [[nodiscard]] bool is_omitted(const std::string& folder) const;
  [[nodiscard]] bool was_seen(const std::string& path) const;
  /// The number of names that were replaced or omitted.
  [[nodiscard]] std::size_t hidden() const { return hidden_names_; }

 private:
  void hide_devices();
  void take_lists();
  void hide_target(std::string path);
  [[nodiscard]] bool is_hidden(const std::string& path) const;

  const Recording& seen_;
  std::string words_;
  std::map<std::string, std::map<std::string, std::string>, std::less<>> folders_;
  std::set<std::string, std::less<>> hidden_;  // with everything below
  std::set<std::string, std::less<>> listed_;  // folders that lists of folders name
  std::size_t hidden_names_ = 0;
};

}  // namespace berth::doctor
