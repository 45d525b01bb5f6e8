// Rule FW06: packages that were compiled for another release of PyTorch than the installed one.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/stated_build.hpp"

namespace berth::doctor {
namespace {

/// The PyTorch release for which an extension was compiled, and the evidence for it.
struct BuiltFor {
  std::string torch;  // "2.2"; "" if unknown
  std::string because;
  bool other_abi = false;
};

/// Whether this PyTorch uses the new C++ ABI. Wheels from PyTorch's index use the old ABI before
/// 2.6 and the new one since 2.7. In 2.6, only the build for CUDA 12.6 uses the new ABI.
bool has_new_abi(const std::string& torch) {
  if (in_range(torch, "2.6")) return local_part(torch).starts_with("cu126");
  return !is_older(torch, "2.6");
}

/// Gets the PyTorch release from the wheel's address: "…+cu122torch2.2cxx11abiTRUE-cp310-…whl".
BuiltFor by_url(const Distribution& one, const std::string& torch) {
  const std::size_t at = one.url.rfind("torch");
  const std::size_t abi = one.url.rfind("cxx11abi");
  if (at == std::string::npos || abi == std::string::npos || abi < at) return {};
  const bool new_abi = one.url.compare(abi + 8, 4, "TRUE") == 0;
  return {beginning(std::string_view(one.url).substr(at + 5)),
          one.path + "/direct_url.json: " + one.url, new_abi != has_new_abi(torch)};
}

/// Gets the PyTorch release from the local version of PyG's packages: "2.4" for torch-scatter
/// 2.1.2+pt24cu124.
BuiltFor by_version(const Distribution& one) {
  // The release numbers of intel-extension-for-pytorch are those of PyTorch.
  if (one.name == "intel-extension-for-pytorch") return {beginning(one.version), one.path};
  const std::string_view tag = local_part(one.version);
  const std::size_t end = tag.find_first_not_of("0123456789", 2);
  if (!tag.starts_with("pt") || end == std::string_view::npos || end < 4 || end > 5) return {};
  if (!tag.substr(end).starts_with("cu") && !tag.substr(end).starts_with("cpu")) return {};
  return {fmt::format("{}.{}", tag[2], tag.substr(3, end - 3)), one.path};
}

/// Gets the PyTorch release from the build name of conda's packages: "2.4" for
/// pytorch-scatter-2.1.2-py310_torch_2.4.0_cu124.
BuiltFor by_conda(const CondaPackage& one) {
  constexpr std::string_view kMark = "_torch_";
  const std::size_t at = one.build.find(kMark);
  if (at == std::string::npos) return {};
  return {beginning(std::string_view(one.build).substr(at + kMark.size())), one.path};
}

/// Gets the PyTorch release from xformers' record of the PyTorch that compiled it. Since xformers
/// 0.0.33, one build supports several releases of PyTorch.
BuiltFor by_stated_build(Examination& look, const Distribution& one) {
  const PackageBuild* build = stated_build(look, one.name);
  if (build == nullptr || build->torch.empty() || !is_older(one.version, "0.0.33")) return {};
  return {beginning(build->torch), text("{}: built with PyTorch {}", build->path, build->torch)};
}

/// Gets the PyTorch release from the requirement "torch==". Only for packages whose releases are
/// each compiled for exactly one PyTorch.
BuiltFor by_pin(const Distribution& one) {
  if (one.name != "xformers" && one.name != "vllm" && one.name != "torchtext" &&
      one.name != "torch-tensorrt")
    return {};
  for (const std::string& row : one.needs)
    if (const Requirement need = parse_requirement(row); need.name == "torch")
      return {beginning(need.exact), one.path + "/METADATA: " + row};
  return {};
}

/// PyPI's name of a conda package: torch-scatter for conda's pytorch-scatter.
std::string name_on_pypi(const std::string& name) {
  constexpr auto kOfConda = std::to_array<std::string_view>(
      {"pytorch-scatter", "pytorch-sparse", "pytorch-cluster", "pytorch-spline-conv"});
  return std::find(kOfConda.begin(), kOfConda.end(), name) == kOfConda.end()
             ? name
             : "torch" + name.substr(7);
}

/// Whether the package is published as compiled binaries. Each of its releases is then for one
/// release of PyTorch. Users usually compile other packages themselves.
bool is_published_compiled(std::string_view name) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"xformers", "vllm", "torchtext", "torch-tensorrt", "intel-extension-for-pytorch"});
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// The exact version of `name` that a package requires: "==2.6.0"; "" if it requires no exact
/// version.
std::string pin_of(const Distribution& one, std::string_view name) {
  for (const std::string& row : one.needs)
    if (const Requirement need = parse_requirement(row);
        need.name == name && !need.exact.empty() && need.marker.find("extra") == std::string::npos)
      return "==" + need.exact;
  return "";
}

