#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/environment_variables.hpp"
#include "base/text.hpp"
#include "inventory/observe.hpp"

namespace berth::inventory {

namespace {

bool is_folder(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

}  // namespace

Sources Sources::from_environment() {
  Sources sources;
  if (const auto root = env_nonempty("BERTH_ROOT")) {
    sources.roots = {*root + "/proc", *root + "/sys", *root + "/dev", *root + "/etc",
                     *root + "/proc"};
    // Do not load vendor libraries: they would report the devices of this machine instead of the
    // recorded ones.
    sources.nvml_library.clear();
    sources.opencl_library.clear();
  } else if (const auto simulated = env_nonempty("BERTH_SIM_DIR")) {
    sources.simulated = true;
    sources.roots.sys = *simulated + "/sys";
    if (is_folder(*simulated + "/proc")) sources.roots.drm_proc = *simulated + "/proc";
    // A simulated machine has no OpenCL platforms.
    sources.opencl_library.clear();
  }
  // A variable that is set but empty means that the library is not loaded.
  if (auto library = env("BERTH_NVML_LIBRARY")) sources.nvml_library = std::move(*library);
  if (auto library = env("BERTH_OPENCL_LIBRARY")) sources.opencl_library = std::move(*library);
  return sources;
}

Status Sources::check_environment() {
  const auto root = env_nonempty("BERTH_ROOT");
  const auto simulated = root ? std::nullopt : env_nonempty("BERTH_SIM_DIR");
  if (simulated && ::access((*simulated + "/sys").c_str(), R_OK | X_OK) != 0 && errno == EACCES)
    return Error{ErrorCode::kPermissionDenied, "E0014",
                 text("this user cannot read the folder of the simulated machine, {}",
                      printable(*simulated)),
                 text("a simulated machine is only visible to the user who started it: start one "
                      "as this user, or unset BERTH_SIM_DIR")};
  if (!root || is_folder(*root)) return Done{};
  return Error{ErrorCode::kInvalidArgument, "E0012",
               text("BERTH_ROOT: there is no folder {}", printable(*root)), "unset BERTH_ROOT"};
}

}  // namespace berth::inventory
