// observe() looks at the machine once and yields a snapshot. Everything that differs between a
// real, a recorded and a simulated machine is in Sources.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::inventory {

struct Sources {
  Roots roots;
  std::string nvml_library = "libnvidia-ml.so.1";  // "": NVIDIA's driver is not asked
  std::string opencl_library = "libOpenCL.so.1";   // "": OpenCL is not asked
  bool simulated = false;

  /// BERTH_ROOT=DIR: a recorded tree DIR/{proc,sys,dev,etc}; no vendor library is opened then,
  /// unless named by BERTH_NVML_LIBRARY or BERTH_OPENCL_LIBRARY. BERTH_SIM_DIR (set by `berth
  /// sim`): sys = DIR/sys, drm_proc = DIR/proc where it exists; libnvidia-ml.so.1 is found by
  /// LD_LIBRARY_PATH as any program finds it.
  [[nodiscard]] static Sources from_environment();
  /// Fails with kInvalidArgument (E0012) where BERTH_ROOT names no folder: a machine that is not
  /// there must not look like one without anything in it; and with kPermissionDenied (E0014) where
  /// BERTH_SIM_DIR is another user's.
  [[nodiscard]] static Status check_environment();
};

enum class OpenCl { kAuto, kAlways, kNever };  // kAuto: only where no other GPU was found

struct Options {
  bool processes = true;        // read the process lists and /proc
  bool process_details = true;  // command, times, memory and home of each; false: only whose it is
  bool holders = true;  // where memory is unaccounted for, search /proc for who has the device open
  bool pcie_throughput = false;  // blocks 20 ms a direction in the driver
  OpenCl opencl = OpenCl::kAuto;
  std::chrono::milliseconds device_deadline{700};
  std::chrono::milliseconds initialisation_deadline{30'000};
  /// Called at most once, after a second of waiting, with a sentence for people ("the NVIDIA driver
  /// is starting ...").
  std::function<void(std::string_view)> on_slow = {};
};

/// Never fails as a whole: what could not be read is absent with its reason, and says so in
/// `driver`, `health` or `notes`.
[[nodiscard]] model::Snapshot observe(const Sources& sources, const Options& options);

}  // namespace berth::inventory
