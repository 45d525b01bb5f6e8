// Rules FW08, FW11, FW15: frameworks that do not find CUDA's libraries, or that are installed
// twice.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/stated_build.hpp"
#include "doctor/rules/wheel_search.hpp"

namespace berth::doctor {
namespace {

using From = CudaLibrary::From;

/// The libraries in `wanted` that the package does not find. `conda_counts`: the package also
/// searches the lib folder of a conda environment.
std::vector<std::string> missing_of(Examination& look, std::string_view package,
                                    const std::vector<std::string>& wanted,
                                    bool conda_counts = true) {
  std::vector<std::string> missing;
  if (look.see_whole(look.facts.python.libraries) == nullptr) return missing;
  for (const std::string& name : wanted) {
    const auto found = libraries_named(look, name);
    if (std::none_of(found.begin(), found.end(), [&](const CudaLibrary& one) {
          return reaches(look, package, one) && (conda_counts || one.from != From::kConda);
        }))
      missing.push_back(name);
  }
  return missing;
}

/// Libraries to which the package's files link, and which neither the loader nor the package finds.
std::vector<std::string> missing_links(Examination& look, std::string_view package) {
  std::vector<std::string> missing;
  if (const auto* links = look.see_whole(look.facts.imports.libraries))
    for (const LinkedLibrary& one : *links)
      if (one.package == package &&
          (one.wheel.empty() ||
           searches_wheels(look, package, one.name).how != WheelSearch::kAlways))
        missing.push_back(one.name);
  return missing;
}

/// The folders of the wheels that contain these libraries; empty if one of the libraries is not in
/// a wheel.
std::vector<std::string> wheels_with(Examination& look, const std::vector<std::string>& missing) {
  std::vector<std::string> folders;
  for (const std::string& name : missing) {
    const auto found = libraries_named(look, name);
    const auto wheel = std::find_if(found.begin(), found.end(), [](const CudaLibrary& one) {
      return one.from == From::kWheel;
    });
    if (wheel == found.end()) return {};
    folders.push_back(wheel->folder);
  }
  return folders;
}

void add_where_searched(Finding& finding, const std::vector<std::string>& missing) {
  finding.evidence.push_back(
      text("not found in any wheel, in LD_LIBRARY_PATH or in the system's folders: {}",
           fmt::format("{}", fmt::join(missing, ", "))));
}

/// Reports libraries that are installed as wheels, where this package does not search.
Finding& found_unreached(Examination& look, const Distribution& one,
                         const std::vector<std::string>& missing,
                         const std::vector<std::string>& wheels) {
  Finding& finding = look.found(
      text("{} does not find {}: the library is in a wheel, where the loader does not search",
           named(one), missing.front()));
  for (std::size_t i = 0; i < missing.size(); ++i)
    finding.evidence.push_back(wheels[i] + "/" + missing[i]);
  finding.evidence.push_back(text("not found in LD_LIBRARY_PATH or in the system's folders: {}",
                                  fmt::format("{}", fmt::join(missing, ", "))));
  return finding;
}

void tensorflow_libraries(Examination& look) {
  const auto package = cuda_tensorflow(look);
  const Distribution* tensorflow = look.see(package);
  if (tensorflow == nullptr || is_aarch64(look.facts) ||
      conda_package(look, "tensorflow") != nullptr || seen_gpus(look).empty())
    return;
  const auto row = needs_of_tensorflow(look, *tensorflow);
  if (!row) return;
  std::vector<std::string> wanted{runtime_name(row->cuda), blas_name(row->cuda)};
  if (!row->cudnn.empty()) wanted.push_back("libcudnn.so." + beginning(row->cudnn, 1));
  // Check cuSOLVER too: its number can change within a CUDA major version.
  if (const std::string solver = solver_name(row->cuda);
      !solver.empty() && !libraries_named(look, "libcusolver.so.").empty())
    wanted.push_back(solver);
  // A TensorFlow from pip does not search the lib folder of a conda environment.
  const auto missing = missing_of(look, "tensorflow", wanted, false);
  if (missing.empty()) return;
  if (const auto wheels = wheels_with(look, missing); !wheels.empty()) {
    found_unreached(look, *tensorflow, missing, wheels).fix = {name_in_library_path(wheels)};
    return;
  }
  const bool in_conda = missing_of(look, "tensorflow", missing).empty();
  Finding& finding = look.found(text("TensorFlow {} does not find {}, so it skips the GPUs",
                                     tensorflow->version, missing.front()));
  const auto& torch = look.facts.python.torch;
  if ((torch && torch->cuda) || torch.is_unreadable()) finding.severity = Severity::kWarning;
  finding.evidence.push_back(text("it was built with CUDA {} and cuDNN {}", row->cuda, row->cudnn));
  if (row->says != tensorflow->path) finding.evidence.push_back(row->says);
  const std::string stem = missing.front().substr(0, missing.front().find(".so.") + 4);
  for (const CudaLibrary& other : libraries_named(look, stem))
    if (other.name != missing.front()) {
      finding.evidence.push_back(text("found {}", other.folder + "/" + other.name));
      break;
    }
  add_where_searched(finding, missing);
  if (in_conda) {
    const std::string folder = look.facts.python.prefix + "/lib";
    finding.evidence.push_back(
        text("the libraries are in {}, which pip's TensorFlow does not search", folder));
    finding.fix.push_back({"conda env config vars set -p " + pasted(look.facts.python.prefix) +
                               " LD_LIBRARY_PATH=" + pasted(folder),
                           text("then activate the environment again")});
  }
  if (!is_older(tensorflow->version, "2.14"))
    finding.fix.push_back(
        {install_command(look.facts.python, {"tensorflow[and-cuda]==" + tensorflow->version}),
         text("installs CUDA and cuDNN as wheels")});
  else if (!add_reinstall(look, finding, wish_of(look, Framework::kTensorflow)))
    finding.fix.push_back(
        {"", text("no newer release for this Python and driver contains CUDA's libraries: also "
                  "install CUDA {} and cuDNN {} (from NVIDIA's archives, or conda's cudatoolkit "
                  "and cudnn), and add their folders to LD_LIBRARY_PATH",
                  row->cuda, row->cudnn)});
}

/// Reports a CuPy from conda whose environment is not active. Since 14.1, it finds CUDA's headers
/// through CONDA_PREFIX, which only an active environment sets. CuPy 13 used the interpreter's
/// folder.
void cupy_without_conda_prefix(Examination& look) {
  const auto package = look.facts.python.distribution("cupy");
  const Distribution* cupy = look.see(package);
  const auto* environment = look.see(look.facts.process.environment);
  if (cupy == nullptr || environment == nullptr || look.see(look.facts.python.conda) == nullptr ||
      is_older(cupy->version, "14.1") || seen_gpus(look).empty())
    return;
  const auto active = environment->find("CONDA_PREFIX");
  if (environment->contains("CUDA_PATH") || environment->contains("CUDA_HOME") ||
      (active != environment->end() && !active->second.empty()) || look.facts.toolchain.building)
    return;
  Finding& finding = look.found(text(
      "CuPy {} only finds CUDA's headers in an active conda environment: CONDA_PREFIX is not set",
      cupy->version));
  finding.evidence = {cupy->path, "https://github.com/NVIDIA/cudf-spark/issues/15247"};
  finding.fix.push_back(
      {"export CONDA_PREFIX=" + pasted(look.facts.python.prefix),
       text(
           "or start the program with conda run -p or pixi run, or in the activated environment")});
}

/// Reports a CuPy 13 that was compiled by a user or a cluster and does not find NVRTC. CuPy 13
/// opens NVRTC by name only. CuPy 12 was linked to it, and stored the folder of the library.
void cupy_without_nvrtc(Examination& look, const Distribution& one) {
  if (is_older(one.version, "13") || !is_older(one.version, "14") ||
      conda_package(look, "cupy") != nullptr || look.facts.libraries.by_nix)
    return;
  const auto missing = missing_of(look, "cupy", {"libnvrtc.so."});
  if (missing.empty()) return;
  Finding& finding =
      look.found(text("CuPy {} does not find NVRTC, which it needs to compile", one.version));
  finding.evidence.push_back(one.path);
  finding.evidence.push_back(
      text("not found in LD_LIBRARY_PATH or in the system's folders: {}", "libnvrtc.so"));
  finding.evidence.emplace_back("https://github.com/cupy/cupy/issues/8317");
  std::string toolkit;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto folder = look.facts.process.variable(name); folder && !folder->empty())
      toolkit = *folder;
  if (const auto wheels = wheels_with(look, missing); !wheels.empty())
    finding.fix.push_back(name_in_library_path(wheels));
  else if (!toolkit.empty())
    finding.fix.push_back(name_in_library_path({toolkit + "/lib64"}));
  finding.fix.push_back(
      {uninstall_command(look.facts.python, {"cupy"}) + "\n" +
           install_command(look.facts.python, {"cupy-cuda12x[ctk]>=14"}),
       text("this release installs CUDA's libraries as wheels and finds them by itself")});
}

/// Reports spaCy's transformers without CuPy. They compute with PyTorch, but need CuPy to use the
/// GPU.
void spacy_without_cupy(Examination& look) {
  const auto spacy = look.facts.python.distribution("spacy");
  for (const char* name : {"spacy-transformers", "spacy-curated-transformers"}) {
    const auto package = look.facts.python.distribution(name);
    const Distribution* one = look.see(package);
    if (one == nullptr || look.see(spacy) == nullptr || torch_cuda(look).empty() ||
        conda_package(look, "cupy") != nullptr)
      continue;
    Finding& finding = look.found(
        text("{} computes on the CPU: spaCy needs CuPy to use a GPU, and CuPy is not installed",
             named(*one)));
    finding.severity = Severity::kInfo;
    finding.evidence = {one->path, "https://github.com/explosion/spaCy/issues/5778"};
    const std::string major = beginning(torch_cuda(look), 1);
    finding.fix.push_back(
        {install_command(look.facts.python, {fmt::format("cupy-cuda{}x[ctk]", major)}),
         text("then call spacy.require_gpu() before the program loads the model")});
    return;
  }
}

void cupy(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return;
  std::vector<Distribution> found;
  for (const Distribution& one : *all)
    if (one.name == "cupy" || one.name.starts_with("cupy-cuda") ||
        one.name.starts_with("cupy-rocm"))
      if (found.empty() || found.front().name != one.name) found.push_back(one);
  if (seen_gpus(look).empty()) return;
  if (found.empty()) return spacy_without_cupy(look);
  const Distribution& one = found.front();
  if (found.size() > 1) {
    Finding& finding = look.found(
        text("two packages of CuPy overwrite each other: {} and {}", named(one), named(found[1])));
    finding.evidence = {one.path, found[1].path};
    finding.fix.push_back({uninstall_command(look.facts.python, {one.name, found[1].name}),
                           text("then install one CuPy package for your CUDA version, for example "
                                "cupy-cuda12x[ctk]")});
    return;
  }
  for (const KnownBad& row : look.knowledge.compatibility().known_bad) {
    if (row.package != one.name || row.version != one.version) continue;
    Finding& finding =
        look.found(text("{} is a release with a known fault: {}", named(one), row.what));
    finding.evidence = {one.path, row.source};
    finding.fix.push_back({install_command(look.facts.python, {"-U", row.use}), ""});
    return;
  }
  if (one.name == "cupy") cupy_without_nvrtc(look, one);
  if (!one.name.starts_with("cupy-cuda")) return cupy_without_conda_prefix(look);
  const std::string major = beginning(one.name.substr(9, 2), 1);
  std::vector<std::string> wanted{"libnvrtc.so." + major};
  // CuPy before 13 also needs the CUDA runtime. CuPy 13 and newer contain it.
  if (is_older(one.version, "13")) wanted.insert(wanted.begin(), "libcudart.so." + major);
  auto missing = missing_of(look, "cupy", wanted);
  if (missing.empty()) missing = missing_links(look, "cupy");
  if (missing.empty()) return;
  if (const auto wheels = wheels_with(look, missing); !wheels.empty()) {
    Finding& finding = found_unreached(look, one, missing, wheels);
    if (major != "11")  // CuPy 13 was the last release for CUDA 11
      finding.fix.push_back({install_command(look.facts.python, {"-U", one.name + "[ctk]>=14"}),
                             text("CuPy 14 and newer also search wheels, but need NumPy 2")});
    finding.fix.push_back(name_in_library_path(wheels));
    return;
  }
  Finding& finding = look.found(text("{} does not find {}", named(one), missing.front()));
  add_where_searched(finding, missing);
  finding.evidence.push_back(
      text("the CUDA version that nvidia-smi shows is the driver's, and the driver includes none "
           "of these libraries"));
  finding.fix.push_back({install_command(look.facts.python, {one.name + "[ctk]"}),
                         text("installs CUDA's libraries as wheels")});
}

/// Reports a CPU build of onnxruntime if no framework for the GPU is installed. Next to a GPU
/// framework, it usually only prepares data. The user may intend a CPU build in any case, so this
/// is only information.
void onnx_without_cuda(Examination& look) {
  const auto package = look.facts.python.distribution("onnxruntime");
  const Distribution* cpu = look.see(package);
  if (cpu == nullptr || is_aarch64(look.facts) || look.facts.python.torch ||
      seen_gpus(look).empty())
    return;
  for (const char* other : {"tensorflow", "jaxlib", "ctranslate2"})
    if (look.facts.python.distribution(other)) return;
  Finding& finding = look.found(
      text("onnxruntime {} is the build for the CPU: it does not see the GPU", cpu->version));
  finding.severity = Severity::kInfo;
  finding.evidence = {cpu->path, text("onnxruntime-gpu is not installed")};
  finding.fix.push_back({(look.facts.python.has_uv ? "uv pip uninstall --python " : "") +
                             look.facts.python.interpreter.value_or("python3") +
                             (look.facts.python.has_uv ? "" : " -m pip uninstall -y") +
                             " onnxruntime\n" +
                             install_command(look.facts.python, {"onnxruntime-gpu"}),
                         text("uninstall first, because both packages write the same files")});
}

/// The libraries that onnxruntime does not find: those that its CUDA library links to. If that is
/// unknown, those that its release needs.
std::vector<std::string> onnx_missing(Examination& look, const Distribution& gpu) {
  std::vector<std::string> missing = missing_links(look, "onnxruntime-gpu");
  if (!missing.empty()) return missing;
  std::string built;
  if (const PackageBuild* build = stated_build(look, gpu.name)) built = build->cuda;
  for (const OnnxRelease& row : look.knowledge.compatibility().onnx) {
    if (!in_range(gpu.version, row.version)) continue;
    std::vector<std::string> wanted;
    const std::string cuda = built.empty() ? row.cuda : built;
    // Up to CUDA 10.0, cuBLAS was one library. Up to 10.2, the runtime's file name had the minor
    // version.
    if (is_older(cuda, "11") && !cuda.empty()) {
      wanted.push_back(runtime_name(cuda));
      wanted.push_back(blas_name(cuda));
    } else if (!cuda.empty()) {
      wanted.push_back("libcublasLt.so." + beginning(cuda, 1));
    }
    if (!row.cudnn.empty()) wanted.push_back("libcudnn.so." + beginning(row.cudnn, 1));
    return missing_of(look, "onnxruntime-gpu", wanted);
  }
  return missing;
}

void onnx_libraries(Examination& look, const Distribution& gpu) {
  const auto missing = onnx_missing(look, gpu);
  if (missing.empty()) return;
  if (const auto wheels = wheels_with(look, missing); !wheels.empty()) {
    const SearchesWheels search = searches_wheels(look, "onnxruntime-gpu", missing.front());
    Finding& finding = found_unreached(look, gpu, missing, wheels);
    if (search.how == WheelSearch::kWhenCalled) {
      finding.severity = Severity::kWarning;
      finding.evidence.push_back(
          text("a program that first calls {} finds the library; Berth cannot see whether a "
               "program does this",
               search.call));
      finding.fix.push_back({"", text("call {} before the first session", search.call)});
    }
    finding.fix.push_back(name_in_library_path(wheels));
    return;
  }
  // Before onnxruntime 1.7, the Python module itself linked to CUDA, so the import fails.
  const bool fails = is_older(gpu.version, "1.7");
  Finding& finding =
      look.found(fails ? text("onnxruntime-gpu {} does not find {}, so it cannot be imported",
                              gpu.version, missing.front())
                       : text("onnxruntime-gpu {} does not find {}, so it runs on the CPU",
                              gpu.version, missing.front()));
  if (fails) finding.severity = Severity::kFatal;
  add_where_searched(finding, missing);
  // onnxruntime uses CUDA 13 since 1.27, and can install CUDA's libraries with an extra since 1.21.
  const auto* served = look.see(look.facts.driver.cuda_version);
  const bool stays = is_older(gpu.version, "1.27") || (served && is_older(*served, "13"));
  finding.fix.push_back(
      {install_command(look.facts.python, {"-U", stays ? "onnxruntime-gpu[cuda,cudnn]<1.27"
                                                       : "onnxruntime-gpu[cuda,cudnn]"}),
       text("installs CUDA's libraries as wheels: CUDA 12 for releases up to 1.26, CUDA 13 for "
            "later "
            "ones. Call {} before the first session",
            "onnxruntime.preload_dlls()")});
}

void onnx(Examination& look) {
  const auto package = look.facts.python.distribution("onnxruntime-gpu");
  const Distribution* gpu = look.see(package);
  if (gpu == nullptr) return onnx_without_cuda(look);
  if (seen_gpus(look).empty()) return;
  if (const auto cpu = look.facts.python.distribution("onnxruntime")) {
    Finding& finding = look.found(text("onnxruntime {} and onnxruntime-gpu {} overwrite each other",
                                       cpu->version, gpu->version));
    finding.evidence = {cpu->path, gpu->path};
    finding.fix.push_back(
        {uninstall_command(look.facts.python, {"onnxruntime", "onnxruntime-gpu"}) + "\n" +
             install_command(look.facts.python, {"onnxruntime-gpu"}),
         ""});
    return;
  }
  onnx_libraries(look, *gpu);
}

constexpr auto kUnfoundLibrariesRules = std::to_array<Rule>({
    {"FW08", Layer::kFramework, Severity::kFatal, true,
     msgid("TensorFlow without CUDA's libraries"), "LIB10", tensorflow_libraries},
    {"FW11", Layer::kFramework, Severity::kFatal, true,
     msgid("two CuPy packages, or a CuPy without CUDA's libraries"), "", cupy},
    {"FW15", Layer::kFramework, Severity::kError, true,
     msgid("two ONNX Runtimes, or one without CUDA's libraries"), "", onnx},
});

}  // namespace

std::span<const Rule> unfound_library_rules() {
  return kUnfoundLibrariesRules;
}

}  // namespace berth::doctor
