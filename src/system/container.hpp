// Detects whether a process is in a container, and which kind of container. `ls` and the doctor use
// the same detection. If possible, it only reads files that every user may read.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace berth::system {

/// What to examine: the files of a machine or a recorded tree, and the process's variables.
struct ContainerView {
  std::function<bool(const char* path)> exists;
  /// The content of a file; nullopt if it is missing or not readable.
  std::function<std::optional<std::string>(const char* path)> read;
  std::function<std::optional<std::string>(const char* name)> variable;
};

/// `kind`: "docker", "podman", "kubernetes", "lxc", "apptainer", "flatpak", "container" (another
/// kind), or "" for none. `marker` is the file or variable that shows it: "/.dockerenv" or
/// "container=lxc".
struct Container {
  std::string kind, marker;
};

/// Detects a container with only those files that every user may read.
[[nodiscard]] Container container_by_files(const ContainerView& view);
/// Reads what only root can read, and variables that anyone may have set. Used if
/// container_by_files() finds nothing.
[[nodiscard]] Container container_by_variables(const ContainerView& view);

}  // namespace berth::system
