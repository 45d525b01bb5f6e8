// Functions that each read one part of a machine and return its facts. Each is in its own file in
// this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/facts/container.hpp"
#include "doctor/facts/driver_files.hpp"
#include "doctor/facts/gpu_nodes.hpp"
#include "doctor/facts/imports.hpp"
#include "doctor/facts/libraries.hpp"
#include "doctor/facts/machine.hpp"
#include "doctor/facts/nvidia.hpp"
#include "doctor/facts/package_builds.hpp"
#include "doctor/facts/package_index.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/facts/program.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/facts/python_parts.hpp"
#include "doctor/facts/rdma.hpp"
#include "doctor/facts/toolchain.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

[[nodiscard]] ContainerFacts collect_container(const Tree& tree, const ProcessFacts& process);
[[nodiscard]] Fact<SlurmSettings> collect_slurm(const Tree& tree);
[[nodiscard]] Fact<std::vector<CdiSpec>> collect_cdi(const Tree& tree);

[[nodiscard]] DriverFiles collect_driver_files(const Tree& tree, const ProcessFacts& process);

[[nodiscard]] GpuNodes collect_gpu_nodes(const Tree& tree);

[[nodiscard]] ImportFacts collect_imports(const Tree& tree, const Fact<Environment>& environment,
                                          const PythonFacts& python);

/// Which driver libraries `program` would load. If `program` is "", uses any program in the tree.
[[nodiscard]] LibraryFacts collect_libraries(const Tree& tree, const Fact<Environment>& environment,
                                             const std::string& program);

[[nodiscard]] MachineFacts collect_machine(const Tree& tree, const Fact<std::string>& kernel_log);
[[nodiscard]] Fact<std::vector<PciFunction>> collect_pci(const Tree& tree);
[[nodiscard]] Fact<std::vector<StuckProcess>> collect_stuck(const Tree& tree);

/// Absent: no device is slower than it was, or there are no results.
[[nodiscard]] Fact<std::vector<SlowDevice>> collect_slow_devices(
    const Tree& tree, const Fact<Environment>& environment, const Fact<std::string>& host_name);

[[nodiscard]] NvidiaFacts collect_nvidia(const Tree& tree, const ProcessFacts& process);
[[nodiscard]] Fact<std::vector<UnfinishedPackage>> collect_unfinished(const Tree& tree);
[[nodiscard]] Fact<BuildLog> collect_build_log(const Tree& tree);
[[nodiscard]] Fact<std::vector<ModuleFile>> collect_module_files(
    const Tree& tree, const Fact<std::vector<std::string>>& kernels);

[[nodiscard]] Fact<std::vector<PackageBuild>> collect_package_builds(const Tree& tree,
                                                                     const PythonFacts& python);

[[nodiscard]] PackageSources collect_package_sources(const Tree& tree,
                                                     const Fact<Environment>& environment,
                                                     const PythonFacts& python);

[[nodiscard]] RocmFacts collect_rocm(const Tree& tree, const Fact<Environment>& environment,
                                     const PythonFacts& python);
[[nodiscard]] WslFacts collect_wsl(const Tree& tree,
                                   const Fact<std::vector<std::string>>& searched);
[[nodiscard]] Fact<OllamaFiles> collect_ollama(const Tree& tree);
[[nodiscard]] Fact<OllamaService> collect_ollama_service(const Tree& tree);
[[nodiscard]] Fact<GgmlProgram> collect_ggml(const Tree& tree, const ProcessFacts& process);
[[nodiscard]] PlatformFacts collect_platform(const Tree& tree, const ProcessFacts& process);

/// Which libraries the program would load, according to a simulation of the loader. Absent: there
/// is no such program, or it is not an ELF file.
[[nodiscard]] Fact<ProgramFacts> collect_program(const Tree& tree,
                                                 const Fact<Environment>& environment,
                                                 const std::string& program);

/// The interpreter to use if no option names one: from VIRTUAL_ENV, CONDA_PREFIX, or python3 in
/// PATH; empty if there is none.
[[nodiscard]] std::string default_python(const Tree& tree, const Fact<Environment>& environment);
/// If a folder in which default_python() searches is unreadable: the error, because a Python may be
/// in this folder.
[[nodiscard]] std::optional<Unreadable> why_not_searched(const Tree& tree,
                                                         const Fact<Environment>& environment);
/// If `program` is a Python, returns `program`. If it belongs to the active environment, returns
/// the Python of that environment. In all other cases, returns "".
[[nodiscard]] std::string python_of_program(const Tree& tree, const Fact<Environment>& environment,
                                            const std::string& program);
/// An active environment whose folder or Python is missing; absent if there is none.
[[nodiscard]] Fact<LostEnvironment> collect_lost_environment(const Tree& tree,
                                                             const Fact<Environment>& environment,
                                                             bool recorded);
/// Why `path` is not a usable Python, as a sentence; "" if it is usable. `recorded` is
/// Sources::recorded.
[[nodiscard]] std::string why_no_python(const Tree& tree, const std::string& path, bool recorded);
/// Names of the conda environments whose folders are found.
[[nodiscard]] std::vector<std::string> conda_names(const Tree& tree,
                                                   const Fact<Environment>& environment);
/// Path of the Python in a conda environment, which is given by name or folder; empty if there is
/// none.
[[nodiscard]] std::string conda_python(const Tree& tree, const Fact<Environment>& environment,
                                       const std::string& name);
[[nodiscard]] PythonFacts collect_python(const Tree& tree, const Fact<Environment>& environment,
                                         const std::string& interpreter);
/// Names of the GPUs as NVIDIA's kernel module reports them: "NVIDIA GeForce RTX 3090".
[[nodiscard]] Fact<std::vector<std::string>> collect_gpu_models(const Tree& tree);

[[nodiscard]] PythonParts collect_python_parts(const Tree& tree,
                                               const Fact<Environment>& environment,
                                               const PythonFacts& python);

/// `searched` are the folders in which the loader searches.
[[nodiscard]] RdmaFacts collect_rdma(const Tree& tree,
                                     const Fact<std::vector<std::string>>& searched);

[[nodiscard]] ToolchainFacts collect_toolchain(const Tree& tree,
                                               const Fact<Environment>& environment,
                                               const PythonFacts& python);

}  // namespace berth::doctor
