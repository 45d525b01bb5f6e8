// observe() scans the machine once and returns a snapshot. A Sources object has everything that
// differs between a real, a recorded and a simulated machine.
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
  std::string nvml_library = "libnvidia-ml.so.1";  // "": do not call NVIDIA's driver
  std::string opencl_library = "libOpenCL.so.1";   // "": do not call OpenCL
  bool simulated = false;

  /// BERTH_ROOT=DIR: a recorded tree DIR/{proc,sys,dev,etc}. In that case no vendor library is
  /// opened, unless BERTH_NVML_LIBRARY or BERTH_OPENCL_LIBRARY names it. BERTH_SIM_DIR (set by
  /// `berth sim`): sys = DIR/sys, drm_proc = DIR/proc if it exists. libnvidia-ml.so.1 is found
  /// through LD_LIBRARY_PATH, as in any program.
  [[nodiscard]] static Sources from_environment();
  /// Fails with kInvalidArgument (E0012) if BERTH_ROOT is not a folder, because a missing machine
  /// must not look like an empty one. Fails with kPermissionDenied (E0014) if another user owns
  /// BERTH_SIM_DIR.
  [[nodiscard]] static Status check_environment();
};

enum class OpenCl { kAuto, kAlways, kNever };  // kAuto: only if no other GPU was found

struct Options {
  bool processes = true;  // whether to read the process lists and /proc
  // whether to read user, command, times, memory and home of each process
  bool process_details = true;
  bool process_users =
      true;  // whether to read the user of each process even without process_details
  // whether to search /proc for the processes that have a device open, if memory of the device is
  // unaccounted for
  bool holders = true;
  bool pcie_throughput = false;  // whether to measure PCIe throughput, which blocks in the driver
                                 // for 20 ms per direction
  OpenCl opencl = OpenCl::kAuto;
  std::chrono::milliseconds device_deadline{700};
  std::chrono::milliseconds initialisation_deadline{30'000};
  /// Called at most once, after a second of waiting, with a sentence for people ("the NVIDIA driver
  /// is starting ...").
  std::function<void(std::string_view)> on_slow = {};
};

/// Scans the machine. It does not fail as a whole: values that cannot be read are absent with a
/// reason, and `driver`, `health` or `notes` explain it.
[[nodiscard]] model::Snapshot observe(const Sources& sources, const Options& options);

}  // namespace berth::inventory
