// BERTH_SIM_DIR: a private folder for one simulation, removed however it ends. A lock says that its
// owner lives, so that the next simulation can remove what a killed one left.
#pragma once

#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::sim {

class Folder {
 public:
  /// In the temporary directory (TMPDIR, else /tmp), mode 0700. Fails with kUnavailable: E0611 it
  /// cannot be made or locked, E0612 programs cannot be run from there.
  [[nodiscard]] static Result<Folder> make(const std::string& temporary);
  Folder(Folder&&) = default;
  Folder& operator=(Folder&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Makes `name` below it, and the folders above that. Fails with kUnavailable (E0611).
  [[nodiscard]] Status make_folder(const std::string& name) const;
  /// Writes a new file, or puts another in the place of an old one: a reader sees all of one or all
  /// of the other.
  [[nodiscard]] Status write(const std::string& name, std::string_view bytes,
                             bool executable = false) const;
  [[nodiscard]] Status link(const std::string& name, const std::string& target) const;
  /// Removes it with all that is in it; follows no link.
  void remove();

 private:
  Folder(std::string path, Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  Descriptor lock_;
};

/// Removes the folders of simulations whose owner is gone. Only this user's own, and only what
/// Folder::make() made.
void remove_stale_folders(const std::string& temporary);
/// TMPDIR, else /tmp.
[[nodiscard]] std::string temporary_directory();

}  // namespace berth::sim
