#include "vendor/nvml/library.hpp"

#include <dlfcn.h>

#include <array>
#include <initializer_list>

#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::nvml {

namespace {

// The folder in which WSL puts the library of the Windows driver. Some distributions do not list it
// in ld.so.conf.
constexpr std::array<const char*, 1> kOtherPlaces = {"/usr/lib/wsl/lib/libnvidia-ml.so.1"};

struct Loaded {
  void* handle = nullptr;
  std::string complaint;
};

Loaded load(const char* path) {
  Loaded loaded;
  loaded.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (loaded.handle == nullptr) {
    const char* said = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one a thread
    loaded.complaint = printable(said != nullptr ? said : "");
  }
  return loaded;
}

// Whether NVML itself is missing. The loader then says "NAME: cannot open shared object file: No
// such file or directory", and NAME is `path`. If NAME is another library, NVML is installed but
// one of its dependencies is missing.
bool is_absent(const Loaded& loaded, const std::string& path) {
  return loaded.complaint.starts_with(path + ":") &&
         loaded.complaint.find("No such file") != std::string::npos;
}

Loaded load_somewhere(const std::string& path) {
  Loaded loaded = load(path.c_str());
  if (loaded.handle != nullptr || path != kSoname || !is_absent(loaded, path)) return loaded;
  for (const char* other : kOtherPlaces) {
    Loaded there = load(other);
    if (there.handle != nullptr || !is_absent(there, other)) return there;
  }
  return loaded;
}

struct Found {
  void* address = nullptr;
  std::string_view name;
};

Found find(void* library, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* address = dlsym(library, name)) return {address, name};
  }
  return {};
}

constexpr bool required = true;
constexpr bool optional = false;

}  // namespace

Result<Api> open(const std::string& path) {
  const Loaded loaded = load_somewhere(path);
  if (loaded.handle == nullptr && is_absent(loaded, path)) {
    return Error{ErrorCode::kNotFound, "E0301", text("there is no library {}", path)};
  }
  if (loaded.handle == nullptr) {
    return Error{ErrorCode::kUnavailable, "E0302",
                 text("NVIDIA's library cannot be loaded: {}", loaded.complaint)};
  }
  Api api;
  std::string missing;
#define NVML_FN(need, type, function, parameters, ...)                                             \
  {                                                                                                \
    const Found found = find(loaded.handle, {__VA_ARGS__});                                        \
    api.function = reinterpret_cast<type(*) parameters>(found.address);                            \
    if (need && found.address == nullptr) missing += missing.empty() ? #function : ", " #function; \
  }
#include "vendor/nvml/functions.inc"
#undef NVML_FN
  if (!missing.empty()) {
    return Error{ErrorCode::kUnsupported, "E0303",
                 text("the library {} lacks functions of NVML: {}", path, missing)};
  }
  return api;
}

std::vector<Binding> bindings(const std::string& path) {
  std::vector<Binding> rows;
  const Loaded loaded = load_somewhere(path);
  if (loaded.handle == nullptr) return rows;
#define NVML_FN(need, type, function, parameters, ...) \
  rows.push_back({#function, need, find(loaded.handle, {__VA_ARGS__}).name});
#include "vendor/nvml/functions.inc"
#undef NVML_FN
  return rows;
}

}  // namespace berth::nvml
