// Rules LIB04, LIB05, LIB12, LIB13: libraries that the loader finds, or does not find, when
// frameworks are imported.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/stated_build.hpp"
#include "doctor/rules/wheel_search.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

bool has_cudnn_wheel(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  return all == nullptr || std::any_of(all->begin(), all->end(), [](const Distribution& one) {
           return one.name.starts_with("nvidia-cudnn-cu");
         });
}

/// A fix that installs NVIDIA's wheels. If the package does not search in wheels, the fix also adds
/// their folders to LD_LIBRARY_PATH.
model::Fix wheels_for(Examination& look, const Distribution& one, const Opens& row) {
  std::vector<std::string> words;
  for (const std::string_view word : split(row.use, ' ')) words.emplace_back(word);
  model::Fix fix{install_command(look.facts.python, words),
                 text("installs CUDA's libraries as wheels")};
  if (searches_wheels(look, one.name, row.libraries.front()).how == WheelSearch::kAlways)
    return fix;
  const std::string site = one.path.substr(0, one.path.rfind('/'));
  std::vector<std::string> folders;
  for (const std::string& word : words)  // such as "nvidia-cublas-cu12"
    if (const std::size_t end = word.find("-cu1"); word.starts_with("nvidia-"))
      folders.push_back(site + "/nvidia/" + word.substr(7, end - 7) + "/lib");
  if (!folders.empty()) fix.command += "\n" + name_in_library_path(folders).command;
  return fix;
}

/// A fix that adds wheel folders to LD_LIBRARY_PATH, for all libraries that the package opens. If
/// one folder was missing, the package would fail at the next library.
model::Fix name_wheels_of(const Opens& row, const std::vector<CudaLibrary>& libraries) {
  std::vector<std::string> folders;
  for (const CudaLibrary& one : libraries)
    if (one.from == CudaLibrary::From::kWheel &&
        std::find(row.libraries.begin(), row.libraries.end(), one.name) != row.libraries.end())
      folders.push_back(one.folder);
  return name_in_library_path(folders);
}

/// Reports missing libraries that packages open by name. The files of these packages do not link to
/// the libraries.
void opened_by_name(Examination& look) {
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  if (libraries == nullptr || seen_gpus(look).empty()) return;
  const auto has = [&](const std::string& name) {
    return std::any_of(libraries->begin(), libraries->end(),
                       [&](const CudaLibrary& one) { return one.name == name; });
  };
  const auto finds = [&](const std::string& package, const std::string& name) {
    return std::any_of(libraries->begin(), libraries->end(), [&](const CudaLibrary& one) {
      return one.name == name && reaches(look, package, one);
    });
  };
  for (const Opens& row : look.knowledge.compatibility().opens) {
    const auto package = look.facts.python.distribution(row.package);
    const Distribution* one = look.see(package);
    if (row.without_number || one == nullptr || !in_range(one->version, row.versions) ||
        conda_package(look, row.package) != nullptr || (row.x86_only && is_aarch64(look.facts)))
      continue;
    const auto missing =
        std::find_if(row.libraries.begin(), row.libraries.end(),
                     [&](const std::string& name) { return !finds(row.package, name); });
    if (missing == row.libraries.end()) continue;
    // Skip this package: the wheel is installed, but its files were not recorded.
    if (row.with.empty() && has_cudnn_wheel(look) && !has(*missing)) continue;
    const auto wheel =
        std::find_if(libraries->begin(), libraries->end(),
                     [&](const CudaLibrary& other) { return other.name == *missing; });
    // Report nothing if PyTorch's build cannot be read. If it is a build for CUDA, PyTorch loads
    // the wheels' libraries first, and no library is missing.
    const auto& torch = look.facts.python.torch;
    if (torch.is_unreadable() || (torch && torch->cuda.is_unreadable())) return;
    Finding& finding = look.found(wheel == libraries->end()
                                      ? text("{} needs {}, which is missing", named(*one), *missing)
                                      : text("{} does not find {}: the library is in a wheel, "
                                             "where the loader does not search",
                                             named(*one), *missing));
    // The program also has a PyTorch for CUDA, so the package is probably meant to use the GPU.
    if (!torch_cuda(look).empty()) finding.severity = Severity::kError;
    finding.evidence.push_back(one->path);
    if (wheel != libraries->end()) {
      finding.evidence.push_back(text("found {}", wheel->path()));
      finding.fix.push_back(name_wheels_of(row, *libraries));
      finding.evidence.push_back(row.source);
      return;
    }
    for (const CudaLibrary& other : *libraries)
      if (other.name == row.with) finding.evidence.push_back(text("found {}", other.path()));
    if (has(row.with))
      finding.fix.push_back({install_command(look.facts.python, {"-U", row.use}),
                             text("the newest release is compiled for {}", row.with)});
    if (row.with.empty())
      finding.fix.push_back(wheels_for(look, *one, row));
    else
      finding.fix.push_back(
          {install_command(look.facts.python, {"nvidia-cudnn-cu12==8.9.7.29"}),
           text("or install the older library and add its folder to LD_LIBRARY_PATH")});
    finding.evidence.push_back(row.source);
    return;
  }
}

