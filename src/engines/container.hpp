// `berth run --container`: the command line that starts a job in a container of podman, docker or
// apptainer. Pure, except for find_engine and has_cdi_devices.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

enum class ContainerEngine { kPodman, kDocker, kApptainer };
[[nodiscard]] const char* name(ContainerEngine engine);

/// What the user requested for the container.
struct ContainerWish {
  ContainerEngine engine = ContainerEngine::kPodman;
  std::string program;  // path of the engine's program
  std::string image;
  std::vector<std::string> mounts;   // SOURCE[:TARGET[:ro]]
  std::vector<std::string> options;  // options that are passed to the engine unchanged
};

struct ContainerMount {
  std::string source, target;
  bool writable = false;
};

/// What a job in a container needs from this machine.
struct ContainerPlace {
  std::string name;    // name of the container
  std::string folder;  // the caller's working folder
  /// "1000:1000" for docker, which would start as root; "": the engine's default user.
  std::string user;
  std::string id_file;    // docker writes the container's id to this file; "": no file
  bool terminal = false;  // stdin and stdout are terminals
  bool has_init = false;  // the engine has a small init that passes on signals
  bool repeats = false;  // the command may be started again while an earlier container still exists
  bool strict = false;   // --strict: CUDA must not start without the guard
  /// The job's id, by which the hook of `berth container` finds its lease; 0: no job.
  std::uint64_t job = 0;
  std::string token;       // secret: proves to the hook that the job's user starts the container
  std::string sim_folder;  // folder of the simulated machine; "": the machine is real
  std::vector<ContainerMount> guard;  // mounts of the guard's files; empty: the job has no guard
};

/// Where the guard's files are in the container.
inline constexpr const char* kGuardFolder = "/run/berth";
/// "JOB:TOKEN", in the environment of the engine and of the container.
inline constexpr const char* kJobVariable = "BERTH_CONTAINER_JOB";

/// Finds the engine `wanted` in PATH, or the first installed engine if none is wanted. `in_path`
/// returns the path of a program, or "". Fails with kNotFound (E1100).
[[nodiscard]] Result<ContainerWish> find_engine(
    const std::optional<std::string>& wanted,
    const std::function<std::string(const std::string&)>& in_path);

/// Checks --mount. Fails with kInvalidArgument (E1103).
[[nodiscard]] Result<ContainerMount> parse_mount(const std::string& given,
                                                 const std::string& folder);
/// Whether the container may mount the working folder over the image's folder of the same path.
/// False for the root and for system folders.
[[nodiscard]] bool can_mount_folder(const std::string& folder);

/// Whether a file in the folders for CDI names NVIDIA's GPUs. `root` is "" or a test's folder.
[[nodiscard]] bool has_cdi_devices(const std::string& root);

struct ContainerCommand {
  std::vector<std::string> words;      // the command line that starts the container
  std::vector<std::string> variables;  // NAME=value to add to the engine's own environment
  std::vector<std::string> remove;  // command line that removes the container, if it still exists
};

/// Makes the command line. Fails with kInvalidArgument (E1103) if a path cannot be mounted.
[[nodiscard]] Result<ContainerCommand> container_command(const ContainerWish& wish,
                                                         const ContainerPlace& place,
                                                         const std::vector<std::string>& command,
                                                         const model::Environment& environment,
                                                         const model::Placement& placement,
                                                         const model::Snapshot& snapshot);

}  // namespace berth::engines
