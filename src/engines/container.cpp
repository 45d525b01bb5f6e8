#include "engines/container.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "policy/container.hpp"

namespace berth::engines {
namespace {

using Words = std::vector<std::string>;
using model::Setting;

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

Error bad_mount(const std::string& given, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E1103",
          text("--mount: '{}' cannot be mounted: {}", printable(given), why),
          "berth run --container IMAGE --mount /data:/data:ro -- COMMAND"};
}

/// Formats a mount as SOURCE:TARGET[:ro]. The engines separate the parts by colons and the options
/// by commas, so a path may contain neither.
Result<std::string> mount_word(const ContainerMount& mount) {
  for (const std::string* path : {&mount.source, &mount.target})
    if (path->find_first_of(":,") != std::string::npos)
      return bad_mount(*path, text("its path has a colon or a comma"));
  return mount.source + ":" + mount.target + (mount.writable ? "" : ":ro");
}

/// In the container, the GPUs of a simulated machine keep their numbers, because the simulated
/// driver shows all of them.
Words simulated_variables(const model::Environment& environment, const std::string& folder) {
  Words out{"BERTH_SIM_DIR=" + folder, "LD_LIBRARY_PATH=" + folder + "/lib"};
  for (const Setting& one : environment.settings)
    if (one.action != Setting::Action::kUnset) out.push_back(one.name + "=" + one.value);
  return out;
}

Words guard_variables(const ContainerPlace& place) {
  if (place.guard.empty()) return {};
  Words out{std::string("LD_PRELOAD=") + kGuardFolder + "/libberth-guard.so",
            std::string("BERTH_GUARD=") + kGuardFolder};
  if (place.strict) out.emplace_back("BERTH_GUARD_STRICT=1");
  return out;
}

Result<std::vector<ContainerMount>> mounts_of(const ContainerWish& wish,
                                              const ContainerPlace& place) {
  std::vector<ContainerMount> all = place.guard;
  if (!place.sim_folder.empty()) all.push_back({place.sim_folder, place.sim_folder, true});
  if (can_mount_folder(place.folder)) all.push_back({place.folder, place.folder, true});
  for (const std::string& given : wish.mounts) {
    auto mount = parse_mount(given, place.folder);
    if (!mount) return std::move(mount).error();
    all.push_back(*std::move(mount));
  }
  return all;
}

bool has_vendor(const model::Placement& placement, const model::Snapshot& snapshot,
                model::Vendor vendor) {
  return std::any_of(snapshot.devices.begin(), snapshot.devices.end(), [&](const auto& device) {
    const auto& chosen = placement.devices;
    return device.vendor == vendor &&
           std::find(chosen.begin(), chosen.end(), device.index) != chosen.end();
  });
}

/// Apptainer gives the container all device nodes and the caller's variables.
ContainerCommand in_apptainer(const ContainerWish& wish, const ContainerPlace& place,
                              const Words& mounts, const model::Placement& placement,
                              const model::Snapshot& snapshot) {
  ContainerCommand out;
  out.words = {wish.program, "exec"};
  if (place.sim_folder.empty()) {
    if (has_vendor(placement, snapshot, model::Vendor::kNvidia)) out.words.emplace_back("--nv");
    if (has_vendor(placement, snapshot, model::Vendor::kAmd)) out.words.emplace_back("--rocm");
  }
  if (can_mount_folder(place.folder)) append(out.words, {"--pwd", place.folder});
  for (const std::string& one : mounts) append(out.words, {"--bind", one});
  // APPTAINERENV_NAME sets NAME only inside the container. Without the prefix, the engine's own
  // programs would load the guard, too.
  for (const std::string& one : guard_variables(place))
    out.variables.push_back("APPTAINERENV_" + one);
  append(out.words, wish.options);
  const bool is_reference = wish.image.find("://") != std::string::npos || exists(wish.image);
  out.words.push_back(is_reference ? wish.image : "docker://" + wish.image);
  return out;
}

/// Removes the old container and its id file before docker starts, because docker has no --replace
/// and does not overwrite the id file. Errors of the removal are ignored: `docker run` then reports
/// them.
Words after_removal(const ContainerPlace& place, const Words& words) {
  constexpr const char* kScript =
      R"(rm -f "$1"; "$0" rm --force "$2" >/dev/null 2>&1; shift 2; exec "$0" "$@")";
  Words out{"/bin/sh", "-c", kScript, words.front(), place.id_file, place.name};
  out.insert(out.end(), words.begin() + 1, words.end());
  return out;
}

ContainerCommand in_docker_or_podman(const ContainerWish& wish, const ContainerPlace& place,
                                     const Words& mounts, const Words& devices) {
  const bool docker = wish.engine == ContainerEngine::kDocker;
  ContainerCommand out;
  out.words = {wish.program, "run", "--rm", "--name", place.name, "--pull=never", "--interactive"};
  if (place.terminal) out.words.emplace_back("--tty");
  if (place.has_init) out.words.emplace_back("--init");
  if (!place.user.empty() && docker) append(out.words, {"--user", place.user});
  if (!place.id_file.empty()) append(out.words, {"--cidfile", place.id_file});
  if (can_mount_folder(place.folder)) append(out.words, {"--workdir", place.folder});
  for (const std::string& one : mounts) append(out.words, {"--volume", one});
  append(out.words, devices);
  for (const std::string& one : guard_variables(place)) append(out.words, {"-e", one});
  if (place.job != 0) {
    // The option names only the variable, so the engine takes the value from its own environment.
    // All users can read a command line, but only the job's user and root can read that
    // environment.
    append(out.words, {"-e", kJobVariable});
    out.variables.push_back(fmt::format("{}={}:{}", kJobVariable, place.job, place.token));
  }
  if (place.repeats) {
    append(out.words, {"-e", "BERTH_TRY", "-e", "BERTH_BATCH_SCALE"});
    if (docker)
      out.words = after_removal(place, out.words);
    else
      out.words.emplace_back("--replace");
  }
  append(out.words, wish.options);
  out.words.push_back(wish.image);
  out.remove = {wish.program, "rm", "--force", place.name};
  return out;
}

}  // namespace

