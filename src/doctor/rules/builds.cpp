// Rule FW21, and the parts of FW07 and ENV10 about packages other than PyTorch: builds for the CPU,
// for another vendor's GPUs, or that compile with an unsuitable toolkit.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/cuda_uses.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/stated_build.hpp"
#include "doctor/rules/wheel_search.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether a framework that can use CUDA is installed. If so, the user may need the GPU only for
/// that framework.
bool has_gpu_framework(Examination& look) {
  if (!torch_cuda(look).empty()) return true;
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return false;
  return std::any_of(all->begin(), all->end(), [](const Distribution& one) {
    return one.name == "tensorflow" || one.name == "paddlepaddle-gpu" ||
           one.name == "onnxruntime-gpu" || one.name.starts_with("cupy-cuda") ||
           one.name.starts_with("mxnet-cu") ||
           (one.name == "jaxlib" && local_part(one.version).starts_with("cuda")) ||
           (one.name.starts_with("jax-cuda") && one.name.ends_with("-plugin"));
  });
}

/// Whether the table of CPU builds contains this package. If so, listed_cpu_builds() reports it.
bool is_listed(Examination& look, const Distribution& one) {
  const auto& rows = look.knowledge.compatibility().cpu_builds;
  return std::any_of(rows.begin(), rows.end(), [&](const CpuBuild& row) {
    return row.package == one.name && (row.versions.empty() || in_range(one.version, row.versions));
  });
}

Finding& found_cpu_build(Examination& look, const Distribution& one, bool wanted) {
  Finding& finding = look.found(text("{} is built for the CPU only: it does not use the {}",
                                     named(one), seen_gpus(look).front().name));
  if (!wanted && has_gpu_framework(look)) finding.severity = Severity::kWarning;
  finding.evidence.push_back(one.path);
  return finding;
}

/// Whether no framework is installed. Then only this package can use the GPU.
bool is_alone(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  return all != nullptr && std::none_of(all->begin(), all->end(), [](const Distribution& one) {
           return one.name == "torch" || one.name == "jaxlib" || one.name == "onnxruntime" ||
                  one.name.starts_with("tensorflow") || one.name.starts_with("cupy") ||
                  one.name == "ctranslate2";
         });
}

/// Whether this is the package `name` ("faiss-gpu-cu12"), or the same project's package for another
/// CUDA version.
bool is_build_for_gpu(const Distribution& one, std::string_view name) {
  const std::size_t mark = name.find("-gpu");
  return one.name == name ||
         (mark != std::string_view::npos && one.name.starts_with(name.substr(0, mark + 4)));
}

bool has_build_for_gpu(Examination& look, std::string_view name) {
  const auto* all = look.see(look.facts.python.distributions);
  return all != nullptr && std::any_of(all->begin(), all->end(), [&](const Distribution& one) {
           return is_build_for_gpu(one, name);
         });
}

/// Whether file sizes show that this CPU package replaced the files of a GPU package.
bool has_won(Examination& look, const std::string& package) {
  const auto* won = look.see(look.facts.parts.over_gpu_build);
  return won != nullptr && std::find(won->begin(), won->end(), package) != won->end();
}

void found_over_gpu_build(Examination& look, const Distribution& one, const std::string& name) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return;
  const auto other = std::find_if(all->begin(), all->end(), [&](const Distribution& candidate) {
    return is_build_for_gpu(candidate, name);
  });
  if (other == all->end()) return;
  Finding& finding =
      look.found(text("{} was installed over {} and has replaced its files: it has no GPU support",
                      named(one), named(*other)));
  finding.evidence = {
      one.path, other->path,
      text("the library that both packages contain has the size of {}'s library", one.name),
      "https://github.com/facebookresearch/faiss/issues/2892"};
  finding.fix.push_back(
      {uninstall_command(look.facts.python, {one.name, other->name}) + "\n" +
           install_command(look.facts.python, {other->name}),
       text("reinstalls the GPU build, because both packages write the same files")});
}

