// Rules FW09, FW16, FW19, FW22, FW27, LIB11: run-time compilation, and CUDA libraries that
// TensorFlow loads from the system.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// The first of `names` that is an installed package.
const Distribution* first_of(Examination& look, std::initializer_list<std::string_view> names) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return nullptr;
  for (const std::string_view name : names)
    for (const Distribution& one : *all)
      if (one.name == name) return &one;
  return nullptr;
}

/// The toolkit from which Numba takes NVVM; `all` is in search order. `knows_wheels`: Numba also
/// searches in wheels.
const Toolkit* toolkit_of_numba(const std::vector<Toolkit>& all, bool knows_wheels) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Toolkit& one) {
    return knows_wheels || one.from != Toolkit::From::kWheel;
  });
  return found == all.end() ? nullptr : &*found;
}

/// Whether Numba links with nvJitLink or one of its predecessors. These accept PTX of newer CUDA
/// versions than the driver does.
bool links_by_itself(Examination& look, const Distribution* numba_cuda) {
  if (first_of(look, {"pynvjitlink-cu12", "pynvjitlink", "cubinlinker", "cubinlinker-cu11"}))
    return true;
  return numba_cuda != nullptr && !is_older(numba_cuda->version, "0.16") &&
         first_of(look, {"nvidia-nvjitlink", "nvidia-nvjitlink-cu12", "cuda-core"}) != nullptr;
}

/// The first CUDA release that has the same PTX version as `cuda`: 12.5 for 12.6.
std::string ptx_of(const std::string& cuda) {
  const std::string release = beginning(cuda);
  return release == "12.6" ? "12.5" : release;
}

/// Reports numba-cuda without a CUDA toolkit: it has no NVVM, so it cannot compile anything.
void no_nvvm(Examination& look, const Distribution& numba_cuda) {
  if (first_of(look, {"nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc", "nvidia-nvvm", "cuda-toolkit",
                      "nvidia-cuda-nvcc-cu11"}) != nullptr ||
      conda_package(look, "cuda-nvvm-impl") != nullptr ||
      conda_package(look, "cuda-nvcc-impl") != nullptr || look.facts.toolchain.building)
    return;
  const bool sure = look.missing(look.facts.toolchain.building);
  Finding& finding = look.found(
      text("{} finds no libnvvm.so, with which it compiles for the GPU", named(numba_cuda)));
  if (!sure) finding.severity = Severity::kWarning;
  finding.evidence = {numba_cuda.path,
                      text("not found in a wheel, in conda, in CUDA_HOME or in /usr/local/cuda")};
  const std::string major = beginning(nvidia_driver(look).cuda, 1);
  finding.fix.push_back(
      {install_command(look.facts.python, {"numba-cuda[cu" + (major == "13" ? major : "12") + "]"}),
       text("installs CUDA's compiler as wheels")});
}

bool compiles_for_gpus(Examination& look) {
  return first_of(look, {"cuda-python", "cudf-cu12", "cuml-cu12"}) != nullptr;
}

/// Reports a toolkit that this release of Numba no longer supports. Numba then finds no GPU.
bool toolkit_too_old_for_numba(Examination& look, const Distribution& numba,
                               const Toolkit& toolkit) {
  if (numba.name != "numba") return false;
  const std::string lowest = !is_older(numba.version, "0.57")   ? "11.0"
                             : !is_older(numba.version, "0.56") ? "10.2"
                                                                : "";
  if (lowest.empty() || !is_older(beginning(toolkit.version), lowest)) return false;
  Finding& finding = look.found(text("{} needs CUDA {} or newer, but finds CUDA {}", named(numba),
                                     lowest, beginning(toolkit.version)));
  // Numba is often used only for the CPU.
  if (!compiles_for_gpus(look)) finding.severity = Severity::kInfo;
  finding.evidence = {numba.path, fmt::format("{}: CUDA {}", toolkit.folder, toolkit.version),
                      "https://github.com/open-mmlab/OpenPCDet/issues/1386"};
  finding.fix.push_back({install_command(look.facts.python, {"numba==0.53.*"}),
                         text("installs the last Numba release that accepts this CUDA; or install "
                              "a newer toolkit and set CUDA_HOME to it")});
  return true;
}

