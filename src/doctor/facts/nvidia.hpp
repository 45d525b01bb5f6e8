// The installed NVIDIA driver: modules, libraries, nodes. Read only from files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/node.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// The nvidia.ko file of one kernel.
struct ModuleFile {
  std::string kernel, path;
  Fact<bool> is_signed;  // whether the file has a signature; unreadable if it is compressed
  Fact<std::int64_t> changed = {};  // when the file was installed, in seconds since 1970
};
/// A driver library that has its version in the file name: libcuda.so.570.124.06.
struct DriverLibrary {
  std::string name, version, path;  // name: "libcuda.so"
};
/// A line in modprobe's configuration about a GPU module.
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
  std::string
      compiler;  // the running kernel's compiler: "gcc-12 (Ubuntu 12.3.0) 12.3.0"; empty if unknown
};

/// A package whose installation dpkg has not finished.
struct UnfinishedPackage {
  std::string name, status;  // "nvidia-dkms-550", "half-configured"
};
/// The compiler that the text of /proc/version names; "" if it names none.
[[nodiscard]] std::string kernel_compiler(std::string_view version);

struct NvidiaFacts {
  Fact<std::string> module_version;  // version of the loaded module
  Fact<bool> open_module;            // whether the loaded module is NVIDIA's open-source module
  // module parameters from /proc/driver/nvidia/params
  Fact<std::map<std::string, std::string>> parameters;
  /// Module files of all kernels. Absent: the machine has no folders of modules, as in a container.
  Fact<std::vector<ModuleFile>> modules_on_disk;
  Fact<std::vector<std::string>> kernels_on_disk;
  Fact<std::string> source;  // folder of the source code for DKMS: "/usr/src/nvidia-535.129.03"
  /// MODULE_VARIANT of /etc/nvidia/kernel.conf, which NVIDIA's and negativo17's packages use:
  /// "kernel" or "kernel-open". Absent: no such file; RPM Fusion has none.
  Fact<std::string> module_variant;
  /// The log of a failed DKMS or akmods build for the running kernel.
  Fact<BuildLog> build_log;
  Fact<std::vector<ModprobeLine>> modprobe;
  Fact<std::string> remover;  // path of a udev rule that removes NVIDIA functions from the PCI bus
  /// The driver's libraries in the folders of distributions and of NVIDIA's installer.
  Fact<std::vector<DriverLibrary>> libraries;
  Fact<std::string>
      library_version;  // version of the libnvidia-ml.so.1 that the loader would choose
  Fact<std::vector<std::string>>
      installers;  // signs of how the driver was installed: "dpkg", "rpm", "nvidia-installer"
  Fact<std::vector<std::string>> firmware;  // versions in /lib/firmware/nvidia that have GSP files
  Fact<std::vector<DeviceNode>> nodes;      // /dev/nvidia*
  /// The current major numbers of the driver's nodes, from /proc/devices: "nvidia-uvm" → 510.
  Fact<std::multimap<std::string, unsigned>> majors;
  Fact<std::vector<std::string>> imex_channels;  // names in /dev/nvidia-caps-imex-channels
  Fact<bool> modprobe_helper;        // nvidia-modprobe exists and is allowed to create nodes
  Fact<std::string> fabric_manager;  // installed version; empty if unknown
  Fact<std::string> gridd;           // path of the vGPU driver's daemon: "/usr/bin/nvidia-gridd"
  Fact<std::string>
      reboot_wanted_by;  // packages that request a reboot; absent: no Debian package requests one
  /// Driver and kernel packages that dpkg has not finished installing. Absent: there is no dpkg
  /// list.
  Fact<std::vector<UnfinishedPackage>> unfinished;
  Fact<bool> akmods;       // akmods is installed; it builds modules at the first boot of a kernel
  Fact<Node> mps_control;  // the control pipe of MPS, in the folder that variables name or in the
                           // default folder

  [[nodiscard]] Fact<DeviceNode> node(std::string_view path) const;
};

constexpr std::string_view kPackagesFile = "/var/lib/dpkg/status";
/// The parts of dpkg's status file that rules use: package, state and version.
[[nodiscard]] std::string selected_packages(std::string_view status);

}  // namespace berth::doctor
