// Which names of files and folders a bundle tells: those that every machine may have. A name that
// somebody has made up is left out, or becomes another one that sorts where it did.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/recording.hpp"

namespace berth::doctor {

/// Made of words of systems, drivers and packages alone: "nvidia-graphics-drivers.conf", "enp5s0",
/// "/usr/local/cuda-12.4/lib64".
[[nodiscard]] bool is_common(std::string_view name);

/// What the names in a folder become; one that is not in it is left out. `interfaces`: those that
/// variables name, which stay.
[[nodiscard]] std::map<std::string, std::string> told_names(const std::string& folder,
                                                            const std::vector<std::string>& names,
                                                            std::string_view interfaces = "");

/// The paths of a recording as a bundle has them.
class ToldPaths {
 public:
  /// `words`: variables and the like that go out, whose folders therefore do.
  ToldPaths(const Recording& seen, std::string_view interfaces, std::string words);

  /// "" it stays away.
  [[nodiscard]] std::string told(const std::string& path) const;
  /// Of a folder that was listed; sorted.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder) const;
  /// Whether a file or folder of a list is told: everybody has it, or something was seen there.
  [[nodiscard]] bool matters(const std::string& path) const;
  /// Whether a folder stays away, since nothing but a list or the folder above speaks of it.
  [[nodiscard]] bool is_left_out(const std::string& folder) const;
  [[nodiscard]] bool was_seen(const std::string& path) const;
  /// Names that are others, or left out.
  [[nodiscard]] std::size_t hidden() const { return hidden_names_; }

 private:
  void hide_devices();
  void take_lists();
  void hide_target(std::string path);
  [[nodiscard]] bool is_hidden(const std::string& path) const;

  const Recording& seen_;
  std::string words_;
  std::map<std::string, std::map<std::string, std::string>, std::less<>> folders_;
  std::set<std::string, std::less<>> hidden_;  // with all that is below
  std::set<std::string, std::less<>> listed_;  // folders that lists of folders name
  std::size_t hidden_names_ = 0;
};

}  // namespace berth::doctor