/// Reports packages that open libraries by names without a version. Only NVIDIA's development
/// packages have such files.
void opened_without_number(Examination& look) {
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  if (libraries == nullptr || seen_gpus(look).empty()) return;
  for (const Opens& row : look.knowledge.compatibility().opens) {
    const auto package = look.facts.python.distribution(row.package);
    const Distribution* one = look.see(package);
    if (!row.without_number || one == nullptr || !in_range(one->version, row.versions)) continue;
    std::vector<const CudaLibrary*> numbered;
    for (const std::string& name : row.libraries) {
      const CudaLibrary* other = nullptr;
      bool bare = false;
      for (const CudaLibrary& file : *libraries) {
        bare = bare || file.name == name;
        if (file.name.starts_with(name + ".")) other = &file;
      }
      if (!bare && other != nullptr) numbered.push_back(other);
    }
    if (numbered.empty()) continue;
    const auto bare_name = [](const CudaLibrary& file) {
      return file.name.substr(0, file.name.find(".so") + 3);
    };
    Finding& finding =
        look.found(text("{} opens {} by exactly that name, but only {} exists", named(*one),
                        bare_name(*numbered.front()), numbered.front()->path()));
    finding.evidence = {one->path, row.source};
    std::string links;
    for (const CudaLibrary* file : numbered)
      links += (links.empty() ? "sudo ln -s " : "\nsudo ln -s ") + pasted(file->name) + " " +
               pasted(file->folder + "/" + bare_name(*file));
    finding.fix.push_back(
        {links, text("for an image, put this into its Dockerfile, without sudo")});
    finding.fix.push_back({"", text("or use the CUDA image whose name ends with -devel")});
    return;
  }
}

/// Reports libraries that PyTorch's wheel requires and that are missing: PyTorch was installed
/// without its dependencies, or they were removed.
void torch_without_its_libraries(Examination& look) {
  const auto package = look.facts.python.distribution("torch");
  const Distribution* torch = look.see(package);
  const auto* all = look.see_whole(look.facts.python.distributions);
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  if (torch == nullptr || all == nullptr || libraries == nullptr || torch_cuda(look).empty() ||
      conda_package(look, "pytorch") != nullptr || seen_gpus(look).empty())
    return;
  const auto has = [&](std::string_view begin) {
    return std::any_of(libraries->begin(), libraries->end(),
                       [&](const CudaLibrary& one) { return one.name.starts_with(begin); });
  };
  for (const std::string& row : torch->needs) {
    const Requirement need = parse_requirement(row);
    const bool cudnn = need.name.starts_with("nvidia-cudnn-cu");
    if ((!cudnn && !need.name.starts_with("nvidia-cublas")) || need.exact.empty() ||
        need.marker.find("extra") != std::string::npos ||
        (is_aarch64(look.facts) && need.marker.find("x86_64") != std::string::npos))
      continue;
    if (look.facts.python.distribution(need.name) || has(cudnn ? "libcudnn.so" : "libcublas.so"))
      continue;
    Finding& finding = look.found(text("PyTorch {} requires {} {}, which is not installed",
                                       torch->version, need.name, need.exact));
    finding.evidence.push_back(torch->path + "/METADATA: " + row);
    const std::string tag(local_part(torch->version));
    finding.fix.push_back(torch_install(look, {"torch==" + torch->version},
                                        tag.starts_with("cu") ? tag : "",
                                        text("also installs the missing libraries")));
    return;
  }
}