void listed_cpu_builds(Examination& look) {
  for (const CpuBuild& row : look.knowledge.compatibility().cpu_builds) {
    const auto package = look.facts.python.distribution(row.package);
    const Distribution* one = look.see(package);
    if (one == nullptr || (!row.versions.empty() && !in_range(one->version, row.versions)) ||
        conda_package(look, row.package) != nullptr ||
        local_part(one->version).find("cu") != std::string_view::npos)
      continue;
    if (row.beside_torch && torch_cuda(look).empty()) continue;
    if (row.quiet && (has_gpu_framework(look) || !is_alone(look))) continue;
    // Both packages install files with the same names, so the list of packages does not show which
    // package's files are in place.
    const std::string name = row.use.substr(0, row.use.find_first_of(" ["));
    if (has_won(look, row.package)) {
      found_over_gpu_build(look, *one, name);
      continue;
    }
    if (name != row.package && has_build_for_gpu(look, name)) continue;
    Finding& finding = found_cpu_build(look, *one, row.beside_torch);
    // If another framework can use the GPU, a package named "-cpu" was installed on purpose and
    // usually only loads data.
    if (one->name.ends_with("-cpu") && has_gpu_framework(look)) finding.severity = Severity::kInfo;
    finding.evidence.push_back(row.source);
    if (row.quiet) {
      finding.severity = Severity::kInfo;
      finding.fix.push_back({"", text("compile it here with -DWITH_CUDA=ON; or use a "
                                      "distribution's or conda-forge's CUDA build")});
      continue;
    }
    const std::size_t blank = std::min(row.use.find(' '), row.use.size());
    std::string wanted = row.use.substr(0, blank);
    // NAME-cpu and NAME have the same releases, so keep the release. NAME has an extra for GPUs
    // only since 2.14.
    if (one->name == name + "-cpu")
      wanted = (is_older(one->version, "2.14") ? name : wanted) +
               "==" + one->version.substr(0, one->version.find('+'));
    finding.fix.push_back(
        {uninstall_command(look.facts.python, {row.package}) + "\n" +
             install_command(look.facts.python, {wanted},
                             std::string(trim(std::string_view(row.use).substr(blank)))),
         text("reinstalls the GPU build, because both packages write the same files")});
  }
}

/// Reports packages whose local version shows a CPU build, beside a PyTorch for CUDA: torch-scatter
/// 2.1.2+pt24cpu, dgl 1.1.3+cpu.
void tagged_for_the_processor(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr || torch_cuda(look).empty()) return;
  for (const Distribution& one : *all) {
    const std::string_view tag = local_part(one.version);
    // FW01 and FW05 check torch, torchvision and torchaudio.
    if (!tag.ends_with("cpu") || one.name == "torch" || one.name == "torchvision" ||
        one.name == "torchaudio" || !is_torch_extension(one.name))
      continue;
    Finding& finding = found_cpu_build(look, one, true);
    finding.evidence.push_back(look.facts.python.torch->path + ": cuda = " + torch_cuda(look));
    finding.fix.push_back(
        {"", text("install the build of {} whose version ends in {} instead", one.name,
                  std::string(tag.substr(0, tag.size() - 3)) + tag_of_cuda(torch_cuda(look)))});
    return;
  }
}

/// Reports conda packages whose build name shows a CPU build, beside a PyTorch for CUDA:
/// pytorch-scatter-2.1.2-py310_torch_2.4.0_cpu, dgl-2.1.0-…_cpu_….
void conda_extensions(Examination& look) {
  const auto* all = look.see(look.facts.python.conda);
  if (all == nullptr || torch_cuda(look).empty()) return;
  for (const CondaPackage& one : *all) {
    const bool extension = one.name.starts_with("pytorch-") || one.name == "dgl" ||
                           one.name == "pyg-lib" || one.name == "xformers" ||
                           one.name == "torchvision" || one.name == "torchaudio" ||
                           one.name == "pytorch3d" || one.name == "detectron2";
    const bool cpu = one.build.ends_with("cpu") || one.build.starts_with("cpu") ||
                     one.build.find("_cpu_") != std::string::npos ||
                     one.build.find("cpu_") != std::string::npos;
    if (!extension || !cpu || one.name.starts_with("pytorch-mutex") ||
        one.name.starts_with("pytorch-lightning"))
      continue;
    Finding& finding =
        look.found(text("conda has installed the CPU build of {} {}, but PyTorch is for CUDA {}",
                        one.name, one.version, torch_cuda(look)));
    finding.evidence = {one.path + ": " + one.build,
                        look.facts.python.torch->path + ": cuda = " + torch_cuda(look)};
    finding.fix.push_back(
        {fmt::format("conda install -p {} '{}=*=*cu*'", pasted(look.facts.python.prefix), one.name),
         text("requests the CUDA build explicitly")});
    return;
  }
}

