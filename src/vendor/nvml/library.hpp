// NVIDIA's management library, opened at run time. The struct of typed pointers is the seam: a test
// fills it with functions of its own, and nothing below it is virtual.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "vendor/nvml/abi.hpp"

namespace berth::nvml {

/// Every function of functions.inc; null where the library has no such function (never so for the
/// required ones after open()).
struct Api {
#define NVML_FN(need, type, function, parameters, ...) type(*function) parameters = nullptr;
#include "vendor/nvml/functions.inc"
#undef NVML_FN
};

/// The soname that open() tries first where no other is set.
inline constexpr std::string_view kSoname = "libnvidia-ml.so.1";

/// Opens and binds the library; it stays open, because drivers do not survive dlclose. `path` is a
/// soname or a path; where the plain soname is not found, the place is tried that WSL keeps it in.
/// Fails with kNotFound (E0301: there is no such library), kUnavailable (E0302: it cannot be
/// loaded) or kUnsupported (E0303: a required function is missing). Nothing is initialised yet.
[[nodiscard]] Result<Api> open(const std::string& path);

/// One row of functions.inc as a library answers it.
struct Binding {
  std::string_view function;  // "DeviceGetCount"
  bool required = false;
  std::string_view found;  // the name it was found by; "" missing
};
/// All rows, in the order of the list; empty where the library cannot be opened.
[[nodiscard]] std::vector<Binding> bindings(const std::string& path);

}  // namespace berth::nvml
