// A simulated driver in the test's own process: a folder with a state, and the library loaded from
// there. Every instance loads its own copy of the library, because a library keeps its machine
// until the process ends.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sim/driver_library.hpp"
#include "sim/folder.hpp"
#include "sim/machine_check.hpp"
#include "sim/state.hpp"
#include "vendor/nvml/abi.hpp"

class Simulated {
 public:
  explicit Simulated(const std::string& machine, std::uint32_t processes = 0,
                     const std::vector<std::string>& faults = {},
                     std::uint64_t at_ns = 30'000'000'000)
      : folder_(make_folder()) {
    auto loaded = berth::sim::load_machine(machine);
    REQUIRE(loaded);
    berth::sim::Options options;
    options.processes = processes;
    options.at_ns = at_ns;
    for (const std::string& fault : faults) {
      auto parsed = berth::sim::parse_fault(fault, berth::sim::device_count(*loaded));
      REQUIRE(parsed);
      options.faults.push_back(*parsed);
    }
    write_files(*loaded, options);
    const std::uint32_t major =
        loaded->driver ? berth::sim::parse_driver_version(loaded->driver->version)->major : 9999;
    REQUIRE(folder_.write("library", berth::sim::driver_library(major), true));
    handle_ = dlopen((folder_.path() + "/library").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) FAIL(dlerror());
  }
  Simulated(const Simulated&) = delete;
  Simulated& operator=(const Simulated&) = delete;
  ~Simulated() {
    dlclose(handle_);
    folder_.remove();
  }

  [[nodiscard]] void* find(const char* name) const { return dlsym(handle_, name); }
  /// Calls a function of the library; fails the test if it does not exist.
  template <typename... Args>
  nvmlReturn_t call(const char* name, Args... args) const {
    void* found = find(name);
    CAPTURE(name);
    REQUIRE(found != nullptr);
    return reinterpret_cast<nvmlReturn_t (*)(Args...)>(found)(args...);
  }
  /// Calls nvmlInit_v2 (or another version) on this machine.
  template <typename... Args>
  nvmlReturn_t begin(const char* name = "nvmlInit_v2", Args... args) const {
    setenv("BERTH_SIM_DIR", folder_.path().c_str(), 1);
    return call(name, args...);
  }
  [[nodiscard]] nvmlDevice_t device(std::uint32_t index) const {
    nvmlDevice_t handle = nullptr;
    REQUIRE(call("nvmlDeviceGetHandleByIndex_v2", index, &handle) == NVML_SUCCESS);
    return handle;
  }
  /// How often a function was called.
  [[nodiscard]] std::uint64_t calls(const std::string& name) const;
  [[nodiscard]] std::uint64_t wakes(std::uint32_t device) const;

 private:
  static berth::sim::Folder make_folder() {
    auto folder = berth::sim::Folder::make(berth::sim::temporary_directory());
    if (!folder) FAIL(folder.error().message);
    return std::move(*folder);
  }
  void write_files(const berth::sim::Machine& machine, const berth::sim::Options& options);
  [[nodiscard]] std::uint64_t word(std::size_t index) const;

  berth::sim::Folder folder_;
  void* handle_ = nullptr;
};
