// What runs with what: driver, CUDA, wheels, compute capabilities, as data/compat.toml and
// data/gpu_families.toml say. A new release is a row there. What has no row is not known, and
// nothing is concluded from it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/known_faults.hpp"
#include "doctor/package_pair.hpp"
#include "doctor/systems.hpp"

namespace berth::doctor {

/// The driver that came with a toolkit.
struct ToolkitDriver {
  std::string cuda, driver;
};
/// The lowest driver that runs any toolkit of this major version.
struct MajorDriver {
  int major = 0;
  std::string driver;
};
/// Toolkits that can compile for a compute capability; "" no bound is known.
struct ArchToolkits {
  std::string capability, name, first, last;
  int last_branch = 0;  // the newest driver branch that runs such GPUs; 0 no bound is known
};
struct TorchRelease {
  std::string version, python;
  std::vector<std::string> cuda;  // with builds, the experimental ones last
  std::string rocm;
  std::string pypi;  // the CUDA of the wheel that PyPI itself has, for x86_64; "" not known
  std::map<std::string, std::string> cudnn;  // by build, "cu118", or "all": "8.7.0.84"
};
/// What official Linux wheels hold: SASS for `arch`, and PTX for `ptx` where it is not "".
struct WheelArch {
  std::string versions, cuda;
  bool aarch64 = false;
  std::vector<std::string> arch;
  std::string ptx;
};
struct TensorflowRelease {
  std::string version, python, cuda, cudnn;
};
/// One of JAX's two CUDA plugins.
struct JaxPlugin {
  int cuda_major = 0;
  std::string cuda, cudnn, driver, capability;  // the lowest ones; "" no bound is known
};
/// A release of JAX with wheels for these majors of CUDA; `built`: with which, one for each.
struct JaxRelease {
  std::string version, python;
  std::vector<int> majors;
  std::vector<std::string> built;
};
/// A build of conda-forge's jaxlib, and the cuDNN that it was made with and so wants at least.
struct CondaJaxlib {
  std::string versions, build, cudnn, source;  // build: how its name begins
};
struct CupyWheel {
  std::string version, python, package, built;  // built: the newest CUDA that its [ctk] brings
  bool has_ctk = true;                          // else a toolkit of the machine's is its CUDA
};
struct OnnxRelease {
  std::string version, cuda, cudnn;
};
struct KnownBad {
  std::string package, version, what, use, source;
};
struct AmdFirmware {
  std::string release, what, source;
  std::vector<std::string> targets;
};
/// A package that searches NVIDIA's wheels for CUDA's libraries; `call`: only when that is called.
struct WheelSearcher {
  std::string package, versions, call, source;
};
/// The GPUs that PyTorch's wheels for these releases of ROCm were compiled for: "gfx1030".
struct RocmWheel {
  std::string rocm;
  std::vector<std::string> targets;
};
/// A package that is built for the processor; `use` is the one for the GPU.
struct CpuBuild {
  std::string package, versions, use, source;
  bool beside_torch = false;  // it is wanted where PyTorch's tensors are
  bool quiet = false;         // most who have it mean it for the processor
};
/// The lowest compute capability that a package serves and the highest (`most`), or all that it
/// holds code for. `tag`: of builds with this behind the plus; `below`: of builds with an older
/// CUDA; `warn`: who has it need not use it; `what`: a msgid, what fails; `use`: a release for it.
struct PackageGpus {
  std::string package, versions, capability, source, tag;
  std::vector<std::string> arch;
  std::string ptx;
  bool warn = false;
  std::string most, below, what, use;
};
/// Instructions of x86 processors that a package was compiled with: "avx". `tag` as above.
struct CpuNeed {
  std::string package, versions;
  std::vector<std::string> needs;
  std::string source, tag;
};
/// A package that asks for memory by other means than cudaMalloc, and the kinds of GPUs that may
/// not serve them: "vgpu", "jetson", "wsl". `use`: a release that does not; `set`: a command that
/// helps.
struct MemoryUser {
  std::string package, versions;
  std::vector<std::string> where;
  std::string use, set, source;
};
/// The CUDA of the newest ptxas that Triton's wheels bring.
struct TritonPtxas {
  std::string versions, cuda, source;
};
/// A package that has PTX compiled by the driver, made by the CUDA compiler that lies beside it.
struct PtxUser {
  std::string package, versions, source;
};
/// A symbol of PyTorch's, and the releases that do not have it.
struct TorchSymbol {
  std::string symbol, lacks, source;
};
/// The ROCm releases that AMD tested with a release of its kernel driver.
struct RocmDriver {
  std::string driver, rocm;
};
/// The first kernel that computes on GPUs whose PCI ids begin so; of Intel's runtime its release,
/// of older GPUs the last one for them, and the first PyTorch for XPU.
struct IntelKernel {
  std::string begins, name, kernel, source;
};
/// What a release of Jetson Linux serves; `torch`: pip's words for NVIDIA's PyTorch for it.
struct JetsonCuda {
  int l4t = 0;
  std::string cuda, python, page;
  std::vector<std::string> torch;
};
struct GpuFamily {
  std::string begins, capability;
  int digits = 0;        // that follow
  bool aarch64 = false;  // on a board whose processor is of that kind
};

struct Compatibility {
  std::vector<ToolkitDriver> toolkit_drivers;
  std::vector<MajorDriver> major_drivers;
  std::vector<ArchToolkits> archs;
  std::vector<TorchRelease> torch;
  std::vector<WheelArch> torch_archs, conda_archs, tensorflow_archs;
  std::vector<TensorflowRelease> tensorflow;
  std::vector<JaxPlugin> jax;
  std::vector<JaxRelease> jax_releases;
  std::vector<CondaJaxlib> conda_jaxlibs, jaxlib_wheels;  // of wheels: what is behind the plus
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
  std::map<std::string, std::vector<std::string>> other_gpus;    // "AMD": how their names begin
  std::map<std::string, std::vector<std::string>> several_gpus;  // "TITAN X": which those are
  std::vector<IntelKernel> intel_kernels, amd_kernels, intel_runtimes, intel_legacy, torch_xpu;
  std::vector<JetsonCuda> jetsons;
  std::vector<SystemCommands> systems;
  std::vector<SystemWish> system_wishes;
  std::vector<std::string> rocm_devices;  // PCI ids, "744c"
  /// Sub-libraries of a cuDNN major: all releases have the first, newer ones also the second.
  struct Cudnn {
    int major = 0;
    std::vector<std::string> libraries, newer;
  };
  std::vector<Cudnn> cudnn;
  /// Releases of cuDNN with the GPUs that they serve, newest first.
  struct CudnnRelease {
    std::string version, cuda;  // cuda: "12.0-12.9"
    std::vector<std::string> arch;
  };
  std::vector<CudnnRelease> cudnn_releases;
  struct BaseImage {
    std::string python, image;
  };
  std::vector<BaseImage> images;