/// Reports a missing DLA compiler, to which TensorRT's builds for Jetsons link. In JetPack 5 and 6,
/// this compiler is part of the driver, and containers get it from the host. JetPack 7 does not
/// have it.
void tensorrt_without_dla(Examination& look) {
  if (!look.facts.machine.is_jetson) return;
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  const auto package = look.facts.python.distribution("tensorrt");
  const Distribution* tensorrt = look.see(package);
  if (libraries == nullptr) return;
  const auto named_so = [&](std::string_view begin) {
    return std::find_if(libraries->begin(), libraries->end(),
                        [&](const CudaLibrary& one) { return one.name.starts_with(begin); });
  };
  const auto library = named_so("libnvinfer.so");
  if (library == libraries->end() || named_so("libnvdla_compiler.so") != libraries->end()) return;
  constexpr int kJetPack4 = 32, kJetPack5 = 34, kJetPack6 = 36;
  const int l4t = look.facts.machine.l4t.value_or(0);
  const bool made_for_jetpack =
      tensorrt != nullptr && local_part(tensorrt->version).starts_with("jp");
  // TensorRT before 8.2 for JetPack 4 is not reported, because some boards with JetPack 4 have no
  // DLA (deep learning accelerator).
  const bool has_accelerator =
      (l4t >= kJetPack5 && l4t <= kJetPack6) ||
      (l4t == kJetPack4 && tensorrt != nullptr && !is_older(tensorrt->version, "8.2"));
  if (!made_for_jetpack && !has_accelerator) return;
  Finding& finding = look.found(text(
      "TensorRT {} needs libnvdla_compiler.so from the Jetson's driver, but this file is missing",
      tensorrt == nullptr ? library->version : tensorrt->version));
  // Only information, because no package in this Python uses the image's TensorRT.
  if (tensorrt == nullptr) finding.severity = Severity::kInfo;
  finding.evidence.push_back(library->path());
  if (tensorrt != nullptr) finding.evidence.push_back(tensorrt->path);
  if (l4t != 0) finding.evidence.push_back(fmt::format("/etc/nv_tegra_release: R{}", l4t));
  if (l4t > kJetPack6) {
    finding.fix.push_back(
        {"", text("use an image made for this JetPack: since JetPack 7, the driver lacks this "
                  "file, and the TensorRT of such images does not need it")});
    return;
  }
  finding.fix.push_back({"sudo apt install nvidia-l4t-dla-compiler",
                         text("run this on the Jetson itself: containers that are started with "
                              "--runtime nvidia get the file from the Jetson")});
}

/// Reports a wheel from PyTorch's index that contains no CUDA libraries and does not require
/// NVIDIA's packages in its metadata. Installers that trust the metadata then install no CUDA
/// libraries.
void torch_without_any_library(Examination& look) {
  const auto package = look.facts.python.distribution("torch");
  const Distribution* torch = look.see(package);
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  const auto* own = look.see_whole(look.facts.python.torch_libraries);
  const std::string cuda = torch_cuda(look);
  if (torch == nullptr || libraries == nullptr || own == nullptr || cuda.empty() ||
      !local_part(torch->version).starts_with("cu") ||
      !look.facts.python.has_pytorchs_own_build() || conda_package(look, "pytorch") != nullptr ||
      seen_gpus(look).empty() || is_older(torch->version, "2.1"))
    return;
  // METADATA with only a few requirements may be incomplete, so it proves nothing.
  constexpr std::size_t kOwnNeeds = 5;
  if (torch->needs.size() < kOwnNeeds) return;
  if (std::any_of(torch->needs.begin(), torch->needs.end(),
                  [](const std::string& row) { return row.starts_with("nvidia-"); }))
    return;
  // Report this only if PyTorch's libraries include libtorch_cuda.so, so it is a build for CUDA,
  // and no CUDA library was found anywhere.
  if (std::find(own->begin(), own->end(), "libtorch_cuda.so") == own->end() ||
      std::any_of(libraries->begin(), libraries->end(), [](const CudaLibrary& one) {
        return one.name.starts_with("libcublas") || one.name.starts_with("libcudnn");
      }))
    return;
  Finding& finding =
      look.found(text("PyTorch {} has no CUDA libraries: its metadata names no NVIDIA packages, so "
                      "none were installed with it",
                      torch->version));
  finding.evidence = {
      torch->path + "/METADATA",
      text("not found in any wheel, in LD_LIBRARY_PATH or in the system's folders: {}",
           "libcublas.so, libcudnn.so")};
  finding.fix.push_back(
      {install_command(look.facts.python,
                       {"--force-reinstall", "torch==" + beginning(torch->version, 3)}),
       text("installs PyPI's wheel of the same release, whose metadata is complete; or install a "
            "build for another CUDA version, for example cu124")});
}