/// Reports variables that Numba ignores since 0.46. A user who sets them to locate NVVM usually has
/// no other NVVM.
bool numbapro_unheeded(Examination& look, const Distribution& numba,
                       const std::vector<Toolkit>& toolkits) {
  if (numba.name != "numba" || is_older(numba.version, "0.46") || !toolkits.empty()) return false;
  for (const char* name : {"NUMBAPRO_NVVM", "NUMBAPRO_LIBDEVICE", "NUMBAPRO_CUDALIB"}) {
    const std::string shown = shown_variable(look, name);
    if (shown.empty()) continue;
    Finding& finding =
        look.found(text("{} no longer reads {}, and finds no NVVM elsewhere", named(numba), name));
    finding.evidence = {printable(shown), numba.path,
                        text("not found in conda, in CUDA_HOME or in /usr/local/cuda"),
                        "https://github.com/numba/numba/issues/4979"};
    finding.fix.push_back({"export CUDA_HOME=/usr/local/cuda",
                           text("use a toolkit folder with nvvm/lib64/libnvvm.so and "
                                "nvvm/libdevice; if a distribution's package has them elsewhere, "
                                "create links to them in your own folder")});
    if (look.facts.python.is_conda)
      finding.fix.push_back(
          {fmt::format("conda install -p {} cudatoolkit", pasted(look.facts.python.prefix)),
           text("Numba prefers the toolkit in its own environment")});
    return true;
  }
  return false;
}

void ptx_newer(Examination& look) {
  const Distribution* numba_cuda = first_of(look, {"numba-cuda"});
  const Distribution* numba = numba_cuda != nullptr ? numba_cuda : first_of(look, {"numba"});
  if (numba == nullptr || seen_gpus(look).empty()) return;
  const auto* toolkits = look.see_whole(look.facts.toolchain.nvvm);
  if (toolkits != nullptr && toolkits->empty() && numba_cuda != nullptr)
    return no_nvvm(look, *numba_cuda);
  if (toolkits != nullptr && numbapro_unheeded(look, *numba, *toolkits)) return;
  if (toolkits == nullptr || links_by_itself(look, numba_cuda)) return;
  const bool knows_wheels = numba_cuda != nullptr && !is_older(numba_cuda->version, "0.15");
  const Toolkit* toolkit = toolkit_of_numba(*toolkits, knows_wheels);
  const SeenDriver driver = nvidia_driver(look);
  if (toolkit == nullptr || version_of(toolkit->version).size() < 2 || driver.cuda.empty()) return;
  const std::string cuda = beginning(toolkit->version);
  if (toolkit_too_old_for_numba(look, *numba, *toolkit)) return;
  if (!is_older(ptx_of(driver.cuda), ptx_of(cuda))) return;
  Finding& finding = look.found(
      text("{} compiles with CUDA {}, but the driver only accepts PTX of CUDA up to {}: error 222",
           named(*numba), cuda, driver.cuda));
  // Numba is often used only for the CPU.
  if (numba_cuda == nullptr && !compiles_for_gpus(look)) finding.severity = Severity::kInfo;
  finding.evidence = {numba->path, fmt::format("{}: CUDA {}", toolkit->folder, toolkit->version)};
  if (!driver.version.empty())
    finding.evidence.push_back(
        text("the driver is version {} and supports CUDA up to {}", driver.version, driver.cuda));
  const std::string major = beginning(driver.cuda, 1);
  if (major == "12" || major == "13")
    finding.fix.push_back(
        {install_command(look.facts.python, {"-U", "numba-cuda[cu" + major + "]"}),
         text("Numba then links with nvJitLink, which accepts newer PTX than the driver does, but "
              "only of CUDA {}",
              major)});
  if (const std::string made = look.knowledge.compatibility().driver_made_for(cuda); !made.empty())
    finding.fix.push_back({"", text("update the driver to {} or newer (for a container, on the "
                                    "host); this needs root and a reboot",
                                    made)});
  finding.fix.push_back({"", text("set CUDA_HOME to a toolkit of CUDA {} for Numba", driver.cuda)});
}

/// The first installed package that compiles with Triton in nearly every run; nullptr if there is
/// none.
const Distribution* compiles_by_triton(Examination& look) {
  return first_of(look, {"vllm", "sglang", "unsloth", "liger-kernel", "flash-linear-attention",
                         "fla-core", "mamba-ssm", "lightllm", "gemlite", "tritonbench"});
}
const Distribution* compiles_by_nvcc(Examination& look) {
  return first_of(look, {"deepspeed", "pycuda"});
}