/// Reports extensions that were compiled on this machine without nvcc. File names show this, even
/// if the version does not.
void processor_halves(Examination& look) {
  const auto* files = look.see_whole(look.facts.imports.processor_halves);
  if (files == nullptr || files->empty() || torch_cuda(look).empty()) return;
  const std::string& file = files->front();
  const std::string folder = file.substr(0, file.rfind('/'));
  std::string name = folder.substr(folder.rfind('/') + 1);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto package = look.facts.python.distribution(name);
  const Distribution* one = look.see(package);
  // Skip versions that end in "cpu": tagged_for_the_processor() reports them.
  if (one != nullptr && local_part(one->version).ends_with("cpu")) return;
  Finding& finding =
      look.found(text("{} is built for the CPU only, although PyTorch is built for CUDA {}",
                      one == nullptr ? name : named(*one), torch_cuda(look)));
  finding.evidence = {text("there is {}, but no corresponding file for CUDA", file),
                      look.facts.python.torch->path + ": cuda = " + torch_cuda(look)};
  finding.fix.push_back(
      {"FORCE_CUDA=1 " +
           install_command(look.facts.python, {"--force-reinstall", "--no-deps", "--no-cache-dir",
                                               "--no-build-isolation", name}),
       text("compiles the package with nvcc; or install its wheel for this PyTorch from "
            "https://data.pyg.org/whl")});
}

/// Reports packages that should support GPUs according to their names, but were built without GPU
/// support according to their build information. FW13 checks conda's packages.
void by_stated_builds(Examination& look) {
  const auto* all = look.see(look.facts.builds);
  if (all == nullptr) return;
  for (const PackageBuild& build : *all) {
    // FW15 checks onnxruntime, because its package name shows the kind of build.
    if (build.for_cuda.value_or(true) || build.package == "onnxruntime" ||
        conda_package(look, build.package) != nullptr)
      continue;
    const auto package = look.facts.python.distribution(build.package);
    const Distribution* one = look.see(package);
    if (one == nullptr || is_listed(look, *one)) continue;
    Finding& finding = found_cpu_build(look, *one, false);
    finding.evidence.push_back(text("{}: not built with CUDA", build.path));
    if (build.package == "tensorflow" && is_aarch64(look.facts))
      finding.fix.push_back(
          {"docker run --gpus all nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
           text("uses NVIDIA's own build, because PyPI's wheels for aarch64 have no CUDA")});
    else if (build.package == "tensorflow")
      finding.fix.push_back(
          {install_command(look.facts.python, {"--force-reinstall", "tensorflow[and-cuda]"}),
           text("installs the build for the GPU, with CUDA's libraries as wheels")});
    else
      finding.fix.push_back({"", text("install the package's build for CUDA")});
  }
}

void llama_cpp(Examination& look) {
  const auto package = look.facts.python.distribution("llama-cpp-python");
  const Distribution* one = look.see(package);
  const auto* libraries = look.see(look.facts.python.llama_cpp);
  if (one == nullptr || libraries == nullptr) return;
  const auto any = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(libraries->begin(), libraries->end(), [&](const std::string& name) {
      return name.starts_with("libggml") &&
             std::any_of(words.begin(), words.end(), [&](std::string_view word) {
               return name.find(word) != std::string::npos;
             });
    });
  };
  if (!any({"-cpu", "-base"}) || any({"-cuda", "-hip", "-vulkan", "-sycl", "-musa", "-opencl"}))
    return;
  Finding& finding = found_cpu_build(look, *one, false);
  finding.evidence.push_back(text("none of the installed libraries is for a GPU: {}",
                                  fmt::format("{}", fmt::join(*libraries, ", "))));
  finding.fix.push_back(
      {"CMAKE_ARGS=-DGGML_CUDA=on " +
           install_command(look.facts.python, {"--force-reinstall", "--no-cache-dir", "--no-deps",
                                               "llama-cpp-python"}),
       text("compiles the package here, which needs nvcc; without --no-cache-dir, pip reuses the "
            "old build")});
}