/// The pip requirements for the PyTorch for which an extension was built, and for the matching
/// torchvision and torchaudio.
std::vector<std::string> torch_of(const PythonFacts& python, const Distribution& one,
                                  const BuiltFor& built) {
  const std::string pin = pin_of(one, "torch");
  std::vector<std::string> words{"torch" + (pin.empty() ? "==" + built.torch + ".*" : pin)};
  for (const std::string name : {"torchvision", "torchaudio"})
    if (const std::string own = pin_of(one, name); !own.empty() || python.distribution(name))
      words.push_back(name + own);
  return words;
}

/// Returns false if the tables show that PyTorch `release`, in its build for `cuda`, has no kernels
/// for an installed GPU; otherwise true. If `cuda` is "", the build on PyPI is meant.
bool serves_gpus(Examination& look, const std::string& release, std::string cuda) {
  const Compatibility& known = look.knowledge.compatibility();
  for (const TorchRelease& row : known.torch)
    if (cuda.empty() && row.version == release)
      cuda = !row.pypi.empty() ? row.pypi : row.cuda.empty() ? "" : row.cuda.back();
  const auto gpus = seen_gpus(look);
  return std::none_of(gpus.begin(), gpus.end(), [&](const SeenGpu& gpu) {
    return !gpu.capability.empty() && torch_kernels(known, release, cuda, is_aarch64(look.facts),
                                                    gpu.capability) == Kernels::kLacks;
  });
}

/// Suggests the PyTorch for which the extension was built, if it supports the installed GPUs. Also
/// suggests updating the extension.
void advise_its_torch(Examination& look, Finding& finding, const Distribution& one,
                      const BuiltFor& built) {
  const std::string tag(local_part(one.version)), cuda = cuda_of_tag(tag);
  if (serves_gpus(look, built.torch, cuda))
    finding.fix.push_back(
        torch_install(look, torch_of(look.facts.python, one, built), cuda.empty() ? "" : tag,
                      text("reinstalls the PyTorch that {} was built for", named(one))));
  finding.fix.push_back({install_command(look.facts.python, {"-U", one.name}),
                         text("installs the package's newest release and the matching PyTorch; or "
                              "install its release for PyTorch {} (see its page on PyPI)",
                              beginning(look.facts.python.torch->version))});
}

/// Suggests the successor of a package that is no longer maintained, because it may never have a
/// release for this PyTorch.
void advise_successor(Examination& look, Finding& finding, const std::string& package) {
  for (const Successor& row : look.knowledge.compatibility().successors) {
    if (row.package != package) continue;
    finding.evidence.push_back(row.source);
    finding.fix.insert(finding.fix.begin(),
                       {uninstall_command(look.facts.python, {row.package}) + "\n" +
                            install_command(look.facts.python, {"--no-build-isolation", row.use}),
                        text("{} is no longer updated for new PyTorch releases: {} replaces it, "
                             "and programs may have to import that name",
                             row.package, row.use)});
  }
}

void extension_built_for(Examination& look, const std::string& name, const std::string& shown,
                         const BuiltFor& built, const Distribution* compiled = nullptr) {
  const std::string& torch = look.facts.python.torch->version;
  if (built.torch.empty() || (built.torch == beginning(torch) && !built.other_abi)) return;
  Finding& finding =
      look.found(text("{} was not built for the installed PyTorch {}", shown, torch));
  finding.evidence.push_back(built.because);
  if (compiled != nullptr)
    advise_its_torch(look, finding, *compiled, built);
  else
    finding.fix.push_back(
        {install_command(look.facts.python, {"--force-reinstall", "--no-deps",
                                             "--no-build-isolation", name_on_pypi(name)}),
         text("or use the wheel with torch{} and cxx11abi{} in its name", beginning(torch),
              is_older(torch, "2.7") ? "FALSE" : "TRUE")});
  advise_successor(look, finding, name);
}

/// Reports an extension for another CUDA major version than PyTorch's (+cu118 with CUDA 12). The
/// two need different CUDA runtimes.
void extension_of_other_cuda(Examination& look, const std::vector<Distribution>& all) {
  const Version torch = version_of(torch_cuda(look));
  if (torch.empty()) return;
  for (const Distribution& one : all) {
    const std::string cuda = cuda_in_tag(local_part(one.version));
    if (cuda.empty() || !is_torch_extension(one.name) || one.name.starts_with("torchvision") ||
        one.name.starts_with("torchaudio") || version_of(cuda)[0] == torch[0])
      continue;
    Finding& finding =
        look.found(text("{} was built for CUDA {}, and PyTorch {} is built for CUDA {}", named(one),
                        cuda, look.facts.python.torch->version, torch_cuda(look)));
    finding.evidence = {one.path, look.facts.python.torch->path};
    finding.fix.push_back({"", text("install its build for the CUDA of this PyTorch ({})",
                                    tag_of_cuda(torch_cuda(look)))});
    return;
  }
}

void extension_symbols(Examination& look) {
  const auto* symbols = look.see_whole(look.facts.imports.symbols);
  if (symbols == nullptr || !look.facts.python.torch) return;
  for (const MissingSymbol& one : *symbols) {
    if (one.library.find("libc10") == std::string::npos) continue;
    const std::string& torch = look.facts.python.torch->version;
    Finding& finding =
        look.found(text("{} was not built for the installed PyTorch {}", one.wanted_by, torch));
    finding.evidence.push_back(text("no library of this PyTorch has the symbol {}", one.symbol));
    finding.evidence.push_back(one.taken);
    finding.fix.push_back({"", text("install the package's release for PyTorch {}, or build the "
                                    "package here with --no-build-isolation",
                                    beginning(torch))});
    return;
  }
}