void gcc_too_new(Examination& look) {
  const CompilerLimit* limit = look.see(look.facts.toolchain.nvcc);
  if (limit == nullptr) return;
  const HostCompiler* compiler = look.see(look.facts.toolchain.compiler);
  if (compiler == nullptr || compiler->gcc <= limit->newest_gcc) return;
  const Distribution* who = compiles_by_nvcc(look);
  Finding& finding =
      look.found(who != nullptr ? text("gcc {} is newer than gcc {}, the newest that nvcc accepts, "
                                       "and {} compiles with the newer gcc",
                                       compiler->gcc, limit->newest_gcc, named(*who))
                                : text("gcc {} is newer than gcc {}, the newest that nvcc accepts: "
                                       "extensions will not compile",
                                       compiler->gcc, limit->newest_gcc));
  if (who == nullptr && first_of(look, {"torch"}) == nullptr) finding.severity = Severity::kInfo;
  finding.evidence = {compiler->path, text("{}: gcc versions later than {} are not supported",
                                           limit->header, limit->newest_gcc)};
  finding.fix.push_back(
      on_system(look, "compiler",
                text("this applies to the shell in which you build; the system's gcc is unchanged"),
                std::to_string(limit->newest_gcc)));
  finding.fix.push_back({"", text("use a newer toolkit, whose nvcc accepts newer compilers")});
}

/// Reports functions that the C library declares in another way than CUDA's headers.
void headers_clash(Examination& look) {
  const HeaderClash* clash = look.see(look.facts.toolchain.clash);
  const Toolkit* toolkit = look.see(look.facts.toolchain.building);
  if (clash == nullptr || toolkit == nullptr) return;
  const Distribution* who = compiles_by_nvcc(look);
  const std::string cuda = toolkit->version.empty() ? "" : " " + beginning(toolkit->version);
  Finding& finding =
      look.found(text("nvcc of CUDA{} compiles nothing here: the C library's declaration of {} "
                      "differs from the one in CUDA's header",
                      cuda, clash->function));
  // Most programs that use PyTorch compile no extensions.
  if (who == nullptr) finding.severity = Severity::kInfo;
  finding.evidence = {fmt::format("{}: {}(double x)", clash->cuda_header, clash->function),
                      fmt::format("{}: {}, noexcept", clash->libc_header, clash->function),
                      clash->function == "rsqrt"
                          ? "https://github.com/ggml-org/llama.cpp/issues/19100"
                          : "https://github.com/NVIDIA/cuda-samples/issues/378"};
  if (who != nullptr) finding.evidence.push_back(who->path);
  if (clash->function != "rsqrt")
    finding.fix.push_back({"", text("use CUDA 13.0 or newer if it supports this GPU: its "
                                    "declarations match the C library's")});
  finding.fix.push_back(
      {fmt::format("sudo sed -i -E 's/((cospi|sinpi|rsqrt)\\(double x\\)|(cospif|sinpif|rsqrtf)"
                   "\\(float x\\));/\\1 noexcept (true);/' {}",
                   pasted(clash->cuda_header)),
       text("changes the declarations in this toolkit's header")});
  finding.fix.push_back(
      {"", text("or compile in an image (nvidia/cuda:…-devel), whose C library is older")});
}

/// Triton compiles its launcher with the system's C compiler and Python's headers.
void triton_cannot_compile(Examination& look) {
  const Distribution* triton = first_of(look, {"triton", "pytorch-triton"});
  if (triton == nullptr || seen_gpus(look).empty()) return;
  const bool* compiler = look.see(look.facts.toolchain.any_compiler);
  if (compiler == nullptr) return;
  const bool* header = *compiler ? look.see(look.facts.toolchain.has_python_header) : nullptr;
  if (*compiler && (header == nullptr || *header)) return;
  const Distribution* who = compiles_by_triton(look);
  const std::string shown = who == nullptr ? "torch.compile" : named(*who);
  Finding& finding =
      look.found(*compiler ? text("Python.h is missing, which Triton needs: {} fails", shown)
                           : text("there is no C compiler, which Triton needs: {} fails", shown));
  finding.severity = who == nullptr ? Severity::kInfo : Severity::kError;
  finding.evidence.push_back(triton->path);
  if (!*compiler) {
    finding.evidence.push_back(text("no gcc, clang or cc in PATH, and CC is not set"));
    finding.fix.push_back(on_system(look, "gcc", text("for an image, add this to its Dockerfile")));
    return;
  }
  const std::string path = look.facts.toolchain.python_header.value_or("Python.h");
  finding.evidence.push_back(fmt::format("{}: {}", path, tr("missing")));
  const std::string version = look.facts.python.version.value_or("3");
  finding.fix.push_back(on_system(
      look, "python_headers", text("a Python from conda or uv includes these headers"), version));
}

