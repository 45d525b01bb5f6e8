// observe() scans the machine once and returns a snapshot. A Sources object says where to read,
// because a real, a recorded and a simulated machine differ only in this.
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

  /// Reads the variables that name another machine. BERTH_ROOT=DIR is a recorded machine in
  /// DIR/{proc,sys,dev,etc}: no vendor library is opened, unless BERTH_NVML_LIBRARY or
  /// BERTH_OPENCL_LIBRARY names it. BERTH_SIM_DIR=DIR is set by `berth sim`: /sys is DIR/sys, and
  /// drm_proc is DIR/proc if it exists. As usual, LD_LIBRARY_PATH finds libnvidia-ml.so.1.
  [[nodiscard]] static Sources from_environment();
  /// Checks BERTH_ROOT and BERTH_SIM_DIR. Fails with kInvalidArgument (E0012) if BERTH_ROOT is not
  /// a folder, because a missing machine must not look like an empty one. Fails with
  /// kPermissionDenied (E0014) if another user owns BERTH_SIM_DIR.
  [[nodiscard]] static Status check_environment();
};

/// kAuto: query OpenCL only if no other reader found a GPU.
enum class OpenCl { kAuto, kAlways, kNever };

struct Options {
  bool processes = true;  // whether to read the process lists and /proc
  // whether to read user, command, times, memory and home of each process
  bool process_details = true;
  bool process_users =
      true;  // whether to read the user of each process even without process_details
  // whether to search /proc for processes that have a device open, if no process accounts for
  // memory of that device
  bool holders = true;
  bool pcie_throughput = false;  // whether to measure PCIe throughput, which takes 40 ms
  OpenCl opencl = OpenCl::kAuto;
  std::chrono::milliseconds device_deadline{700};
  std::chrono::milliseconds initialisation_deadline{30'000};
  /// Called at most once, after a wait of one second, with a sentence for people ("the NVIDIA
  /// driver is starting ...").
  std::function<void(std::string_view)> on_slow = {};
};

/// Scans the machine. It does not fail as a whole: values that cannot be read are absent with a
/// reason, and `driver`, `health` or `notes` explain it.
[[nodiscard]] model::Snapshot observe(const Sources& sources, const Options& options);

}  // namespace berth::inventory
