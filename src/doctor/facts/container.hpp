// The container around the target, if there is one, and what this machine has to give GPUs to
// containers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/driver_files.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// A description of devices for containers (Container Device Interface).
struct CdiSpec {
  std::string path;                        // "/etc/cdi/nvidia.yaml"
  std::string kind;                        // "nvidia.com/gpu"
  std::vector<std::string> devices;        // "0", "GPU-…", "all"
  std::vector<std::string> missing_paths;  // that it names and that are not on this machine
  std::string driver_version;              // of the libcuda that it names; ""
  unsigned uvm_major = 0;                  // that it gives /dev/nvidia-uvm; 0: it names none
  std::string version;                     // of the format: "0.7.0"; ""
};

/// A file of settings of what starts a node's containers.
struct RuntimeSettings {
  std::string path;  // "/etc/containerd/config.toml"
  std::string text;
};

/// What starts containers on this machine.
struct ContainerEngines {
  Fact<std::string> docker;          // path of dockerd, of a package
  Fact<std::string> docker_socket;   // of a Docker that runs as root
  Fact<std::string> docker_snap;     // folder of Docker from a snap
  Fact<std::string> docker_desktop;  // folder of Docker Desktop
  /// The user's settings that make it the Docker which `docker` speaks to: a file or a variable.
  Fact<std::string> uses_docker_desktop;
  Fact<std::string> podman;
  Fact<std::string> podman_version;                  // as dpkg has it
  Fact<std::string> kubelet;                         // a trace of a kubelet: this machine is a node
  Fact<std::string> daemon_json, snap_daemon_json;   // Docker's settings
  Fact<std::vector<RuntimeSettings>> node_runtimes;  // containerd's and CRI-O's; absent: none
  Fact<std::string> toolkit;                         // path of NVIDIA's runtime or of its hook
  Fact<std::string> toolkit_config;                  // /etc/nvidia-container-runtime/config.toml
  Fact<LibraryFile> toolkit_library;  // libnvidia-container.so.1; absent: not among the system's
  /// The program that toolkit_config names for ldconfig, where it is not there.
  Fact<std::string> no_ldconfig;
  Fact<std::vector<CdiSpec>> cdi;     // of every spec folder
  Fact<std::string> char_links_rule;  // a udev rule that makes /dev/char links
  Fact<bool> cgroup_v2;
  Fact<std::vector<std::string>> plugin_sockets;  // names in the kubelet's folder for them
  Fact<bool> claims_driver;                       // NVIDIA's for claims of pods (DRA)
  /// Versions of Docker's, NVIDIA's and enroot's packages, as dpkg has them; absent: none of them.
  Fact<std::map<std::string, std::string>> packages;
  /// Of a Jetson: its kernel has the module of iptables' raw table. Absent: no list of modules.
  Fact<bool> raw_table;
};

/// What Slurm's daemon is told of this machine's GPUs.
struct SlurmSettings {
  std::string path;                 // "/etc/slurm/gres.conf"
  std::vector<std::string> files;   // "/dev/nvidia0", lines for named nodes left out
  bool by_nvml = false;             // AutoDetect=nvml
  Fact<std::string> nvml_plugin;    // slurmd's gpu_nvml.so
  Fact<std::string> plugin_folder;  // where its other plugins are
};

struct ContainerFacts {
  /// "docker", "podman", "kubernetes", "lxc", "apptainer", "flatpak", "container"; absent: none.
  Fact<std::string> kind;
  std::string marker;                                    // what said so: "/.dockerenv"
  Fact<bool> user_namespace;                             // its ids are not the machine's
  Fact<std::string> devices_list;                        // cgroup v1: what may be opened
  Fact<std::string> label;                               // SELinux: of this process
  Fact<bool> selinux_enforcing;                          // absent: no SELinux
  Fact<bool> selinux_devices;                            // the boolean container_use_devices
  Fact<std::vector<std::string>> singularity_libraries;  // names in /.singularity.d/libs
  Fact<std::vector<std::string>> infiniband;             // names in /sys/class/infiniband
  Fact<std::string> box;  // "distrobox", "toolbox": one that shares the machine's /dev and home
  Fact<std::string> host_cuda;  // libcuda.so.1 of the machine around it, as the box sees it
  ContainerEngines engines;
  Fact<SlurmSettings> slurm;                       // absent: no slurmd, or no such file
  Fact<std::vector<std::string>> plugin_sockets;   // in /var/lib/kubelet/device-plugins
  Fact<std::vector<std::string>> kubelet_plugins;  // in /var/lib/kubelet/plugins
};

[[nodiscard]] ContainerFacts collect_container(const Tree& tree, const ProcessFacts& process);
[[nodiscard]] Fact<SlurmSettings> collect_slurm(const Tree& tree);
[[nodiscard]] Fact<std::vector<CdiSpec>> collect_cdi(const Tree& tree);

}  // namespace berth::doctor