/// Checks llama-cpp-python before 0.3, which has a single library. The libraries to which it links
/// show whether it supports GPUs. Before 0.2.80, the build option for CUDA had another name.
void older_llama_cpp(Examination& look) {
  const auto package = look.facts.python.distribution("llama-cpp-python");
  const Distribution* one = look.see(package);
  const auto* links = look.see_whole(look.facts.python.llama_cpp_links);
  if (one == nullptr || links == nullptr) return;
  constexpr auto kGpu = std::to_array<std::string_view>(
      {"libcuda", "libcublas", "libhip", "librocblas", "libamdhip", "libclblast", "libOpenCL",
       "libvulkan", "libkompute", "libsycl", "libze_loader", "libggml"});
  for (const std::string& name : *links)
    for (const std::string_view begin : kGpu)
      if (name.starts_with(begin)) return;
  Finding& finding = found_cpu_build(look, *one, false);
  finding.evidence.push_back(
      text("libllama.so links to no GPU library: {}", fmt::format("{}", fmt::join(*links, ", "))));
  finding.fix.push_back(
      {fmt::format("CMAKE_ARGS=-D{}=on ",
                   is_older(one->version, "0.2.80") ? "LLAMA_CUBLAS" : "GGML_CUDA") +
           install_command(look.facts.python, {"--force-reinstall", "--no-cache-dir", "--no-deps",
                                               "llama-cpp-python==" + one->version}),
       text("compiles the package here, which needs nvcc; without --no-cache-dir, pip reuses the "
            "old build")});
}

/// Checks llama.cpp from Homebrew or a distribution. Its backends are separate libraries in one
/// folder.
void ggml_program(Examination& look) {
  const GgmlProgram* program = look.see(look.facts.platform.ggml);
  if (program == nullptr) return;
  constexpr auto kGpu =
      std::to_array<std::string_view>({"cuda", "hip", "vulkan", "sycl", "musa", "opencl", "rpc"});
  for (const std::string& name : program->libraries)
    for (const std::string_view word : kGpu)
      if (name.find(word) != std::string::npos) return;
  Finding& finding = look.found(text("{} is built for the CPU only: it does not use the {}",
                                     program->program, seen_gpus(look).front().name));
  // If another framework can use the GPU, perhaps the user does not need GPU support in this
  // program.
  if (has_gpu_framework(look)) finding.severity = Severity::kWarning;
  finding.evidence.push_back(text("none of the installed libraries is for a GPU: {}",
                                  fmt::format("{}", fmt::join(program->libraries, ", "))));
  finding.fix.push_back(
      {"cmake -B build -DGGML_CUDA=ON && cmake --build build --config Release -j",
       text("run this in the program's source folder; or use a release archive or image built for "
            "CUDA or Vulkan: package managers only have CPU builds")});
}

void cpu_builds(Examination& look) {
  if (seen_gpus(look).empty()) return;
  ggml_program(look);
  by_stated_builds(look);
  if (is_aarch64(look.facts)) return;
  listed_cpu_builds(look);
  tagged_for_the_processor(look);
  processor_halves(look);
  conda_extensions(look);
  llama_cpp(look);
  older_llama_cpp(look);
}

constexpr auto kBuildsRules = std::to_array<Rule>({
    {"FW21", Layer::kFramework, Severity::kError, true,
     msgid("a CPU-only package on a machine with a GPU"), "", cpu_builds},
});

}  // namespace

bool is_torch_extension(std::string_view name) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"torchvision",       "torchaudio", "torch-scatter", "torch-sparse", "torch-cluster",
       "torch-spline-conv", "pyg-lib",    "dgl",           "mmcv",         "mmcv-full",
       "detectron2",        "natten",     "kaolin",        "torchsparse",  "fbgemm-gpu",
       "torch-tensorrt",    "vllm",       "flash-attn",    "xformers",     "exllamav2",
       "auto-gptq",         "gptqmodel",  "causal-conv1d", "mamba-ssm"});
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string cuda_in_tag(std::string_view tag) {
  for (std::size_t at = tag.find("cu"); at != std::string_view::npos; at = tag.find("cu", at + 1)) {
    std::size_t end = at + 2;
    if (tag.substr(end).starts_with("da")) end += 2;
    const std::size_t begin = end;
    while (end < tag.size() && tag[end] >= '0' && tag[end] <= '9') ++end;
    if (end - begin == 3) return cuda_of_tag("cu" + std::string(tag.substr(begin, 3)));
    if (end - begin == 2) return std::string(tag.substr(begin, 2));
  }
  return "";
}