/// Reports a PyTorch whose CUDA version differs from the CUDA installed on the system, to which it
/// links. This happens on Jetsons, where each JetPack needs its own wheels. The file names show the
/// versions.
void built_for_other_cuda(Examination& look) {
  if (!look.facts.machine.is_jetson || seen_gpus(look).empty()) return;
  const std::string cuda = torch_cuda(look);
  const auto* own = look.see_whole(look.facts.python.torch_libraries);
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  if (cuda.empty() || own == nullptr || libraries == nullptr) return;
  const auto begins = [](std::string_view begin) {
    return [begin](const std::string& name) { return name.starts_with(begin); };
  };
  if (std::any_of(own->begin(), own->end(), begins("libcudart"))) return;
  const std::string wanted = runtime_name(cuda);
  const CudaLibrary* other = nullptr;
  for (const CudaLibrary& one : *libraries) {
    if (one.name == wanted) return;
    if (one.name.starts_with("libcudart.so.") && other == nullptr) other = &one;
  }
  const TorchBuild& torch = *look.facts.python.torch;
  // A missing CUDA is reported only in images for JetPack 4, which get CUDA from a host with the
  // same JetPack.
  if (other == nullptr && (container_kind(look).empty() || !is_older(cuda, "11"))) return;
  Finding& finding = look.found(
      other == nullptr
          ? text("PyTorch {} was built with CUDA {} and needs {}, which is missing", torch.version,
                 cuda, wanted)
          : text("PyTorch {} was built with CUDA {} and needs {}, but only {} is installed",
                 torch.version, cuda, wanted, other->name));
  finding.evidence = {torch.path + ": cuda = " + cuda};
  if (other != nullptr) finding.evidence.push_back(other->path());
  if (look.facts.machine.l4t)
    finding.evidence.push_back(fmt::format("/etc/nv_tegra_release: R{}", *look.facts.machine.l4t));
  if (other == nullptr)
    finding.fix.push_back({"docker run --runtime nvidia nvcr.io/nvidia/l4t-pytorch:TAG",
                           text("replace TAG with this machine's Jetson Linux release; such images "
                                "use the machine's CUDA")});
  else if (auto jetson = jetson_torch(look.knowledge.compatibility(), look.facts))
    finding.fix.push_back(*std::move(jetson));
}

/// Whether to skip this library: the package finds it without the loader, or FW11 and FW15 report
/// it in more detail.
bool is_brought(Examination& look, const LinkedLibrary& one) {
  if (one.package == "onnxruntime-gpu" || one.package == "cupy") return true;
  return !one.wheel.empty() &&
         searches_wheels(look, one.package, one.name).how == WheelSearch::kAlways;
}