/// Triton writes compiled libraries to its cache. Loading them from a noexec file system fails:
/// "failed to map segment from shared object".
void triton_cannot_run(Examination& look) {
  const Distribution* triton = first_of(look, {"triton", "pytorch-triton"});
  const std::string* folder = look.see(look.facts.toolchain.cache_without_exec);
  if (triton == nullptr || folder == nullptr || seen_gpus(look).empty()) return;
  const Distribution* who = compiles_by_triton(look);
  Finding& finding = look.found(
      text("{} is on a noexec file system, and Triton keeps compiled code there: {} fails", *folder,
           who == nullptr ? "torch.compile" : named(*who)));
  if (who == nullptr) finding.severity = Severity::kInfo;
  finding.evidence = {"/proc/self/mountinfo: noexec", triton->path,
                      "https://github.com/pytorch/pytorch/issues/123054"};
  finding.fix.push_back(
      {"export TRITON_CACHE_DIR=$HOME/.triton/cache TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/inductor",
       text("or use any folder on another file system; for a container, add --tmpfs /tmp:exec")});
}

/// PyTorch compiles extensions with the ninja in PATH. If ninja is installed in an environment, it
/// is in PATH only while the environment is active.
void no_ninja(Examination& look) {
  const Distribution* who = first_of(look, {"gsplat", "nerfacc", "xlstm", "exllamav2"});
  if (who == nullptr || torch_cuda(look).empty() || seen_gpus(look).empty() ||
      !look.missing(look.facts.parts.ninja))
    return;
  const bool installed = first_of(look, {"ninja"}) != nullptr;
  Finding& finding = look.found(
      text("there is no ninja in PATH, which {} needs to compile at run time", named(*who)));
  // The user may activate the environment before running the program.
  if (installed) finding.severity = Severity::kInfo;
  finding.evidence = {who->path, "https://github.com/pytorch/pytorch/pull/147698"};
  if (installed)
    finding.fix.push_back(
        {fmt::format("export PATH={}/bin:$PATH", pasted(look.facts.python.prefix)),
         text("ninja is in that folder; activating the environment also adds the folder to PATH")});
  else
    finding.fix.push_back({install_command(look.facts.python, {"ninja"}), ""});
}

/// A killed build leaves its lock file. Every later import of that extension waits for the lock,
/// without a message.
void lock_left(Examination& look) {
  const auto* locks = look.see(look.facts.parts.build_locks);
  if (locks == nullptr || locks->empty()) return;
  const auto* processes = look.see(look.facts.machine.processes);
  constexpr auto kBuilders = std::to_array<std::string_view>(
      {"ninja", "nvcc", "cicc", "ptxas", "cudafe++", "cc1plus", "c++", "g++", "hipcc", "clang++"});
  if (processes == nullptr ||
      std::any_of(processes->begin(), processes->end(), [&](const std::string& name) {
        return std::find(kBuilders.begin(), kBuilders.end(), name) != kBuilders.end();
      }))
    return;
  Finding& finding =
      look.found(text("an earlier build of an extension has left its lock, and every import waits "
                      "for this lock: {}",
                      locks->front()));
  finding.evidence = *locks;
  finding.evidence.push_back(text("no compiler runs now"));
  finding.evidence.emplace_back("https://github.com/openvinotoolkit/nncf/issues/1033");
  std::string command = "rm";
  for (const std::string& one : *locks) command += " " + pasted(one);
  finding.fix.push_back(
      {command,
       text("do this only if no build is running on another machine with the same home folder")});
}

