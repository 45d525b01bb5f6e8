// observe() scans the machine once and returns a snapshot. Sources holds everything that differs
// between a real, a recorded and a simulated machine.
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
  std::string nvml_library = "libnvidia-ml.so.1";  // "": do not query NVIDIA's driver
  std::string opencl_library = "libOpenCL.so.1";   // "": do not query OpenCL
  bool simulated = false;

  /// BERTH_ROOT=DIR: a recorded tree DIR/{proc,sys,dev,etc}. No vendor library is opened then,
  /// unless BERTH_NVML_LIBRARY or BERTH_OPENCL_LIBRARY names it. BERTH_SIM_DIR (set by `berth
  /// sim`): sys = DIR/sys, drm_proc = DIR/proc if it exists. libnvidia-ml.so.1 is found through
  /// LD_LIBRARY_PATH, as in any program.
  [[nodiscard]] static Sources from_environment();
  /// Fails with kInvalidArgument (E0012) if BERTH_ROOT is not a folder, because a missing machine
  /// must not look like an empty one. Fails with kPermissionDenied (E0014) if another user owns
  /// BERTH_SIM_DIR.
  [[nodiscard]] static Status check_environment();
};

enum class OpenCl { kAuto, kAlways, kNever };  // kAuto: only if no other GPU was found

struct Options {
  bool processes = true;  // read the process lists and /proc
  bool process_details =
      true;             // command, times, memory and home of each process; false: only its user
  bool holders = true;  // if memory is unaccounted for, search /proc for holders of the device
  bool pcie_throughput = false;  // blocks in the driver for 20 ms per direction
  OpenCl opencl = OpenCl::kAuto;
  std::chrono::milliseconds device_deadline{700};
  std::chrono::milliseconds initialisation_deadline{30'000};
  /// Called at most once, after a second of waiting, with a sentence for people ("the NVIDIA driver
  /// is starting ...").
  std::function<void(std::string_view)> on_slow = {};
};

/// Never fails as a whole. Unreadable values are absent with a reason; `driver`, `health` or
/// `notes` explain it.
[[nodiscard]] model::Snapshot observe(const Sources& sources, const Options& options);

}  // namespace berth::inventory
