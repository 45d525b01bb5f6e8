#include "job/container.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "client/jobs.hpp"

namespace berth::job {
namespace {

/// Whether the engine can start an init process in the container. Without one, the command is
/// process 1, and it ignores SIGTERM unless it handles it.
bool has_init(engines::ContainerEngine engine) {
  constexpr std::array kPodman{"/usr/libexec/podman/catatonit",
                               "/usr/local/libexec/podman/catatonit", "/usr/bin/catatonit"};
  constexpr std::array kDocker{"/usr/bin/docker-init", "/usr/libexec/docker/docker-init",
                               "/usr/local/bin/docker-init"};
  const auto is_there = [](const char* path) { return ::access(path, X_OK) == 0; };
  if (engine == engines::ContainerEngine::kPodman)
    return std::any_of(kPodman.begin(), kPodman.end(), is_there);
  return engine == engines::ContainerEngine::kDocker &&
         std::any_of(kDocker.begin(), kDocker.end(), is_there);
}

engines::ContainerPlace place_of(const engines::ContainerWish& wish, const Plan& plan) {
  engines::ContainerPlace place;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  place.name = fmt::format("berth-{}-{:x}", ::getpid(),
                           std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::error_code problem;
  place.folder = std::filesystem::current_path(problem).string();
  if (::geteuid() != 0) place.user = fmt::format("{}:{}", ::geteuid(), ::getegid());
  if (plan.lease) {
    place.job = plan.lease->job();
    place.token = client::new_key();
  }
  place.terminal = ::isatty(0) == 1 && ::isatty(1) == 1;
  place.has_init = has_init(wish.engine);
  place.repeats = plan.supervision != nullptr;
  if (plan.snapshot.host.simulated) place.sim_folder = env_nonempty("BERTH_SIM_DIR").value_or("");
  return place;
}

/// Removes the guard's variables for the engine's own programs, even those of a surrounding job's
/// guard.
void remove_guard(std::vector<std::string>& environment) {
  std::erase_if(environment,
                [](const std::string& one) { return one.starts_with("BERTH_GUARD="); });
  const std::string preload = "LD_PRELOAD=";
  for (std::string& one : environment) {
    if (!one.starts_with(preload)) continue;
    std::string kept;
    for (const std::string_view path : split(std::string_view(one).substr(preload.size()), ':'))
      if (path.find("libberth-guard") == std::string_view::npos)
        kept += (kept.empty() ? "" : ":") + std::string(path);
    one = preload + kept;
  }
  std::erase(environment, preload);
}

}  // namespace

Result<std::vector<std::string>> container_words(const engines::ContainerWish& wish,
                                                 const Plan& plan,
                                                 const std::vector<std::string>& command) {
  auto made = engines::container_command(wish, place_of(wish, plan), command, plan.environment,
                                         plan.placement, plan.snapshot);
  if (!made) return std::move(made).error();
  return std::move(made->words);
}

Result<std::string> enter_container(const engines::ContainerWish& wish, const Plan& plan,
                                    const std::vector<guard::MountedFile>& guard,
                                    run::Launch& launch) {
  engines::ContainerPlace place = place_of(wish, plan);
  place.strict = std::find(launch.environment.begin(), launch.environment.end(),
                           "BERTH_GUARD_STRICT=1") != launch.environment.end();
  for (const guard::MountedFile& one : guard)
    place.guard.push_back(
        {one.source, std::string(engines::kGuardFolder) + "/" + one.name, one.writable});
  if (wish.engine == engines::ContainerEngine::kDocker && !launch.job_folder.empty())
    place.id_file = launch.job_folder + "/container";
  auto made = engines::container_command(wish, place, launch.command, plan.environment,
                                         plan.placement, plan.snapshot);
  if (!made) return std::move(made).error();
  launch.command = std::move(made->words);
  launch.remove_container = std::move(made->remove);
  remove_guard(launch.environment);
  for (const std::string& one : made->variables) {
    const std::string_view name = std::string_view(one).substr(0, one.find('=') + 1);
    std::erase_if(launch.environment,
                  [&](const std::string& had) { return had.starts_with(name); });
    launch.environment.push_back(one);
  }
  // Podman's monitor removes the container after the command has ended, so give it time to do that.
  launch.head_start = std::chrono::seconds(3);
  return place.id_file;
}

}  // namespace berth::job
