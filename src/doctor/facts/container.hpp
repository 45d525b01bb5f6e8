// The container that the target runs in, if any, and the software that gives GPUs to containers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/facts/driver_files.hpp"
#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// A CDI spec (Container Device Interface), which describes devices to container engines.
struct CdiSpec {
  std::string path;                  // "/etc/cdi/nvidia.yaml"
  std::string kind;                  // "nvidia.com/gpu"
  std::vector<std::string> devices;  // "0", "GPU-…", "all"
  std::vector<std::string>
      missing_paths;           // paths that the spec names but that do not exist on this machine
  std::string driver_version;  // version of the libcuda that the spec names; empty if there is none
  unsigned uvm_major = 0;      // major number of /dev/nvidia-uvm in the spec; 0: none
  std::string version;         // format version: "0.7.0"; empty if there is none
};

/// A settings file of a Kubernetes node's container runtime.
struct RuntimeSettings {
  std::string path;  // "/etc/containerd/config.toml"
  std::string text;
};

/// The container engines of this machine.
struct ContainerEngines {
  Fact<std::string> docker;          // path of the dockerd that a package installed
  Fact<std::string> docker_socket;   // socket of a rootful Docker
  Fact<std::string> docker_snap;     // folder of the Docker snap
  Fact<std::string> docker_desktop;  // folder of Docker Desktop
  /// The user's setting that makes `docker` use Docker Desktop: a file or a variable.
  Fact<std::string> uses_docker_desktop;
  Fact<std::string> podman;
  Fact<std::string> podman_version;  // version of the podman package, from dpkg
  Fact<std::string> kubelet;         // a path that only a Kubernetes node has: "/var/lib/kubelet"
  Fact<std::string> daemon_json, snap_daemon_json;  // content of Docker's settings files
  Fact<std::vector<RuntimeSettings>>
      node_runtimes;                 // settings of containerd and CRI-O; absent: none
  Fact<std::string> toolkit;         // path of NVIDIA's runtime or its hook
  Fact<std::string> toolkit_config;  // content of /etc/nvidia-container-runtime/config.toml
  Fact<LibraryFile>
      toolkit_library;  // path of libnvidia-container.so.1; absent: not in the system's folders
  /// The path of ldconfig in toolkit_config, if no file exists at this path. Otherwise absent.
  Fact<std::string> no_ldconfig;
  Fact<std::vector<CdiSpec>> cdi;  // CDI specs in /etc/cdi, /run/cdi and /var/run/cdi
  // path of the udev rule that creates links to GPU nodes in /dev/char
  Fact<std::string> char_links_rule;
  Fact<bool> cgroup_v2;
  Fact<std::vector<std::string>> plugin_sockets;  // names in the kubelet's plugin folder
  /// Whether NVIDIA's driver for resource claims (DRA) is registered with the kubelet.
  Fact<bool> claims_driver;
  /// Versions of the Docker, NVIDIA and enroot packages, from dpkg. Absent: none is installed.
  Fact<std::map<std::string, std::string>> packages;
  /// Jetson only: whether the kernel has the module for iptables' raw table. Absent: unknown,
  /// because the list of modules is missing or has no iptables module.
  Fact<bool> raw_table;
};

/// The GPUs of this machine according to the settings of Slurm's daemon, slurmd.
struct SlurmSettings {
  std::string path;  // "/etc/slurm/gres.conf"
  // device files, such as "/dev/nvidia0"; lines with NodeName are skipped
  std::vector<std::string> files;
  bool by_nvml = false;             // gres.conf contains AutoDetect=nvml
  Fact<std::string> nvml_plugin;    // path of slurmd's gpu_nvml.so
  Fact<std::string> plugin_folder;  // folder of slurmd's plugins
};

struct ContainerFacts {
  /// "docker", "podman", "kubernetes", "lxc", "apptainer", "flatpak", "container"; absent: no
  /// container.
  Fact<std::string> kind;
  std::string marker;              // the file or variable that shows the kind: "/.dockerenv"
  Fact<bool> user_namespace;       // the container's uids and gids differ from the host's
  Fact<std::string> devices_list;  // cgroup v1: the list of devices that may be opened
  Fact<std::string> label;         // SELinux label of this process
  Fact<bool> selinux_enforcing;    // whether SELinux denies accesses; absent if SELinux is disabled
  // whether SELinux allows devices in containers (container_use_devices)
  Fact<bool> selinux_devices;
  Fact<std::vector<std::string>> singularity_libraries;  // names in /.singularity.d/libs
  Fact<std::vector<std::string>> infiniband;             // names in /sys/class/infiniband
  /// "distrobox", "toolbox": a container that shares the host's /dev and home folder.
  Fact<std::string> box;
  Fact<std::string> host_cuda;  // the host's libcuda.so.1, as seen from this container
  ContainerEngines engines;
  Fact<SlurmSettings> slurm;                       // absent: there is no slurmd, or no gres.conf
  Fact<std::vector<std::string>> plugin_sockets;   // names in /var/lib/kubelet/device-plugins
  Fact<std::vector<std::string>> kubelet_plugins;  // names in /var/lib/kubelet/plugins
};

}  // namespace berth::doctor
