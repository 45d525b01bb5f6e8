// The guard's files for a container, created on the node by another user and mounted into the
// container one by one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.hpp"

namespace berth::guard {

struct ContainerFiles {
  std::string library, limits, usage;  // paths of these files on the node
};

/// Creates the files in `folder`, and the folder itself. Resets the counters of an earlier
/// container. `limits`: the memory limit in bytes for the UUID of each device. Fails with
/// kUnavailable (E0520; E1032 if the guard cannot enforce one of the limits).
[[nodiscard]] Result<ContainerFiles> files_for_container(
    const std::string& folder, const std::string& library_folder,
    const std::map<std::string, std::uint64_t>& limits);

}  // namespace berth::guard