void soname_missing(Examination& look) {
  opened_by_name(look);
  if (look.findings().empty()) opened_without_number(look);
  if (look.findings().empty()) torch_without_its_libraries(look);
  if (look.findings().empty()) torch_without_any_library(look);
  if (look.findings().empty()) tensorrt_without_dla(look);
  if (look.findings().empty()) built_for_other_cuda(look);
  const auto* all = look.see_whole(look.facts.imports.libraries);
  const auto& torch = look.facts.python.torch;
  // If AMD's ROCm wheels are installed, a PyTorch for ROCm loads their libraries first.
  const bool rocm = torch && torch->hip && !look.facts.python.distribution("rocm-sdk-core") &&
                    !look.facts.python.distribution("rocm");
  if (all == nullptr || all->empty() || (seen_gpus(look).empty() && !rocm)) return;
  std::vector<LinkedLibrary> missing;
  for (const LinkedLibrary& one : *all)
    if (!is_brought(look, one)) missing.push_back(one);
  if (missing.empty()) return;
  const LinkedLibrary& first = missing.front();
  Finding& finding = look.found(
      text("{} needs {}, but the loader finds no such file", first.needed_by, first.name));
  // If this package is not a framework, the frameworks still work, so the finding is less severe.
  constexpr auto kFrameworks = std::to_array<std::string_view>(
      {"torch", "jax", "tensorflow", "ctranslate2", "flash-attn", "bitsandbytes"});
  if (std::find(kFrameworks.begin(), kFrameworks.end(), first.package) == kFrameworks.end())
    finding.severity = Severity::kError;
  for (const LinkedLibrary& one : missing)
    finding.evidence.push_back(fmt::format("{} → {}: {}", one.needed_by, one.name, tr("missing")));
  finding.evidence.push_back(
      text("searched where the loader searches: LD_LIBRARY_PATH, /etc/ld.so.cache, the default "
           "folders"));
  finding.fix.push_back({"ldd " + pasted(first.needed_by) + " | grep -i 'not found'",
                         text("shows the missing libraries")});
  finding.fix.push_back(
      {"", text("this file needs libraries of the CUDA version for which it was built: install the "
                "build of its package for the CUDA version that is installed here")});
}

void symbol_missing(Examination& look) {
  const auto* all = look.see_whole(look.facts.imports.symbols);
  if (all == nullptr) return;
  for (const MissingSymbol& one : *all) {
    if (one.library.find("libc10") != std::string::npos) continue;  // FW06 reports these libraries
    const std::string library = one.library.substr(one.library.rfind('/') + 1);
    Finding& finding = look.found(text("{} loads {}, which lacks the symbol {}: the import fails",
                                       one.wanted_by, library, one.symbol));
    finding.evidence.push_back(one.by.empty()
                                   ? text("library in use: {}", one.taken)
                                   : text("library in use: {}, found by {}", one.taken, one.by));
    if (!one.should.empty()) finding.evidence.push_back(text("expected library: {}", one.should));
    if (one.by == "LD_LIBRARY_PATH") finding.fix.push_back(unset_library_path());
    if (!one.should.empty())
      finding.fix.push_back(
          {"export LD_LIBRARY_PATH=" + pasted(one.should.substr(0, one.should.rfind('/'))), ""});
    if (library.starts_with("libmkl")) {
      finding.evidence.emplace_back("https://github.com/pytorch/pytorch/issues/123097");
      finding.fix.insert(
          finding.fix.begin(),
          {look.facts.python.conda
               ? "conda install -p " + pasted(look.facts.python.prefix) + " 'mkl<2024.1'"
               : install_command(look.facts.python, {"mkl<2024.1"}),
           text("installs the last MKL release that has the symbols for PyTorch before 2.3")});
    }
    if (finding.fix.empty())
      finding.fix.push_back({install_command(look.facts.python, {"--force-reinstall", "torch"}),
                             text("installs the libraries that belong to this PyTorch; a package "
                                  "that pins an older library needs its own environment")});
  }
}

void libc_too_old(Examination& look) {
  const auto* all = look.see_whole(look.facts.imports.versions);
  if (all == nullptr || all->empty()) return;
  const MissingVersion& one = all->front();
  const bool system = one.taken.starts_with("/usr/lib") || one.taken.starts_with("/lib");
  Finding& finding = look.found(text("{} needs {}, which {} does not have: the import fails",
                                     one.wanted_by, one.version, one.taken));
  finding.evidence.push_back(one.by.empty()
                                 ? text("library in use: {}", one.taken)
                                 : text("library in use: {}, found by {}", one.taken, one.by));
  if (one.by == "LD_LIBRARY_PATH" || one.by == "LD_PRELOAD")
    finding.fix.push_back({"unset " + one.by, text("the loader then uses the system's library")});
  finding.fix.push_back(
      {"", system ? text("this system is too old for the wheel: use a newer system (for example in "
                         "a container image), or an older release of the package")
                  : text("put a newer library into the environment: conda install -c conda-forge "
                         "libstdcxx-ng")});
}