/// Whether the extension was compiled with another C++ ABI than PyTorch. Names of c10 functions
/// with a std::string parameter show the ABI.
bool is_of_other_abi(const PythonFacts& python, const std::string& symbol) {
  constexpr std::string_view kError = "_ZN3c105ErrorC";
  if (!symbol.starts_with(kError) || !python.has_pytorchs_own_build() ||
      python.torch->version.find('+') == std::string::npos)
    return false;
  const std::string& torch = python.torch->version;
  if (symbol.find("__cxx1112basic_string") != std::string::npos) return !has_new_abi(torch);
  return symbol.ends_with("ESs") && has_new_abi(torch);
}

/// For facts that were recorded without PyTorch's own libraries. Looks up an extension's symbols in
/// a table of the PyTorch releases that lack them.
void extension_symbols_by_release(Examination& look) {
  const auto* symbols = look.see_whole(look.facts.imports.torch_symbols);
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (symbols == nullptr || torch == nullptr) return;
  for (const WantedSymbol& one : *symbols) {
    const auto& rows = look.knowledge.compatibility().torch_symbols;
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const TorchSymbol& known) {
      return known.symbol == one.symbol && in_range(torch->version, known.lacks);
    });
    const bool other_abi = is_of_other_abi(look.facts.python, one.symbol);
    if (row == rows.end() && !other_abi) continue;
    Finding& finding = look.found(
        text("{} was not built for the installed PyTorch {}", one.wanted_by, torch->version));
    finding.evidence.push_back(
        other_abi ? text("the extension needs the symbol {}, which belongs to the other C++ ABI",
                         one.symbol)
                  : text("this release of PyTorch has no symbol {}", one.symbol));
    finding.evidence.push_back(torch->path);
    if (row != rows.end()) finding.evidence.push_back(row->source);
    finding.fix.push_back(
        {install_command(look.facts.python,
                         {"--force-reinstall", "--no-deps", "--no-build-isolation", one.package}),
         text("compiles the package for this PyTorch; or install its release for PyTorch {}",
              beginning(torch->version))});
    advise_successor(look, finding, one.package);
    return;
  }
}

/// Reports extensions that link to a library that this PyTorch does not have. PyTorch's libraries
/// differ between releases: libtorch_cpu.so exists since 1.5, libtorch_cuda_cu.so only in 1.9 to
/// 1.12.
void extension_links(Examination& look) {
  const auto* links = look.see_whole(look.facts.imports.torch_links);
  const auto* own = look.see_whole(look.facts.python.torch_libraries);
  if (links == nullptr || own == nullptr || !look.facts.python.torch ||
      std::find(own->begin(), own->end(), "libc10.so") == own->end())
    return;
  for (const LinkedLibrary& one : *links) {
    if (std::find(own->begin(), own->end(), one.name) != own->end()) continue;
    const TorchBuild& torch = *look.facts.python.torch;
    Finding& finding = look.found(
        text("{} was not built for the installed PyTorch {}", one.needed_by, torch.version));
    finding.evidence = {
        text("the package links to {}, a library that this PyTorch does not have", one.name),
        torch.path};
    finding.fix.push_back({"", text("install the package's release for PyTorch {}, or build the "
                                    "package here with --no-build-isolation",
                                    beginning(torch.version))});
    advise_successor(look, finding, one.package);
    return;
  }
}

void extension_build(Examination& look) {
  extension_symbols(look);
  if (look.findings().empty()) extension_links(look);
  if (look.findings().empty()) extension_symbols_by_release(look);
  if (!look.findings().empty()) return;
  const TorchBuild* torch = look.see(look.facts.python.torch);
  const auto* distributions = look.see(look.facts.python.distributions);
  if (torch == nullptr || distributions == nullptr) return;
  for (const Distribution& one : *distributions) {
    BuiltFor built = by_url(one, torch->version);
    if (built.torch.empty()) built = by_version(one);
    if (built.torch.empty()) built = by_stated_build(look, one);
    if (built.torch.empty()) built = by_pin(one);
    extension_built_for(look, one.name, named(one), built,
                        is_published_compiled(one.name) ? &one : nullptr);
  }
  if (const auto& conda = look.facts.python.conda)
    for (const CondaPackage& one : *conda)
      extension_built_for(look, one.name, one.name + " " + one.version, by_conda(one));
  if (look.findings().empty()) extension_of_other_cuda(look, *distributions);
  static_cast<void>(look.see(look.facts.imports.torch_extensions));
}

constexpr auto kExtensionsRules = std::to_array<Rule>({
    {"FW06", Layer::kFramework, Severity::kFatal, true, msgid("an extension for another PyTorch"),
     "", extension_build},
});

}  // namespace

std::span<const Rule> extension_rules() {
  return kExtensionsRules;
}

}  // namespace berth::doctor