void other_vendor(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  const bool nvidia = !seen_gpus(look).empty(), amd = has_rocm_gpu(look);
  if (all == nullptr || nvidia == amd) return;
  const auto& torch = look.facts.python.torch;
  for (const Distribution& one : *all) {
    const std::string_view tag = local_part(one.version);
    const bool rocm =
        one.name.find("rocm") != std::string::npos || tag.find("rocm") != std::string_view::npos;
    const bool extension = is_torch_extension(one.name) && !one.name.starts_with("torchvision") &&
                           !one.name.starts_with("torchaudio") &&
                           (rocm || !cuda_in_tag(tag).empty());
    const bool framework = extension || one.name == "tensorflow" || one.name == "tensorflow-rocm" ||
                           one.name == "onnxruntime-gpu" || one.name == "onnxruntime-rocm" ||
                           one.name.starts_with("cupy-cuda") || one.name.starts_with("cupy-rocm") ||
                           (one.name.starts_with("jax-") && one.name.ends_with("-plugin"));
    if (!framework || rocm != nvidia || conda_package(look, one.name) != nullptr) continue;
    Finding& finding = look.found(
        nvidia ? text("{} is built for AMD's ROCm, but the GPU is from NVIDIA", named(one))
               : text("{} is built for NVIDIA's CUDA, but the GPU is from AMD", named(one)));
    // PyTorch has a suitable build, so perhaps the user does not need this package on the GPU.
    if (torch && (nvidia ? torch->cuda.has_value() : torch->hip.has_value()))
      finding.severity = Severity::kWarning;
    finding.evidence.push_back(one.path);
    finding.fix.push_back(
        {uninstall_command(look.facts.python, {one.name}),
         nvidia
             ? text("then install the package's build for CUDA")
             : text("then install the package's build for ROCm: see https://rocm.docs.amd.com")});
    return;
  }
}

