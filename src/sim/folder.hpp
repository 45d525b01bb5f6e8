// BERTH_SIM_DIR is a private folder for one simulation, which removes it at its end. A lock shows
// that the simulation still runs. If it was killed, the next simulation removes its folder.
#pragma once

#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::sim {

class Folder {
 public:
  /// Creates the folder in the temporary directory `temporary` with mode 0700. Fails with
  /// kUnavailable (E0611: it cannot be created or locked; E0612: programs cannot be run there).
  [[nodiscard]] static Result<Folder> make(const std::string& temporary);
  Folder(Folder&&) = default;
  Folder& operator=(Folder&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Creates the folder `name` and its parents in this folder. Fails with kUnavailable (E0611).
  [[nodiscard]] Status make_folder(const std::string& name) const;
  /// Creates or replaces a file atomically: a reader sees the old or the new content.
  [[nodiscard]] Status write(const std::string& name, std::string_view bytes,
                             bool executable = false) const;
  [[nodiscard]] Status link(const std::string& name, const std::string& target) const;
  /// Removes the folder with its contents; follows no links.
  void remove();

 private:
  Folder(std::string path, Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  Descriptor lock_;
};

/// Removes folders that Folder::make() created for this user, if their simulations no longer run.
void remove_stale_folders(const std::string& temporary);
/// The path in TMPDIR, or /tmp if TMPDIR is not set.
[[nodiscard]] std::string temporary_directory();

}  // namespace berth::sim
