// The options of `berth run` for a container.
#pragma once

#include <array>
#include <optional>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "engines/container.hpp"

namespace berth::cli {

inline constexpr std::array<Option, 4> kContainerOptions{{
    {"--container", "IMAGE", "run the command in a container of this image"},
    {"--engine", "podman|docker|apptainer",
     "with --container: the engine that starts the container (default: the first that is "
     "installed)"},
    {"--mount", "SOURCE[:TARGET[:ro]]",
     "with --container: also mount this file or folder; the working folder is always mounted",
     true},
    {"--engine-option", "OPTION",
     "with --container: an option for the engine (--engine-option=--network=host)", true},
}};

/// Reads the options. nullopt means that no container was requested. Fails with kInvalidArgument
/// (E0013, E1103), or with the errors of engines::find_engine().
[[nodiscard]] Result<std::optional<engines::ContainerWish>> parse_container(
    const Arguments& arguments);
/// Called before the job takes a lease. Checks that the engine can give a container these GPUs, and
/// fetches the image if it is missing. Fails with kUnavailable (E1101, E1102).
[[nodiscard]] Status prepare_container(const Context& context, const engines::ContainerWish& wish,
                                       bool nvidia);

}  // namespace berth::cli
