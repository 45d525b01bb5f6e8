// Machine properties that the other files in this folder do not have: ROCm's GPUs, links to other
// machines, CPU clock, WSL, and toolkits that variables name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A node of /sys/class/kfd: a GPU as ROCm's runtime sees it. CPU nodes are skipped.
struct KfdNode {
  std::string number;   // name of the node's folder
  std::string address;  // PCI address of the GPU: "0000:03:00.0"; empty if unknown
  unsigned target = 0;  // target version (gfx_target_version): 110501 means gfx1151
  bool with_processor = false;

  /// The name of the target: "gfx1151".
  [[nodiscard]] std::string gfx() const;
  /// Whether this is an integrated GPU, which has no memory of its own.
  [[nodiscard]] bool integrated() const;
};

/// The memory that programs can use on an AMD GPU: `own` is the memory of the GPU, `machines` that
/// of the host. For an integrated GPU, `own` is the part that the firmware reserves.
struct AmdMemory {
  std::string address;
  std::uint64_t own = 0, machines = 0;  // bytes, from mem_info_vram_total and mem_info_gtt_total
};

struct RocmFacts {
  Fact<std::vector<KfdNode>> nodes;
  Fact<std::string> folder;   // an installed ROCm: "/opt/rocm"
  Fact<std::string> version;  // the version of that ROCm: "6.2.4"
  /// Path of libamdhip64 in a folder of LD_LIBRARY_PATH. It shows that a program has its own copy
  /// of ROCm.
  Fact<std::string> library;
  Fact<std::string> driver_release;  // the ROCm release of the installed amdgpu-dkms
  /// The GPU targets of the rocBLAS that PyTorch loads: "gfx1030". If PyTorch has none, those of
  /// the system's rocBLAS.
  Fact<std::vector<std::string>> rocblas_targets;
  Fact<std::vector<AmdMemory>> memory;
  Fact<std::string> linux_firmware;  // version from dpkg or pacman: "20251125"; absent: unknown
  /// Path of PyTorch's bundled libhsa-runtime64.so, if it differs from the one in the system's
  /// ROCm.
  Fact<std::string> own_runtime;
  Fact<std::string> wsl_runtime;  // dpkg's version of the WSL runtime; absent: not installed
  std::string rocblas_folder;     // folder from which the targets were read; empty if there is none
  /// The IOMMU mode of AMD's GPUs: "identity", "DMA-FQ"; absent: not reported.
  Fact<std::vector<std::string>> iommu_types;
};

struct WslFacts {
  Fact<std::string> folder;       // "/usr/lib/wsl"
  Fact<bool> told_no_gpu;         // /etc/wsl.conf disables the GPU: "[gpu]" with "enabled=false"
  Fact<bool> driver_library;      // libcuda.so.1 is in WSL's lib folder
  Fact<bool> folder_is_searched;  // WSL's lib folder is in /etc/ld.so.conf.d or LD_LIBRARY_PATH
};

struct CpuFacts {
  Fact<std::vector<int>> online;
  Fact<std::string> governor, frequency_driver;  // cpufreq settings of the first CPU
  /// Flags of the first CPU in /proc/cpuinfo: "avx", "avx2", "hypervisor". Unreadable with error 0:
  /// the file was not recorded, or the architecture has no such flags.
  Fact<std::set<std::string, std::less<>>> flags;
};

/// Files and folders that variables name. A fact is absent if its variable is not set.
struct NamedPaths {
  // whether the folder in CUDA_HOME (if not set: in CUDA_PATH) exists, and whether it has nvcc
  Fact<bool> cuda_home_there, cuda_home_nvcc;
  Fact<std::string> nvcc;                   // path of the first nvcc in PATH, with links resolved
  Fact<std::string> cuda_home_nvcc_target;  // path of the nvcc in CUDA_HOME, with links resolved
  Fact<std::string> usual_nvcc;             // path of /usr/local/cuda/bin/nvcc, with links resolved
  Fact<std::vector<std::string>> stubs;     // paths of libcuda and libnvidia-ml in */stubs folders
  Fact<std::string> xla_folder;             // value of --xla_gpu_cuda_data_dir in XLA_FLAGS
  Fact<bool> xla_libdevice;  // libdevice.10.bc exists in xla_folder, where XLA searches for it
  /// Variables that name a missing file: "TRITON_PTXAS_PATH=/opt/ptxas".
  Fact<std::vector<std::string>> missing_files;
};

/// NCCL's settings from ~/.nccl.conf, which has priority, and from /etc/nccl.conf.
struct NcclSettings {
  std::string path;  // the first of these files that has a setting
  std::map<std::string, std::string, std::less<>> values;
};

/// An installed Ollama; its compute backends are libraries next to it.
struct OllamaFiles {
  std::string program;                 // "/usr/local/bin/ollama"
  std::string folder;                  // "/usr/local/lib/ollama"
  std::vector<std::string> libraries;  // libraries in `folder`: "libggml-base.so", "cuda_v12"
  std::uint64_t size = 0;              // size of the program in bytes; 0 if unknown
};

/// The systemd unit of Ollama's server and its settings. The server does not inherit a shell's
/// variables.
struct OllamaService {
  struct Setting {
    std::string value, file;
    /// The unit inherits the variable from systemd, so its value is unknown.
    bool is_passed = false;
  };
  std::string unit;  // "/etc/systemd/system/ollama.service"
  std::map<std::string, Setting, std::less<>> variables;
  /// The unit's setting that denies access to GPU nodes: "PrivateDevices=yes". If there is no such
  /// setting, `value` is "".
  Setting locked;
  std::string user;  // the user that runs the server; empty for root
  /// The user or the unit is in the groups that own the GPU nodes.
  bool grouped = true;
};

/// Whether an environment file belongs to Ollama: "/etc/default/ollama". Other files may be
/// private.
[[nodiscard]] inline bool is_ollamas_settings(std::string_view path) {
  return path.starts_with("/etc/") && path.find("ollama") != std::string_view::npos;
}

/// A program in the target's PATH that uses ggml: llama.cpp, whisper.cpp and similar.
struct GgmlProgram {
  std::string program;                 // "/home/linuxbrew/.linuxbrew/bin/llama-server"
  std::string folder;                  // the folder that contains its compute backends
  std::vector<std::string> libraries;  // "libggml-cpu-haswell.so"
};

struct PlatformFacts {
  Fact<std::vector<std::string>> interfaces;  // network interfaces
  Fact<std::string> command_line;             // the kernel's command line
  CpuFacts cpu;
  Fact<OllamaFiles> ollama;            // absent: none is installed
  Fact<OllamaService> ollama_service;  // absent: systemd does not start Ollama
  Fact<GgmlProgram> ggml;              // absent: none is installed, or it is statically linked
  NamedPaths named;
  Fact<NcclSettings> nccl;  // absent: there is no nccl.conf
};

}  // namespace berth::doctor