void host_compiler(Examination& look) {
  triton_cannot_compile(look);
  if (look.findings().empty()) triton_cannot_run(look);
  if (look.findings().empty()) no_ninja(look);
  if (look.findings().empty()) gcc_too_new(look);
  if (look.findings().empty()) headers_clash(look);
}

/// Reports a libcuda that Triton does not find, because Triton searches for it with ldconfig.
void libcuda_for_triton(Examination& look) {
  const Distribution* triton = first_of(look, {"triton", "pytorch-triton"});
  if (triton == nullptr || seen_gpus(look).empty() || is_older(triton->version, "2.1") ||
      !is_older(triton->version, "3.5") || look.facts.libraries.by_nix ||
      !variable_or_empty(look, "TRITON_LIBCUDA_PATH").empty())
    return;
  const FoundLibrary* cuda = look.see(look.facts.libraries.cuda);
  if (cuda == nullptr) return;  // LIB01 reports a missing libcuda
  const auto* cached = look.see_whole(look.facts.toolchain.cached_cuda);
  if (cached == nullptr) return;
  const std::string folder = cuda->path.substr(0, cuda->path.rfind('/'));
  // If the loader's cache does not contain libcuda, Triton before 2.2 does not find it. Newer
  // releases also search LD_LIBRARY_PATH.
  const bool unknown = cached->empty() && is_older(triton->version, "2.2");
  if (!unknown) {
    const bool* links = cached->empty() ? nullptr : look.see(look.facts.toolchain.links_cuda);
    if (links == nullptr || *links) return;
  }
  Finding& finding = look.found(
      unknown ? text("the loader's cache does not contain libcuda.so.1, so {} does not find the "
                     "library: torch.compile fails",
                     named(*triton))
              : text("there is no libcuda.so next to libcuda.so.1, so {} cannot link its launcher: "
                     "torch.compile fails",
                     named(*triton)));
  finding.evidence.push_back(triton->path);
  finding.evidence.push_back(cuda->by.empty()
                                 ? text("library in use: {}", cuda->path)
                                 : text("library in use: {}, found by {}", cuda->path, cuda->by));
  if (unknown) {
    finding.fix.push_back({"sudo ldconfig " + pasted(folder),
                           text("adds the folder to the cache; in an image, put a file with the "
                                "folder into /etc/ld.so.conf.d, then run ldconfig")});
  } else {
    finding.fix.push_back({"sudo ln -s libcuda.so.1 " + pasted(folder + "/libcuda.so"), ""});
    finding.fix.push_back({fmt::format("mkdir -p ~/.local/lib/cuda && ln -s {0}/libcuda.so.1 "
                                       "~/.local/lib/cuda/libcuda.so\nexport LIBRARY_PATH="
                                       "~/.local/lib/cuda",
                                       pasted(folder)),
                           text("the same without root permissions")});
  }
  finding.fix.push_back({install_command(look.facts.python, {"-U", "torch"}),
                         text("newer Triton releases need neither command")});
}

/// Triton assembles GPU code with the ptxas in its own wheel, even if a toolkit is installed.
void ptxas_too_old(Examination& look) {
  const Distribution* triton = first_of(look, {"triton", "pytorch-triton"});
  if (triton == nullptr || conda_package(look, "triton") != nullptr ||
      !variable_or_empty(look, "TRITON_PTXAS_PATH").empty() ||
      !variable_or_empty(look, "TRITON_PTXAS_BLACKWELL_PATH").empty())
    return;
  const Compatibility& known = look.knowledge.compatibility();
  const auto row =
      std::find_if(known.triton_ptxas.begin(), known.triton_ptxas.end(),
                   [&](const TritonPtxas& one) { return in_range(triton->version, one.versions); });
  if (row == known.triton_ptxas.end()) return;
  for (const SeenGpu& gpu : seen_gpus(look)) {
    const ArchToolkits* bounds =
        gpu.capability.empty() ? nullptr : known.toolkits_of(gpu.capability);
    if (bounds == nullptr || bounds->first.empty() || !is_older(row->cuda, bounds->first)) continue;
    const Distribution* who = compiles_by_triton(look);
    Finding& finding = look.found(
        text("{} contains the assembler of CUDA {}, which does not support {} yet: {} fails",
             named(*triton), row->cuda, gpu.name,
             who == nullptr ? text("torch.compile and every kernel in Triton's language")
                            : named(*who)));
    // Programs that only run PyTorch's own kernels need no ptxas.
    if (who == nullptr) finding.severity = Severity::kWarning;
    finding.evidence = {
        triton->path, row->source,
        text("compute capability {}: supported since CUDA {}", gpu.capability, bounds->first)};
    const Toolkit* toolkit = look.see(look.facts.toolchain.building);
    if (toolkit != nullptr && !toolkit->version.empty() &&
        !is_older(beginning(toolkit->version), bounds->first))
      finding.fix.push_back({"export TRITON_PTXAS_PATH=" + pasted(toolkit->folder + "/bin/ptxas"),
                             text("makes Triton use the assembler of the installed toolkit")});
    else
      finding.fix.push_back({"export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",
                             text("this must be the ptxas of CUDA {} or newer", bounds->first)});
    finding.fix.push_back({install_command(look.facts.python, {"-U", "torch"}),
                           text("a newer PyTorch includes a newer Triton")});
    return;
  }
}