namespace {

/// Reports CUDA headers that are older than CuPy's NVRTC. CuPy 14 takes NVRTC from a wheel, but the
/// headers from the toolkit in CUDA_PATH; NVRTC 12.8 and newer need types that older headers lack.
void headers_older_than_compiler(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  const Toolkit* toolkit = look.see(look.facts.toolchain.building);
  const std::string path = variable_or_empty(look, "CUDA_PATH");
  if (all == nullptr || toolkit == nullptr || path.empty() || seen_gpus(look).empty()) return;
  const auto first = [&](std::string_view begin) {
    return std::find_if(all->begin(), all->end(),
                        [&](const Distribution& one) { return one.name.starts_with(begin); });
  };
  const auto cupy = first("cupy-cuda"), compiler = first("nvidia-cuda-nvrtc");
  if (cupy == all->end() || compiler == all->end() ||
      searches_wheels(look, "cupy", "libnvrtc.so").how != WheelSearch::kAlways)
    return;
  constexpr std::string_view kNewTypes = "12.8";
  if (version_of(toolkit->version).size() < 2 || is_older(compiler->version, kNewTypes) ||
      !is_older(beginning(toolkit->version), kNewTypes) ||
      version_of(toolkit->version)[0] != version_of(compiler->version)[0])
    return;
  Finding& finding = look.found(text(
      "CuPy compiles with NVRTC {} from a wheel, but with the headers of CUDA {} from CUDA_PATH",
      compiler->version, toolkit->version));
  finding.severity = Severity::kError;
  finding.evidence = {shown_variable(look, "CUDA_PATH"),
                      fmt::format("{}: CUDA {}", toolkit->folder, toolkit->version), compiler->path,
                      "https://github.com/cupy/cupy/issues/9719"};
  finding.fix.push_back(
      {"unset CUDA_PATH\n" + install_command(look.facts.python, {cupy->name + "[ctk]"}),
       text("headers and compiler then come from the same wheels")});
  finding.fix.push_back(
      {install_command(look.facts.python,
                       {fmt::format("cuda-toolkit=={}.*", beginning(toolkit->version))}),
       text("or install wheels of the toolkit's version")});
}

/// Reports FlashInfer without nvcc. Its package on PyPI contains no kernels, so it compiles each
/// kernel at first use. Two other packages contain compiled kernels.
void flashinfer_without_nvcc(Examination& look) {
  const auto package = look.facts.python.distribution("flashinfer-python");
  const Distribution* one = look.see(package);
  const auto has = [&](const char* name) { return look.facts.python.distribution(name); };
  const auto gpus = seen_gpus(look);
  if (one == nullptr || gpus.empty() || torch_cuda(look).empty() ||
      !local_part(one->version).empty() || has("flashinfer-cubin") || has("flashinfer-jit-cache") ||
      has("nvidia-cuda-nvcc") || has("nvidia-cuda-nvcc-cu12") ||
      !look.missing(look.facts.toolchain.building))
    return;
  Finding& finding =
      look.found(text("there is no nvcc, which {} needs to compile at run time", named(*one)));
  // On GPUs below compute capability 10.0, SGLang is the only inference server that uses these
  // kernels.
  const bool is_chosen = has("sglang") || (!gpus.front().capability.empty() &&
                                           !is_older(gpus.front().capability, "10.0"));
  finding.severity = is_chosen ? Severity::kWarning : Severity::kInfo;
  finding.evidence = {one->path, text("no nvcc in PATH, CUDA_HOME or /usr/local/cuda"),
                      "https://github.com/vllm-project/vllm/issues/26642"};
  finding.fix.push_back(
      {install_command(
           look.facts.python,
           {"flashinfer-cubin==" + one->version, "flashinfer-jit-cache==" + one->version},
           "--extra-index-url https://flashinfer.ai/whl/" + tag_of_cuda(torch_cuda(look))),
       text("installs FlashInfer's precompiled kernels; or install a CUDA toolkit, or use an image "
            "whose tag ends in -devel")});
}

}  // namespace

void toolkit_for_building(Examination& look) {
  headers_older_than_compiler(look);
  const auto deepspeed = look.facts.python.distribution("deepspeed");
  const auto pycuda = look.facts.python.distribution("pycuda");
  const Distribution* who = look.see(deepspeed) != nullptr ? look.see(deepspeed) : look.see(pycuda);
  const std::string cuda = torch_cuda(look);
  if (who == nullptr) return flashinfer_without_nvcc(look);
  if (who == nullptr || (who->name == "deepspeed" && cuda.empty()) || seen_gpus(look).empty())
    return;
  if (look.missing(look.facts.toolchain.building)) {
    Finding& finding =
        look.found(text("there is no nvcc, which {} needs to compile at run time", named(*who)));
    finding.evidence = {who->path, text("no nvcc in PATH, CUDA_HOME or /usr/local/cuda")};
    finding.fix.push_back(
        {"conda install -c nvidia cuda-nvcc",
         text("or install the CUDA toolkit of PyTorch's CUDA version and set CUDA_HOME to it")});
    return;
  }
  const Toolkit* toolkit = look.see(look.facts.toolchain.building);
  const auto skip = look.facts.process.variable("DS_SKIP_CUDA_CHECK");
  if (toolkit == nullptr || toolkit->version.empty() || who->name != "deepspeed" ||
      look.see(skip) || version_of(toolkit->version)[0] == version_of(cuda)[0])
    return;
  Finding& finding = look.found(text(
      "{} compiles with CUDA {}, but PyTorch is built with CUDA {}: the build stops with an error",
      named(*who), beginning(toolkit->version), cuda));
  finding.evidence = {fmt::format("{}: CUDA {}", toolkit->folder, toolkit->version),
                      look.facts.python.torch->path + ": cuda = " + cuda};
  finding.fix.push_back({"", text("install CUDA toolkit {} next to the other one and set CUDA_HOME "
                                  "to it; the driver is unchanged",
                                  cuda)});
}

std::span<const Rule> build_rules() {
  return kBuildsRules;
}

}  // namespace berth::doctor
