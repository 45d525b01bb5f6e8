// Loads NVIDIA's management library at run time. Api is a struct of typed function pointers, which
// tests fill with functions of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "vendor/nvml/abi.hpp"

namespace berth::nvml {

/// One function pointer for each function of functions.inc; null if the library lacks the function.
/// After open(), required functions are never null.
struct Api {
#define NVML_FN(need, type, function, parameters, ...) type(*function) parameters = nullptr;
#include "vendor/nvml/functions.inc"
#undef NVML_FN
};

/// The default library for open().
inline constexpr std::string_view kSoname = "libnvidia-ml.so.1";

/// Loads the library and looks up its functions, but does not initialize it. The library is never
/// unloaded, because drivers do not survive dlclose. `path` is a soname or a path. If the default
/// soname is not found, tries WSL's folder. Fails with kNotFound (E0301: no such library),
/// kUnavailable (E0302: it cannot be loaded) or kUnsupported (E0303: a required function is
/// missing).
[[nodiscard]] Result<Api> open(const std::string& path);

/// Which symbol of the library is used for one row of functions.inc.
struct Binding {
  std::string_view function;  // name without "nvml", such as "DeviceGetCount"
  bool required = false;
  std::string_view found;  // the symbol that was found; "" if it is missing
};
/// Returns the bindings of all rows of functions.inc, in the same order. Empty if the library
/// cannot be opened.
[[nodiscard]] std::vector<Binding> bindings(const std::string& path);

}  // namespace berth::nvml
