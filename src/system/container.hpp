// Detects whether a process is in a container, and its kind. `ls` and the doctor use the same
// answer. Reads files that every user may read, if possible.
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
/// kind), or "" for none. `marker` is what shows it: "/.dockerenv" or "container=lxc".
struct Container {
  std::string kind, marker;
};

/// Detects a container with only those files that every user may read.
[[nodiscard]] Container container_by_files(const ContainerView& view);
/// Used if the files show nothing: reads what only root can read, and variables that anyone may
/// have set.
[[nodiscard]] Container container_by_variables(const ContainerView& view);

}  // namespace berth::system
