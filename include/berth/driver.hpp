// Whether a driver in this process has already read which devices it may use. The check neither
// loads nor initialises a driver. The Python package has the same check
// (python/berth/frameworks.py).
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "error.hpp"

namespace berth::detail {

/// A handle of the library if this process has loaded it; a null pointer if not. The handle is
/// never closed, because drivers stay loaded.
inline void* loaded_driver(const char* name) {
  return ::dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
}

inline bool cuda_has_devices() {
  void* const driver = loaded_driver("libcuda.so.1");
  if (driver == nullptr) return false;
  const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  return ask != nullptr && ask(&count) == 0 && count > 0;
}

inline bool level_zero_has_drivers() {
  void* const driver = loaded_driver("libze_loader.so.1");
  if (driver == nullptr) return false;
  const auto ask = reinterpret_cast<int (*)(std::uint32_t*, void*)>(::dlsym(driver, "zeDriverGet"));
  std::uint32_t count = 0;
  return ask != nullptr && ask(&count, nullptr) == 0 && count > 0;
}

/// Whether this process has opened a file whose path begins with `path`.
inline bool has_open(std::string_view path) {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return false;
  bool found = false;
  while (const dirent* const entry = ::readdir(folder)) {
    char target[256];
    const auto size = ::readlinkat(::dirfd(folder), entry->d_name, target, sizeof target);
    if (size > 0 &&
        std::string_view(target, static_cast<std::size_t>(size)).substr(0, path.size()) == path)
      found = true;
  }
  ::closedir(folder);
  return found;
}

/// The name of a driver that is already initialised; a null pointer if there is none.
inline const char* initialised_driver() {
  if (cuda_has_devices()) return "CUDA";
  if (level_zero_has_drivers()) return "Level Zero";
  struct Opens {
    const char *name, *library, *device;
  };
  // These drivers cannot be asked whether they are initialised. But an initialised driver has a
  // device file open.
  constexpr Opens kOpens[] = {{"ROCm", "libhsa-runtime64.so.1", "/dev/kfd"},
                              {"OpenCL", "libnvidia-opencl.so.1", "/dev/nvidia"},
                              {"OpenCL", "libigdrcl.so", "/dev/dri/render"}};
  for (const Opens& one : kOpens)
    if (loaded_driver(one.library) != nullptr && has_open(one.device)) return one.name;
  return nullptr;
}

inline Error too_late(const char* driver, std::string why) {
  return {Kind::too_late, "E0572", driver + std::move(why),
          text("call it before the first use of a device; or: berth run -- PROGRAM",
               "在首次使用设备之前调用；或：berth run -- PROGRAM")};
}

}  // namespace berth::detail
