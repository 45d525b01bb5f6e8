// Which drivers, CUDA versions, wheels and compute capabilities are compatible, from
// data/compat.toml and data/gpu_families.toml. A new release needs a row in these files. Without a
// row, the answer is "unknown".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/knowledge/known_faults.hpp"
#include "doctor/knowledge/package_pair.hpp"
#include "doctor/knowledge/systems.hpp"

namespace berth::doctor {

/// The driver that was released with a toolkit.
struct ToolkitDriver {
  std::string cuda, driver;
};
/// The CUDA version that all drivers of a branch report ("12.2" for 535).
struct BranchCuda {
  int branch = 0;
  std::string cuda;
};
/// The lowest driver for all toolkits of a CUDA major version.
struct MajorDriver {
  int major = 0;
  std::string driver;
};
/// The first and last toolkit that can compile for a compute capability; "" if not limited.
struct ArchToolkits {
  std::string capability, name, first, last;
  int last_branch = 0;  // newest driver branch that supports these GPUs; 0 if not limited
};
struct TorchRelease {
  std::string version, python;
  std::vector<std::string> cuda;  // CUDA versions with builds, experimental ones last
  std::string rocm;
  std::string pypi;  // the CUDA version of PyPI's wheel for x86_64; "" if unknown
  std::map<std::string, std::string> cudnn;  // build ("cu118" or "all") → version "8.7.0.84"
};
/// The GPU code in official Linux wheels: machine code (SASS) for each capability in `arch`, and
/// PTX for `ptx` ("": no PTX).
struct WheelArch {
  std::string versions, cuda;
  bool aarch64 = false;
  std::vector<std::string> arch;
  std::string ptx;
};
struct TensorflowRelease {
  std::string version, python, cuda, cudnn;
};
/// The requirements of JAX's CUDA plugin for one CUDA major version.
struct JaxPlugin {
  int cuda_major = 0;
  std::string cuda, cudnn, driver, capability;  // lowest supported versions; "" if not limited
};
/// A release of JAX with wheels for the CUDA major versions `majors`, built with CUDA `built`.
struct JaxRelease {
  std::string version, python;
  std::vector<int> majors;
  std::vector<std::string> built;
};
/// A build of conda-forge's jaxlib, and the cuDNN with which it was built. The build fails at run
/// time if the installed cuDNN is older.
struct CondaJaxlib {
  std::string versions, build, cudnn, source;  // `build` is a prefix of the build's name
};
struct CupyWheel {
  std::string version, python, package,
      built;            // the newest CUDA version in the release's [ctk] extra
  bool has_ctk = true;  // the release has a [ctk] extra; otherwise CuPy needs an installed toolkit
};
struct OnnxRelease {
  std::string version, cuda, cudnn;
};
/// A release of onnxruntime-gpu whose extras install CUDA `cuda` with pip. onnxruntime has the same
/// version numbers.
struct OnnxWheel {
  std::string version, python, cuda;
};
struct KnownBad {
  std::string package, version, what, use, source;
};
struct AmdFirmware {
  std::string release, what, source;
  std::vector<std::string> targets;
};
/// A package that searches for CUDA libraries in NVIDIA's wheels. If `call` is set, the package
/// searches only when a program calls this function.
struct WheelSearcher {
  std::string package, versions, call, source;
};
/// The GPU targets ("gfx1030") for which PyTorch's wheels of these ROCm releases were compiled.
struct RocmWheel {
  std::string rocm;
  std::vector<std::string> targets;
};
/// A CPU build of a package; `use` is the package that supports GPUs.
struct CpuBuild {
  std::string package, versions, use, source;
  bool beside_torch = false;  // used with PyTorch; skipped if there is no PyTorch for CUDA
  bool quiet = false;         // the package is usually installed on purpose, to use the CPU
};
/// The compute capabilities that a package supports: those from `capability` to `most`, or those in
/// `arch`. `tag`: only builds with this local version; `below`: only builds with an older CUDA;
/// `warn`: perhaps the user does not need this package on a GPU; `what`: msgid that describes the
/// failure; `use`: a release to install instead.
struct PackageGpus {
  std::string package, versions, capability, source, tag;
  std::vector<std::string> arch;
  std::string ptx;
  bool warn = false;
  std::string most, below, what, use;
};
/// The x86 instruction sets with which a package was compiled: "avx". `tag`: only builds with this
/// local version.
struct CpuNeed {
  std::string package, versions;
  std::vector<std::string> needs;
  std::string source, tag;
};
/// A package that does not allocate GPU memory with cudaMalloc. The GPUs in `where` ("vgpu",
/// "jetson", "wsl") do not always support its function. `use`: a release without the problem;
/// `set`: a command that avoids it.
struct MemoryUser {
  std::string package, versions;
  std::vector<std::string> where;
  std::string use, set, source;
};
/// The CUDA version of the newest ptxas in Triton's wheels.
struct TritonPtxas {
  std::string versions, cuda, source;
};
/// A package that generates PTX with an installed CUDA compiler. The driver compiles this PTX.
struct PtxUser {
  std::string package, versions, source;
};
/// A PyTorch symbol, and the PyTorch releases that lack it.
struct TorchSymbol {
  std::string symbol, lacks, source;
};
/// The ROCm releases that AMD tested with a release of its kernel driver.
struct RocmDriver {
  std::string driver, rocm;
};
/// The first kernel release that supports the Intel GPUs whose PCI ids start with `begins`. Other
/// tables use this type for AMD GPUs, Intel's runtime and PyTorch for XPU.
struct IntelKernel {
  std::string begins, name, kernel, source;
};
/// What a Jetson Linux release supports. `torch`: arguments with which pip installs NVIDIA's
/// PyTorch.
struct JetsonCuda {
  int l4t = 0;
  std::string cuda, python, page;
  std::vector<std::string> torch;
};
/// The newest CDI format that Podman can read, from its release `podman` up to the next row.
struct PodmanCdi {
  std::string podman, format;
};
struct GpuFamily {
  std::string begins, capability;
  int digits = 0;        // number of digits that must follow the prefix `begins`
  bool aarch64 = false;  // exists only on a board with an aarch64 CPU
};

struct Compatibility {
  std::vector<ToolkitDriver> toolkit_drivers;
  /// One for each driver branch, oldest first; computed from the drivers of the toolkits.
  std::vector<BranchCuda> branches;
  std::vector<MajorDriver> major_drivers;
  std::vector<ArchToolkits> archs;
  std::vector<TorchRelease> torch;
  std::vector<WheelArch> torch_archs, conda_archs, tensorflow_archs;
  std::vector<TensorflowRelease> tensorflow;
  std::vector<JaxPlugin> jax;
  std::vector<JaxRelease> jax_releases;
  std::vector<CondaJaxlib> conda_jaxlibs,
      jaxlib_wheels;  // for wheels, `build` is the local version
  std::vector<CupyWheel> cupy;
  std::vector<OnnxRelease> onnx;
  std::vector<KnownBad> known_bad;
  std::vector<AmdFirmware> amd_firmware;
  std::vector<AmdKernelFault> amd_kernel_faults;
  std::vector<ExecutableStack> executable_stacks;
  std::vector<SystemLibc> system_libcs;
  std::vector<SystemPackage> system_packages;
  std::vector<PackagePair> pairs;
  std::vector<Successor> successors;
  std::vector<Opens> opens;
  std::vector<WheelSearcher> wheel_searchers;
  std::vector<RocmDriver> rocm_drivers;
  std::vector<RocmWheel> rocm_wheels;
  std::vector<CpuBuild> cpu_builds;
  std::vector<PackageGpus> package_gpus;
  std::vector<CpuNeed> cpu_needs;
  std::vector<VariableFault> variables;
  std::vector<KernelLine> kernel_lines;
  std::vector<MemoryUser> memory_users;
  std::vector<TritonPtxas> triton_ptxas;
  std::vector<PtxUser> ptx_users;
  std::vector<TorchSymbol> torch_symbols;
  std::vector<GpuFamily> families;
  std::map<std::string, std::vector<std::string>>
      other_gpus;  // prefixes of GPU names, keyed by maker such as "AMD"
  std::map<std::string, std::vector<std::string>>
      several_gpus;  // keyed by a short name such as "TITAN X": all full names that it can mean
  std::vector<IntelKernel> intel_kernels, amd_kernels, intel_runtimes, intel_legacy, torch_xpu;
  /// Ranges of NVIDIA PCI ids, and the first or last driver branch that supports these GPUs.
  struct DriverBranch {
    int from = 0, to = 0;  // PCI ids; `to` is set only in last_branches
    int branch = 0;
  };
  std::vector<DriverBranch> first_branches, last_branches;
  std::vector<JetsonCuda> jetsons;
  std::vector<PodmanCdi> podman_cdi;  // oldest first
  std::vector<SystemCommands> systems;
  std::vector<SystemWish> system_wishes;
  std::vector<std::string> rocm_devices;  // PCI ids such as "744c" of the GPUs that ROCm supports
  /// The sub-libraries of a cuDNN major version. All its releases have those in `libraries`; only
  /// newer releases have those in `newer`.
  struct Cudnn {
    int major = 0;
    std::vector<std::string> libraries, newer;
  };
  std::vector<Cudnn> cudnn;
  /// Releases of cuDNN with the GPUs that each supports, newest first.
  struct CudnnRelease {
    std::string version, cuda;  // `cuda` is a range: "12.0-12.9"
    std::vector<std::string> arch;
  };
  std::vector<CudnnRelease> cudnn_releases;
  struct BaseImage {
    std::string python, image;
  };
  std::vector<BaseImage> images;
  std::vector<OnnxWheel> onnx_wheels;  // newest first
  std::vector<WheelArch> onnx_archs;
  /// TensorFlow releases whose extra [and-cuda] pins every CUDA package exactly: "2.15-2.19".
  std::string tensorflow_with_pins;

