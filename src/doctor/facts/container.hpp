// The target's container, if any, and what this machine provides to give containers GPUs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/facts/driver_files.hpp"
#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// A description of devices for containers (Container Device Interface).
struct CdiSpec {
  std::string path;                  // "/etc/cdi/nvidia.yaml"
  std::string kind;                  // "nvidia.com/gpu"
  std::vector<std::string> devices;  // "0", "GPU-…", "all"
  std::vector<std::string>
      missing_paths;           // paths that it names but that do not exist on this machine
  std::string driver_version;  // version of the libcuda that it names; "" none
  unsigned uvm_major = 0;      // device major number that it gives /dev/nvidia-uvm; 0: none
  std::string version;         // format version: "0.7.0"; "" none
};

/// A settings file of a node's container runtime.
struct RuntimeSettings {
  std::string path;  // "/etc/containerd/config.toml"
  std::string text;
};

/// The container engines of this machine.
struct ContainerEngines {
  Fact<std::string> docker;          // path of dockerd from a package
  Fact<std::string> docker_socket;   // socket of a rootful Docker
  Fact<std::string> docker_snap;     // folder of the Docker snap
  Fact<std::string> docker_desktop;  // folder of Docker Desktop
  /// The user's setting that makes `docker` use Docker Desktop: a file or a variable.
  Fact<std::string> uses_docker_desktop;
  Fact<std::string> podman;
  Fact<std::string> podman_version;  // from dpkg
  Fact<std::string> kubelet;         // a sign of a kubelet: this machine is a Kubernetes node
  Fact<std::string> daemon_json, snap_daemon_json;  // Docker's settings
  Fact<std::vector<RuntimeSettings>>
      node_runtimes;                 // settings of containerd and CRI-O; absent: none
  Fact<std::string> toolkit;         // path of NVIDIA's runtime or its hook
  Fact<std::string> toolkit_config;  // /etc/nvidia-container-runtime/config.toml
  Fact<LibraryFile>
      toolkit_library;  // path of libnvidia-container.so.1; absent: not in the system's folders
  /// The ldconfig program configured in toolkit_config, if it does not exist.
  Fact<std::string> no_ldconfig;
  Fact<std::vector<CdiSpec>> cdi;     // specs from all spec folders
  Fact<std::string> char_links_rule;  // a udev rule that creates /dev/char links
  Fact<bool> cgroup_v2;
  Fact<std::vector<std::string>> plugin_sockets;  // names in the kubelet's plugin folder
  Fact<bool> claims_driver;                       // NVIDIA's driver for pods' resource claims (DRA)
  /// Versions of the Docker, NVIDIA and enroot packages, from dpkg. Absent: none is installed.
  Fact<std::map<std::string, std::string>> packages;
  /// Jetson only: whether its kernel has the module for iptables' raw table. Absent: no module
  /// list.
  Fact<bool> raw_table;
};

/// What Slurm's daemon is configured to know about this machine's GPUs.
struct SlurmSettings {
  std::string path;                 // "/etc/slurm/gres.conf"
  std::vector<std::string> files;   // "/dev/nvidia0"; lines for named nodes are not included
  bool by_nvml = false;             // AutoDetect=nvml
  Fact<std::string> nvml_plugin;    // slurmd's gpu_nvml.so
  Fact<std::string> plugin_folder;  // folder of its other plugins
};

struct ContainerFacts {
  /// "docker", "podman", "kubernetes", "lxc", "apptainer", "flatpak", "container"; absent: no
  /// container.
  Fact<std::string> kind;
  std::string marker;              // the evidence: "/.dockerenv"
  Fact<bool> user_namespace;       // its uids and gids differ from the host's
  Fact<std::string> devices_list;  // cgroup v1: the list of devices that may be opened
  Fact<std::string> label;         // SELinux label of this process
  Fact<bool> selinux_enforcing;    // absent: SELinux is disabled
  Fact<bool> selinux_devices;      // SELinux boolean container_use_devices
  Fact<std::vector<std::string>> singularity_libraries;  // names in /.singularity.d/libs
  Fact<std::vector<std::string>> infiniband;             // names in /sys/class/infiniband
  Fact<std::string> box;        // "distrobox", "toolbox": shares the host's /dev and home
  Fact<std::string> host_cuda;  // the host's libcuda.so.1, as seen from the box
  ContainerEngines engines;
  Fact<SlurmSettings> slurm;                       // absent: no slurmd or no such file
  Fact<std::vector<std::string>> plugin_sockets;   // in /var/lib/kubelet/device-plugins
  Fact<std::vector<std::string>> kubelet_plugins;  // in /var/lib/kubelet/plugins
};

}  // namespace berth::doctor
