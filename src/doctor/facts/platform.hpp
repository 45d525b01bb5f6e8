// What else of the machine decides whether a GPU is of use: ROCm's list of it, the links to other
// machines, the processor's clock, WSL, and the toolkits that variables name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// A node of /sys/class/kfd: a GPU as ROCm's runtime sees it. Processors alone are left out.
struct KfdNode {
  std::string number;   // its folder's name
  std::string address;  // of the PCI function: "0000:03:00.0"; "" not said
  unsigned target = 0;  // gfx_target_version: 110501 is gfx1151
  bool with_processor = false;

  /// "gfx1151"
  [[nodiscard]] std::string gfx() const;
  /// Part of a processor, with no memory of its own.
  [[nodiscard]] bool integrated() const;
};

/// What the kernel gives programs of an AMD GPU: memory of its own (of a processor's GPU: set aside
/// by the firmware), and the machine's.
struct AmdMemory {
  std::string address;
  std::uint64_t own = 0, machines = 0;  // mem_info_vram_total, mem_info_gtt_total
};

struct RocmFacts {
  Fact<std::vector<KfdNode>> nodes;
  Fact<std::string> folder;   // a ROCm of this machine: "/opt/rocm"
  Fact<std::string> version;  // of it: "6.2.4"
  /// libamdhip64 in a folder of LD_LIBRARY_PATH: of a program that brings its own ROCm.
  Fact<std::string> library;
  Fact<std::string> driver_release;  // of the ROCm that the installed amdgpu-dkms came with
  /// Targets that the rocBLAS which PyTorch takes was built for, else the machine's: "gfx1030".
  Fact<std::vector<std::string>> rocblas_targets;
  Fact<std::vector<AmdMemory>> memory;
  Fact<std::string> linux_firmware;  // "20251125", of dpkg or pacman; absent: they do not tell
  /// PyTorch's own libhsa-runtime64.so, where it is another one than the machine's ROCm has.
  Fact<std::string> own_runtime;
  Fact<std::string> wsl_runtime;  // dpkg's version of the runtime for WSL; absent: not installed
  std::string rocblas_folder;     // where they were read; "" nowhere
  /// How the IOMMU treats AMD's GPUs: "identity", "DMA-FQ"; absent: it says nothing of them.
  Fact<std::vector<std::string>> iommu_types;
};

struct WslFacts {
  Fact<std::string> folder;       // "/usr/lib/wsl"
  Fact<bool> told_no_gpu;         // /etc/wsl.conf: [gpu] enabled=false
  Fact<bool> driver_library;      // libcuda.so.1 in its lib folder
  Fact<bool> folder_is_searched;  // named in /etc/ld.so.conf.d or LD_LIBRARY_PATH
};

struct CpuFacts {
  Fact<std::vector<int>> online;
  Fact<std::string> governor, frequency_driver;  // of the first processor
  /// What /proc/cpuinfo says of the first: "avx", "avx2", "hypervisor". Unreadable with error 0: it
  /// was not recorded, or is of a machine that calls them otherwise.
  Fact<std::set<std::string, std::less<>>> flags;
};

/// Files and folders that variables name. A variable that is not set: absent.
struct NamedPaths {
  Fact<bool> cuda_home_there, cuda_home_nvcc;  // CUDA_HOME, else CUDA_PATH
  Fact<std::string> nvcc;                      // the first in PATH, after links
  Fact<std::string> cuda_home_nvcc_target;     // CUDA_HOME's, after links
  Fact<std::string> usual_nvcc;                // /usr/local/cuda/bin/nvcc, after links
  Fact<std::vector<std::string>> stubs;        // libcuda and libnvidia-ml in */stubs folders
  Fact<std::string> xla_folder;                // --xla_gpu_cuda_data_dir of XLA_FLAGS
  Fact<bool> xla_libdevice;                    // libdevice.10.bc is where XLA looks in it
  /// "TRITON_PTXAS_PATH=/opt/ptxas": variables that name a file which is not there.
  Fact<std::vector<std::string>> missing_files;
};

/// What NCCL reads beside the variables: /etc/nccl.conf, and ~/.nccl.conf, which counts before it.
struct NcclSettings {
  std::string path;  // of the file that set the first of them
  std::map<std::string, std::string, std::less<>> values;
};

/// An Ollama of this machine, whose ways to compute lie beside it as libraries.
struct OllamaFiles {
  std::string program;                 // "/usr/local/bin/ollama"
  std::string folder;                  // "/usr/local/lib/ollama"
  std::vector<std::string> libraries;  // names in it: "libggml-base.so", "cuda_v12"
  std::uint64_t size = 0;              // of the program, in bytes; 0 not told
};

/// The unit that starts Ollama's server, and what it sets: the server gets nothing of a shell's.
struct OllamaService {
  struct Setting {
    std::string value, file;
    bool is_passed = false;  // systemd's own value, which nobody here knows
  };
  std::string unit;  // "/etc/systemd/system/ollama.service"
  std::map<std::string, Setting, std::less<>> variables;
  /// "PrivateDevices=yes": what keeps it from the GPU's nodes; value "" nothing does.
  Setting locked;
  std::string user;     // that it runs as; "" root
  bool grouped = true;  // that user, or the unit itself, has the groups of the GPU's nodes
};

/// A file of such variables that is Ollama's own: "/etc/default/ollama". Others may be anybody's.
[[nodiscard]] inline bool is_ollamas_settings(std::string_view path) {
  return path.starts_with("/etc/") && path.find("ollama") != std::string_view::npos;
}

/// A program that computes by ggml, in the PATH of the target: llama.cpp, whisper.cpp and their
/// like.
struct GgmlProgram {
  std::string program;                 // "/home/linuxbrew/.linuxbrew/bin/llama-server"
  std::string folder;                  // where its ways to compute lie
  std::vector<std::string> libraries;  // "libggml-cpu-haswell.so"
};

struct PlatformFacts {
  Fact<std::vector<std::string>> interfaces;  // network
  Fact<std::string> command_line;             // the kernel's
  CpuFacts cpu;
  Fact<OllamaFiles> ollama;            // absent: none is installed
  Fact<OllamaService> ollama_service;  // absent: systemd does not start it
  Fact<GgmlProgram> ggml;              // absent: none, or it is one file
  NamedPaths named;
  Fact<NcclSettings> nccl;  // absent: no such file
};

[[nodiscard]] RocmFacts collect_rocm(const Tree& tree, const Fact<Environment>& environment,
                                     const PythonFacts& python);
[[nodiscard]] WslFacts collect_wsl(const Tree& tree,
                                   const Fact<std::vector<std::string>>& searched);
[[nodiscard]] Fact<OllamaFiles> collect_ollama(const Tree& tree);
[[nodiscard]] Fact<OllamaService> collect_ollama_service(const Tree& tree);
[[nodiscard]] Fact<GgmlProgram> collect_ggml(const Tree& tree, const ProcessFacts& process);
[[nodiscard]] PlatformFacts collect_platform(const Tree& tree, const ProcessFacts& process);

}  // namespace berth::doctor