/// The version of the C library, from its file or from the release of the system; "" if unknown.
std::string libc_of(Examination& look) {
  if (const auto* own = look.see(look.facts.imports.libc)) return *own;
  const auto* system = look.see(look.facts.machine.system);
  if (system == nullptr) return "";
  for (const SystemLibc& row : look.knowledge.compatibility().system_libcs) {
    if (row.system != system->id) continue;
    // In a rolling release, the kernel's version shows how new the libc is. In a container, this
    // does not work, because the kernel belongs to the host.
    const std::string* kernel = look.see(look.facts.machine.kernel);
    if (row.kernel.empty() ? !system->version.empty() && !is_older(system->version, row.release)
                           : kernel != nullptr && !look.facts.machine.in_container &&
                                 !is_older(*kernel, row.kernel))
      return row.libc;
  }
  return "";
}

/// Whether the user has set the tunable that allows executable stacks, which glibc before 2.41
/// always allowed. If the tunable is repeated, the last value counts.
bool allows_executable_stacks(Examination& look) {
  const std::string tunables = variable_or_empty(look, "GLIBC_TUNABLES");
  constexpr std::string_view kName = "glibc.rtld.execstack=";
  std::string_view value;
  for (const std::string_view one : split(tunables, ':'))
    if (one.starts_with(kName)) value = one.substr(kName.size());
  return value == "2";
}

/// Reports libraries that require an executable stack: dlopen() of glibc 2.41 and newer rejects
/// them.
void stack_refused(Examination& look) {
  const std::string libc = libc_of(look);
  if (libc.empty() || is_older(libc, "2.41") || allows_executable_stacks(look)) return;
  const auto* files = look.see_whole(look.facts.imports.executable_stacks);
  const auto file_of = [&](const std::string& package) {
    std::string path;
    if (files != nullptr)
      for (const StackFile& one : *files)
        if (path.empty() && one.package == package) path = one.file;
    return path;
  };
  const auto tell = [&](const std::string& what, const std::string& where, const std::string& file,
                        const ExecutableStack* row) {
    Finding& finding = look.found(text(
        "{} requires an executable stack, which glibc {} refuses: the import fails", what, libc));
    finding.evidence = {
        where, row == nullptr ? "https://sourceware.org/glibc/wiki/Release/2.41" : row->source};
    if (row != nullptr && !row->use.empty())
      finding.fix.push_back({install_command(look.facts.python, {row->use}),
                             text("installs a release that does not require an executable stack")});
    if (!file.empty())
      finding.fix.push_back({"patchelf --clear-execstack " + pasted(file),
                             text("removes the requirement, which the file has by mistake")});
    if (finding.fix.empty())
      finding.fix.push_back(
          {"", text("use a newer release, or a system or image with an older C library")});
  };
  const auto& rows = look.knowledge.compatibility().executable_stacks;
  for (const ExecutableStack& row : rows) {
    const auto package = look.facts.python.distribution(row.package);
    const Distribution* one = look.see(package);
    if (one == nullptr || !in_range(one->version, row.versions) ||
        !local_part(one->version).starts_with(row.tag) ||
        conda_package(look, row.package) != nullptr)
      continue;
    // Skip a package if its files could be read and none requires an executable stack, because the
    // user has removed the flag.
    const auto& codes = look.facts.imports.codes.value_or({});
    const std::string file = file_of(row.package);
    if (files != nullptr && file.empty() &&
        std::any_of(codes.begin(), codes.end(),
                    [&](const PackageCode& code) { return code.package == row.package; }))
      continue;
    return tell(named(*one), one->path, file, &row);
  }
  if (files != nullptr && !files->empty())
    tell(files->front().package, files->front().file, files->front().file, nullptr);
}

constexpr auto kImportsRules = std::to_array<Rule>({
    {"LIB04", Layer::kLibraries, Severity::kFatal, true,
     msgid("a missing library that a framework needs"), "", soname_missing},
    {"LIB05", Layer::kLibraries, Severity::kFatal, true,
     msgid("a library without a required symbol"), "LIB08 LIB09", symbol_missing},
    {"LIB12", Layer::kLibraries, Severity::kFatal, true,
     msgid("a C or C++ library that is too old for a framework"), "", libc_too_old},
    {"LIB13", Layer::kLibraries, Severity::kFatal, true,
     msgid("a library that requires an executable stack"), "", stack_refused},
});

}  // namespace

std::span<const Rule> import_rules() {
  return kImportsRules;
}

}  // namespace berth::doctor