const char* name(ContainerEngine engine) {
  return engine == ContainerEngine::kPodman   ? "podman"
         : engine == ContainerEngine::kDocker ? "docker"
                                              : "apptainer";
}

Result<ContainerWish> find_engine(const std::optional<std::string>& wanted,
                                  const std::function<std::string(const std::string&)>& in_path) {
  struct Known {
    ContainerEngine engine;
    const char* program;
  };
  // Singularity is the older name of apptainer.
  constexpr std::array kKnown{Known{ContainerEngine::kPodman, "podman"},
                              Known{ContainerEngine::kDocker, "docker"},
                              Known{ContainerEngine::kApptainer, "apptainer"},
                              Known{ContainerEngine::kApptainer, "singularity"}};
  for (const Known& one : kKnown) {
    if (wanted && *wanted != name(one.engine)) continue;
    ContainerWish wish;
    wish.engine = one.engine;
    wish.program = in_path(one.program);
    if (!wish.program.empty()) return wish;
  }
  return Error{ErrorCode::kNotFound, "E1100",
               wanted ? text("--container: {} is not installed", printable(*wanted))
                      : text("--container: none of podman, docker and apptainer is installed"),
               "sudo apt-get install podman"};
}

Result<ContainerMount> parse_mount(const std::string& given, const std::string& folder) {
  const auto parts = split(given, ':');
  ContainerMount mount;
  mount.writable = true;
  std::size_t count = parts.size();
  if (count > 1 && (parts.back() == "ro" || parts.back() == "rw")) {
    mount.writable = parts.back() == "rw";
    --count;
  }
  if (count == 0 || count > 2 || parts[0].empty())
    return bad_mount(given, text("it is not SOURCE[:TARGET[:ro]]"));
  const auto absolute = [&](std::string_view path) {
    return path.starts_with('/') ? std::string(path) : folder + "/" + std::string(path);
  };
  mount.source = absolute(parts[0]);
  if (!exists(mount.source)) return bad_mount(given, text("there is no such file or folder"));
  if (count == 2 && !parts[1].starts_with('/'))
    return bad_mount(given, text("its target is not an absolute path"));
  mount.target = count == 2 ? std::string(parts[1]) : mount.source;
  return mount;
}

bool can_mount_folder(const std::string& folder) {
  if (folder.size() < 2 || folder.front() != '/' || folder.find_first_of(":,") != std::string::npos)
    return false;
  const std::string top = folder.substr(0, folder.find('/', 1));
  constexpr std::array<std::string_view, 12> kSystem{"/bin",  "/boot",  "/dev",  "/etc",
                                                     "/lib",  "/lib64", "/proc", "/run",
                                                     "/sbin", "/sys",   "/usr",  "/lib32"};
  return std::find(kSystem.begin(), kSystem.end(), top) == kSystem.end();
}

bool has_cdi_devices(const std::string& root) {
  constexpr std::size_t kMost = 4U << 20U;
  for (const char* folder : {"/etc/cdi", "/var/run/cdi"})
    for (const std::string& file : list_folder(root + folder)) {
      if (!file.ends_with(".json") && !file.ends_with(".yaml")) continue;
      const auto content = read_file(root + folder + "/" + file, kMost);
      // If the file cannot be read, assume that it names NVIDIA's GPUs. If that is wrong, the
      // engine itself reports the error.
      if (!content || content->find("nvidia.com/gpu") != std::string::npos) return true;
    }
  return false;
}

Result<ContainerCommand> container_command(const ContainerWish& wish, const ContainerPlace& place,
                                           const std::vector<std::string>& command,
                                           const model::Environment& environment,
                                           const model::Placement& placement,
                                           const model::Snapshot& snapshot) {
  const auto mounts = mounts_of(wish, place);
  if (!mounts) return mounts.error();
  Words mount_words;
  for (const ContainerMount& one : *mounts) {
    auto word = mount_word(one);
    if (!word) return std::move(word).error();
    mount_words.push_back(*std::move(word));
  }
  Words devices;
  if (!place.sim_folder.empty()) {
    for (const std::string& one : simulated_variables(environment, place.sim_folder))
      append(devices, {"-e", one});
  } else {
    const bool docker = wish.engine == ContainerEngine::kDocker;
    // Podman's containers are descendants of this process, so they inherit its CPU affinity.
    // Docker's containers are not, so docker needs an option.
    model::Environment own = environment;
    if (!docker) own.cpus.clear();
    devices = policy::container_words(
        own, placement, snapshot,
        docker ? policy::ContainerTool::kDocker : policy::ContainerTool::kCdi);
  }
  auto out = wish.engine == ContainerEngine::kApptainer
                 ? in_apptainer(wish, place, mount_words, placement, snapshot)
                 : in_docker_or_podman(wish, place, mount_words, devices);
  append(out.words, command);
  return out;
}

}  // namespace berth::engines