  /// The newest toolkit whose driver is not newer than `driver`; "" if `driver` is older than all
  /// rows.
  [[nodiscard]] std::string cuda_of_driver(std::string_view driver) const;
  /// The CUDA version that all drivers of the branch of `driver` report: "12.2" for 535.*; "" if
  /// the branch is older than all rows.
  [[nodiscard]] std::string cuda_of_branch(std::string_view driver) const;
  /// The lowest driver that runs programs of this CUDA version; "" if unknown. Since CUDA 11, all
  /// versions with the same major number require the same driver.
  [[nodiscard]] std::string driver_for(std::string_view cuda) const;
  /// The driver that was released with this CUDA version; "" unknown.
  [[nodiscard]] std::string driver_made_for(std::string_view cuda) const;
  /// The compute capability of the GPU with this full name, with or without "NVIDIA "; "" if
  /// unknown. capability_as_said() also accepts short names: "4090", "t4".
  [[nodiscard]] std::string capability_of(std::string_view gpu_name) const;
  [[nodiscard]] std::string capability_as_said(std::string_view gpu_name) const;
  /// several_of(): all full names that an ambiguous short name can mean; empty for other names.
  /// is_with_aarch64(): whether the GPU exists only on boards with an aarch64 CPU.
  [[nodiscard]] std::vector<std::string> several_of(std::string_view gpu_name) const;
  [[nodiscard]] bool is_with_aarch64(std::string_view gpu_name) const;
  /// "AMD", "Intel" or "Jetson" if `gpu_name` is a short name of such a GPU; otherwise "".
  [[nodiscard]] std::string other_maker(std::string_view gpu_name) const;
  [[nodiscard]] const ArchToolkits* toolkits_of(std::string_view capability) const;
  /// newest_rocm(): the newest ROCm of PyTorch's wheels ("7.14"). cudnn_of_torch(): the cuDNN of a
  /// PyTorch build. Both are "" if unknown.
  [[nodiscard]] std::string newest_rocm() const;
  [[nodiscard]] std::string cudnn_of_torch(std::string_view version, std::string_view cuda) const;
  [[nodiscard]] const TensorflowRelease* tensorflow_of(std::string_view version) const;
};

enum class Kernels : unsigned char { kHas, kByPtx, kLacks, kUnknown };

/// Whether a wheel has machine code (kHas), only PTX (kByPtx) or no code (kLacks) for a GPU.
[[nodiscard]] Kernels kernels_of(const WheelArch& row, std::string_view capability);
/// Returns kHas if the toolkit can compile for the GPU, kLacks if it cannot, and kUnknown if the
/// tables have no row for the GPU.
[[nodiscard]] Kernels toolkit_compiles(const Compatibility& known, std::string_view cuda,
                                       std::string_view capability);
/// Whether machine code for one of the capabilities in `arch` runs on `capability`. Code for X.y
/// runs on X.z if z ≥ y, but not on another major version. Jetson GPUs and other GPUs cannot run
/// each other's code (https://github.com/pytorch/pytorch/issues/145560). PTX is different: the
/// driver compiles it for newer GPUs.
[[nodiscard]] bool sass_serves(const std::vector<std::string>& arch, std::string_view capability);
/// Whether the official wheel of a torch version has kernels for a GPU.
[[nodiscard]] Kernels torch_kernels(const Compatibility& known, std::string_view version,
                                    std::string_view cuda, bool aarch64,
                                    std::string_view capability);

/// The tables that are compiled into the program.
[[nodiscard]] const Compatibility& shipped_compatibility();
/// Reads the tables from {"compat": …, "gpu_families": …}; ignores missing keys and wrong types.
[[nodiscard]] Compatibility compatibility_from(std::string_view text);

}  // namespace berth::doctor
