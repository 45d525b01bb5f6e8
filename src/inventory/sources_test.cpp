#include <doctest/doctest.h>
#include <stdlib.h>
#include <test_paths.hpp>

#include <string>

#include "inventory/observe.hpp"

using berth::inventory::Sources;

namespace {
/// Saves the variables that select the machine to read, and restores them after the test.
struct CleanEnvironment {
  static constexpr const char* kNames[] = {"BERTH_ROOT", "BERTH_SIM_DIR", "BERTH_NVML_LIBRARY",
                                           "BERTH_OPENCL_LIBRARY"};
  CleanEnvironment() { clear(); }
  ~CleanEnvironment() { clear(); }
  CleanEnvironment(const CleanEnvironment&) = delete;
  CleanEnvironment& operator=(const CleanEnvironment&) = delete;
  static void clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }
};
void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}
}  // namespace

TEST_CASE("without variables the sources are this machine") {
  const CleanEnvironment clean;
  const Sources sources = Sources::from_environment();
  CHECK(sources.roots.proc == "/proc");
  CHECK(sources.nvml_library == "libnvidia-ml.so.1");
  CHECK(sources.opencl_library == "libOpenCL.so.1");
  CHECK(!sources.simulated);
}

TEST_CASE("a recorded machine uses no library of this machine unless it is named") {
  const CleanEnvironment clean;
  set("BERTH_ROOT", "/somewhere");
  Sources sources = Sources::from_environment();
  CHECK(sources.roots.proc == "/somewhere/proc");
  CHECK(sources.roots.drm_proc == "/somewhere/proc");
  CHECK(sources.roots.etc == "/somewhere/etc");
  CHECK(sources.nvml_library.empty());
  CHECK(sources.opencl_library.empty());
  set("BERTH_NVML_LIBRARY", "/elsewhere/libnvidia-ml.so.1");
  sources = Sources::from_environment();
  CHECK(sources.nvml_library == "/elsewhere/libnvidia-ml.so.1");
  CHECK(sources.opencl_library.empty());
}

TEST_CASE("a missing recorded machine is an error, not an empty machine") {
  const CleanEnvironment clean;
  CHECK(Sources::check_environment());
  set("BERTH_ROOT", "/nonexistent");
  REQUIRE(!Sources::check_environment());
  CHECK(Sources::check_environment().error().id == "E0012");
  set("BERTH_ROOT", "/");
  CHECK(Sources::check_environment());
}

TEST_CASE("a simulated machine has its own devices and this machine's processes") {
  const CleanEnvironment clean;
  set("BERTH_SIM_DIR", "/nonexistent/sim");
  Sources sources = Sources::from_environment();
  CHECK(sources.simulated);
  CHECK(sources.roots.sys == "/nonexistent/sim/sys");
  CHECK(sources.roots.proc == "/proc");
  CHECK(sources.roots.drm_proc == "/proc");
  CHECK(sources.nvml_library == "libnvidia-ml.so.1");
  CHECK(sources.opencl_library.empty());
  const std::string machine = std::string(BERTH_TEST_MACHINES) + "/processes-host";
  set("BERTH_SIM_DIR", machine);
  sources = Sources::from_environment();
  CHECK(sources.roots.drm_proc == machine + "/proc");
}

TEST_CASE("a library that is set to an empty name is not called") {
  const CleanEnvironment clean;
  set("BERTH_NVML_LIBRARY", "");
  CHECK(Sources::from_environment().nvml_library.empty());
}