  /// The newest CUDA that a driver was made for; "" older than any row.
  [[nodiscard]] std::string cuda_of_driver(std::string_view driver) const;
  /// The lowest driver that runs programs of this CUDA (from 11 on: of its major); "" not known.
  [[nodiscard]] std::string driver_for(std::string_view cuda) const;
  /// The driver that came with this CUDA; "" not known.
  [[nodiscard]] std::string driver_made_for(std::string_view cuda) const;
  /// By a GPU's name, with or without "NVIDIA "; "" not known. As people say it: "4090", "t4".
  [[nodiscard]] std::string capability_of(std::string_view gpu_name) const;
  [[nodiscard]] std::string capability_as_said(std::string_view gpu_name) const;
  /// The full names of cards that people call so; none where it is one. On boards of aarch64 only.
  [[nodiscard]] std::vector<std::string> several_of(std::string_view gpu_name) const;
  [[nodiscard]] bool is_with_aarch64(std::string_view gpu_name) const;
  /// "AMD", "Intel" or "Jetson" of what people call such a GPU; "" it is none.
  [[nodiscard]] std::string other_maker(std::string_view gpu_name) const;
  [[nodiscard]] const ArchToolkits* toolkits_of(std::string_view capability) const;
  /// The cuDNN that a build of PyTorch's was made with; "" not known.
  [[nodiscard]] std::string newest_rocm() const;  // of PyTorch's wheels: "7.14"; "" none
  [[nodiscard]] std::string cudnn_of_torch(std::string_view version, std::string_view cuda) const;
  [[nodiscard]] const TensorflowRelease* tensorflow_of(std::string_view version) const;
};

enum class Kernels : unsigned char { kHas, kByPtx, kLacks, kUnknown };

/// What a wheel holds for a GPU.
[[nodiscard]] Kernels kernels_of(const WheelArch& row, std::string_view capability);
/// Whether a toolkit can compile for a GPU: kLacks where it can't, kHas within its known bounds,
/// kUnknown where the tables have no row for that GPU.
[[nodiscard]] Kernels toolkit_compiles(const Compatibility& known, std::string_view cuda,
                                       std::string_view capability);
/// SASS for X.y runs on X.z with z ≥ y, never across majors, and never between a Jetson's GPU and
/// another (https://github.com/pytorch/pytorch/issues/145560); PTX is compiled for what is newer.
[[nodiscard]] bool sass_serves(const std::vector<std::string>& arch, std::string_view capability);
/// Whether the official wheel of this torch has kernels for a GPU.
[[nodiscard]] Kernels torch_kernels(const Compatibility& known, std::string_view version,
                                    std::string_view cuda, bool aarch64,
                                    std::string_view capability);

/// The one that is part of the program.
[[nodiscard]] const Compatibility& shipped_compatibility();
/// {"compat": …, "gpu_families": …}; what is not in it, or of another type, is left out.
[[nodiscard]] Compatibility compatibility_from(std::string_view text);

}  // namespace berth::doctor
