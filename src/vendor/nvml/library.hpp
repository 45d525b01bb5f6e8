// Loads NVIDIA's management library at run time. Tests fill the struct of typed function pointers
// with their own functions; nothing is virtual.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "vendor/nvml/abi.hpp"

namespace berth::nvml {

/// Every function of functions.inc; null if the library lacks it. After open(), required functions
/// are never null.
struct Api {
#define NVML_FN(need, type, function, parameters, ...) type(*function) parameters = nullptr;
#include "vendor/nvml/functions.inc"
#undef NVML_FN
};

/// The name of the library that open() tries by default.
inline constexpr std::string_view kSoname = "libnvidia-ml.so.1";

/// Opens and binds the library, but does not initialize it. It stays open, because drivers do not
/// survive dlclose. `path` is a soname or a path. If the plain soname is not found, tries WSL's
/// location. Fails with kNotFound (E0301: no such library), kUnavailable (E0302: it cannot be
/// loaded) or kUnsupported (E0303: a required function is missing).
[[nodiscard]] Result<Api> open(const std::string& path);

/// How a library provides one row of functions.inc.
struct Binding {
  std::string_view function;  // "DeviceGetCount"
  bool required = false;
  std::string_view found;  // the symbol that was found; "" if it is missing
};
/// The bindings of all rows, in the order of the list. Empty if the library cannot be opened.
[[nodiscard]] std::vector<Binding> bindings(const std::string& path);

}  // namespace berth::nvml
