// Starts a job in a container: replaces its command by that of the container's engine.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "engines/container.hpp"
#include "guard/setup.hpp"
#include "job/plan.hpp"
#include "run/launch.hpp"

namespace berth::job {

/// The engine's command for a job without a guard, only for display.
[[nodiscard]] Result<std::vector<std::string>> container_words(
    const engines::ContainerWish& wish, const Plan& plan, const std::vector<std::string>& command);
/// Changes the launch so that the command runs in a container. If the container's processes are not
/// our descendants, returns the path of the file for the container's id. If they are, returns "".
/// Fails with the errors of engines::container_command().
[[nodiscard]] Result<std::string> enter_container(const engines::ContainerWish& wish,
                                                  const Plan& plan,
                                                  const std::vector<guard::MountedFile>& guard,
                                                  run::Launch& launch);

}  // namespace berth::job
