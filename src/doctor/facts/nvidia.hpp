// NVIDIA's driver as it lies on the machine: its module, its libraries, its nodes. From files
// alone.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// nvidia.ko of one kernel.
struct ModuleFile {
  std::string kernel, path;
  Fact<bool> is_signed;             // unreadable: it is compressed
  Fact<std::int64_t> changed = {};  // when it came to be there, in seconds since 1970
};
/// libcuda.so.570.124.06, and where it is.
struct DriverLibrary {
  std::string name, version, path;  // name: "libcuda.so"
};
/// A line of modprobe's configuration that speaks of a GPU's module.
struct ModprobeLine {
  std::string file, text;
};
struct DeviceNode {
  std::string path;
  Node node;
};

struct BuildLog {
  std::string path;  // "/var/lib/dkms/nvidia/535.129.03/build/make.log"
  std::vector<std::string> lines;
  std::string compiler;  // the running kernel's: "gcc-12 (Ubuntu 12.3.0) 12.3.0"; "" not told
};

/// A package that dpkg has begun to install, and not finished.
struct UnfinishedPackage {
  std::string name, status;  // "nvidia-dkms-550", "half-configured"
};
/// Of what /proc/version says, the compiler; "" none.
[[nodiscard]] std::string kernel_compiler(std::string_view version);

struct NvidiaFacts {
  Fact<std::string> module_version;                     // of the loaded one
  Fact<bool> open_module;                               // the flavour of the loaded one
  Fact<std::map<std::string, std::string>> parameters;  // /proc/driver/nvidia/params
  /// Of all kernels; absent: there are no modules on this machine at all (a container).
  Fact<std::vector<ModuleFile>> modules_on_disk;
  Fact<std::vector<std::string>> kernels_on_disk;
  Fact<std::string> source;  // "/usr/src/nvidia-535.129.03", for DKMS
  /// What DKMS or akmods left of a build for the running kernel that failed.
  Fact<BuildLog> build_log;
  Fact<std::vector<ModprobeLine>> modprobe;
  Fact<std::string> remover;  // a udev rule that takes NVIDIA's functions off the bus
  Fact<std::vector<DriverLibrary>> libraries;  // where a distribution or NVIDIA puts them
  Fact<std::string> library_version;           // of the libnvidia-ml.so.1 that would be taken
  Fact<std::vector<std::string>> installers;   // traces: "dpkg", "rpm", "nvidia-installer"
  Fact<std::vector<std::string>> firmware;     // versions under /lib/firmware/nvidia with GSP files
  Fact<std::vector<DeviceNode>> nodes;         // /dev/nvidia*
  /// What the kernel has given to drivers' nodes today: "nvidia-uvm" → 510, of /proc/devices.
  Fact<std::multimap<std::string, unsigned>> majors;
  Fact<std::vector<std::string>> imex_channels;  // names in /dev/nvidia-caps-imex-channels
  Fact<bool> modprobe_helper;                    // nvidia-modprobe, with the right to create nodes
  Fact<std::string> fabric_manager;              // version of what is installed; "": not known
  Fact<std::string> gridd;                       // "/usr/bin/nvidia-gridd": of the driver for vGPUs
  Fact<std::string> reboot_wanted_by;            // packages; absent: none of Debian's says so
  /// Of the driver's packages and the kernel's. Absent: no list of dpkg's.
  Fact<std::vector<UnfinishedPackage>> unfinished;
  Fact<bool> akmods;       // builds modules when a kernel starts for the first time
  Fact<Node> mps_control;  // of the pipe folder that the variables name

  [[nodiscard]] Fact<DeviceNode> node(std::string_view path) const;
};

[[nodiscard]] NvidiaFacts collect_nvidia(const Tree& tree, const ProcessFacts& process);
constexpr std::string_view kPackagesFile = "/var/lib/dpkg/status";
[[nodiscard]] Fact<std::vector<UnfinishedPackage>> collect_unfinished(const Tree& tree);
/// Of dpkg's file the packages that any rule reads, and of each its state and version.
[[nodiscard]] std::string asked_packages(std::string_view status);
[[nodiscard]] Fact<BuildLog> collect_build_log(const Tree& tree);
[[nodiscard]] Fact<std::vector<ModuleFile>> collect_module_files(
    const Tree& tree, const Fact<std::vector<std::string>>& kernels);

}  // namespace berth::doctor
