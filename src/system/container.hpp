// Is there a container around a process, and of which kind? One answer for `ls` and for the doctor,
// from files that everybody may read where that is possible.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace berth::system {

/// Where it is looked: a machine's files (or a recorded tree's) and the asking process's variables.
struct ContainerView {
  std::function<bool(const char* path)> exists;
  /// nullopt: not there, or not readable.
  std::function<std::optional<std::string>(const char* path)> read;
  std::function<std::optional<std::string>(const char* name)> variable;
};

/// `kind` is "docker", "podman", "kubernetes", "lxc", "apptainer", "flatpak",
/// "container" (some other) or ""
/// for none; `marker` is what said so: "/.dockerenv", "container=lxc".
struct Container {
  std::string kind, marker;
};

/// What everybody may read.
[[nodiscard]] Container container_by_files(const ContainerView& view);
/// Where the files tell nothing: what only root may read, and what anybody may have set.
[[nodiscard]] Container container_by_variables(const ContainerView& view);

}  // namespace berth::system
