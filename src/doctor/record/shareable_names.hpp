// Which names of files and folders a bundle may contain: those that any machine may have. Other
// names are omitted, or replaced by names with the same sort position.
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

/// Maps the names in a folder to their replacements; names without a row are omitted. `interfaces`
/// are the network interfaces that variables name; their names are kept.
[[nodiscard]] std::map<std::string, std::string> shareable_names(
    const std::string& folder, const std::vector<std::string>& names,
    std::string_view interfaces = "");

/// Maps the paths that were read to paths in a bundle.
class ShareablePaths {
 public:
  /// `words` is text in the bundle, such as variables. A folder that this text names is kept,
  /// because the bundle contains its name anyway.
  ShareablePaths(const Recording& seen, std::string_view interfaces, std::string words);

  /// The path in the bundle; "" if it is omitted.
  [[nodiscard]] std::string shareable(const std::string& path) const;
  /// The names of a folder's entries in the bundle, sorted.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder) const;
  /// Whether a list of folders or files may keep this path: its name is common, or something in it
  /// was read.
  [[nodiscard]] bool matters(const std::string& path) const;
  /// Whether a folder is omitted: nothing in it was read. Only a list of folders or its parent
  /// folder names it.
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
  std::set<std::string, std::less<>> hidden_;  // hidden paths; everything below them is hidden too
  std::set<std::string, std::less<>> listed_;  // folders in ld.so.conf and *.pth files
  std::size_t hidden_names_ = 0;
};

}  // namespace berth::doctor