/// The library from the system, with a name that starts with `begin`, that TensorFlow loads.
/// Returns nullptr if its full version is unknown.
const CudaLibrary* taken(Examination& look, const std::string& begin) {
  const auto* all = look.see_whole(look.facts.python.libraries);
  if (all == nullptr) return nullptr;
  for (const CudaLibrary& one : *all) {
    if (!one.name.starts_with(begin) || one.from == CudaLibrary::From::kConda) continue;
    // Skip wheels (LIB07 and LIB08 check them) and files whose version is unknown.
    const bool told = one.from != CudaLibrary::From::kWheel && version_of(one.version).size() >= 3;
    return told ? &one : nullptr;
  }
  return nullptr;
}

void older_than_tested(Examination& look) {
  const auto package = look.facts.python.distribution("tensorflow");
  const Distribution* tensorflow = look.see(package);
  if (tensorflow == nullptr || is_aarch64(look.facts) ||
      conda_package(look, "tensorflow") != nullptr || seen_gpus(look).empty())
    return;
  for (const TensorflowRelease& row : look.knowledge.compatibility().tensorflow) {
    if (!in_range(tensorflow->version, row.version)) continue;
    const CudaLibrary* cuda = taken(look, "libcudart.so." + beginning(row.cuda, 1));
    if (cuda == nullptr || !is_older(beginning(cuda->version), row.cuda)) return;
    Finding& finding =
        look.found(text("TensorFlow {} was tested with CUDA {} and gets CUDA {} from the system",
                        tensorflow->version, row.cuda, beginning(cuda->version)));
    finding.evidence = {tensorflow->path,
                        cuda->folder + "/" + cuda->name + " (" + cuda->version + ")"};
    if (!is_older(tensorflow->version, "2.14"))
      finding.fix.push_back(
          {install_command(look.facts.python, {"tensorflow[and-cuda]==" + tensorflow->version}),
           text("installs the CUDA that this release was tested with, as wheels")});
    finding.fix.push_back(
        {"", text("install CUDA {} next to the other one and add its lib64 to LD_LIBRARY_PATH; an "
                  "older ptxas can compile XLA's code wrongly",
                  row.cuda)});
    return;
  }
}

constexpr auto kCompilersRules = std::to_array<Rule>({
    {"LIB11", Layer::kLibraries, Severity::kError, true,
     msgid("the driver's library where Triton does not search"), "", libcuda_for_triton},
    {"FW09", Layer::kFramework, Severity::kWarning, true,
     msgid("TensorFlow with an older CUDA than it was tested with"), "", older_than_tested},
    {"FW16", Layer::kFramework, Severity::kError, true,
     msgid("Numba without a CUDA compiler, or with one that is too new for the driver"), "",
     ptx_newer},
    {"FW22", Layer::kFramework, Severity::kError, true,
     msgid("a Triton whose assembler does not support the GPU"), "", ptxas_too_old},
    {"FW19", Layer::kFramework, Severity::kWarning, true,
     msgid("no suitable C compiler or no Python.h for run-time compilation"), "", host_compiler},
    {"FW27", Layer::kFramework, Severity::kWarning, true, msgid("a lock file of a finished build"),
     "", lock_left},
});

}  // namespace

std::span<const Rule> compiler_rules() {
  return kCompilersRules;
}

}  // namespace berth::doctor
