// Rules FW25, FW26: packages whose releases are incompatible, and packages that are incomplete or
// have a misleading name. The packages and sources are in data/compat.toml.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether the package is from conda. conda builds packages for each release of their dependencies,
/// and its solver keeps them compatible.
bool is_condas(Examination& look, const std::string& package) {
  return conda_package(look, package == "torch" ? "pytorch" : package) != nullptr;
}

/// Whether the package is from the Linux distribution, which also keeps its packages compatible.
bool is_distributions(const Distribution& one) {
  return one.path.starts_with("/usr/lib/python3") || one.path.starts_with("/usr/lib64/python3");
}

/// The requirement of `one` that the version of `other` violates: "numpy<2.2,>=1.24"; "" if there
/// is none. Requirements with a condition are ignored.
std::string unmet_need(const Distribution& one, const Distribution& other) {
  for (const std::string& row : one.needs) {
    const Requirement need = parse_requirement(row);
    if (need.name == other.name && need.marker.empty() && !allows(need.range, other.version))
      return row;
  }
  return "";
}

/// Whether this is a nightly build ("2.10.0.dev20251101") or a build from a source checkout
/// ("0.9.0a0+8d1c4a2"). The date of such a build determines with which releases it is compatible,
/// but the tables have no dates.
bool is_before_release(const Distribution& one) {
  const std::string number = one.version.substr(0, one.version.find('+'));
  return number.find(".dev") != std::string::npos || number.ends_with("a0");
}

/// The part of the version that must be the same in both packages.
std::string common_part(const PackagePair& row, const Distribution& one) {
  return row.same == "minor" ? beginning(one.version)
                             : one.version.substr(0, one.version.find('+'));
}

bool is_clash(const PackagePair& row, const Distribution& one, const Distribution& other) {
  if (is_before_release(one) && is_before_release(other)) return false;
  const bool is_fixed = !row.good.empty() || !row.same.empty();
  if (is_fixed && (is_before_release(one) || is_before_release(other))) return false;
  if (!row.versions.empty() && !in_range(one.version, row.versions)) return false;
  if (!row.bad.empty()) return in_range(other.version, row.bad);
  if (!row.good.empty()) return !in_range(other.version, row.good);
  if (!row.same.empty()) return common_part(row, one) != common_part(row, other);
  return !unmet_need(one, other).empty();
}

/// Whether the user has set the variable in `unless`, which avoids the incompatibility.
bool is_kept_apart(Examination& look, const PackagePair& row) {
  if (row.unless.empty()) return false;
  const std::size_t equals = row.unless.find('=');
  const std::string value = variable_or_empty(look, row.unless.substr(0, equals).c_str());
  return equals == std::string::npos ? !value.empty() : value == row.unless.substr(equals + 1);
}

/// What to install. If the row has `use`, that. If not: a release of `one` that is compatible with
/// the installed `other`, or what `one` requires. An installed PyTorch keeps its version, and pip
/// chooses a compatible release of the other package.
std::vector<std::string> wanted_of(Examination& look, const PackagePair& row,
                                   const Distribution& one, const Distribution& other) {
  if (!row.use.empty()) return {row.use};
  if (!row.same.empty())
    return {row.package + "==" + common_part(row, other) + (row.same == "minor" ? ".*" : "")};
  if (row.good.empty() && other.name == "torch")
    return {row.package, "torch==" + other.version.substr(0, other.version.find('+'))};
  if (row.good.empty()) {
    const Requirement need = parse_requirement(unmet_need(one, other));
    return {need.name + need.range};
  }
  for (const PackagePair& fit : look.knowledge.compatibility().pairs)
    if (fit.package == row.package && fit.with == row.with && !fit.good.empty() &&
        in_range(other.version, fit.good))
      return {fit.versions.ends_with('-')
                  ? fmt::format("{}>={}", row.package, beginning(fit.versions))
                  : fmt::format("{}=={}.*", row.package, fit.versions)};
  return {};
}

void wrong_pairs(Examination& look) {
  std::vector<std::string> told;
  for (const PackagePair& row : look.knowledge.compatibility().pairs) {
    const auto package = look.facts.python.distribution(row.package);
    const auto partner = look.facts.python.distribution(row.with);
    const Distribution *one = look.see(package), *other = look.see(partner);
    if (one == nullptr || other == nullptr || look.facts.python.conda.is_unreadable() ||
        is_condas(look, row.package) || is_condas(look, row.with) || !is_clash(row, *one, *other) ||
        std::find(told.begin(), told.end(), one->name) != told.end() || is_kept_apart(look, row))
      continue;
    // Skip packages that are built together, by a distribution or in one of NVIDIA's images.
    if ((is_distributions(*one) && is_distributions(*other)) ||
        (row.package == "torch" && !look.facts.python.has_pytorchs_own_build()))
      continue;
    told.push_back(one->name);
    Finding& finding = look.found(
        text("{} is not compatible with {}: {}", named(*one), named(*other), tr(row.what.c_str())));
    finding.evidence = {one->path, other->path};
    if (row.bad.empty() && row.good.empty() && row.same.empty())
      finding.evidence.push_back(one->path + "/METADATA: " + unmet_need(*one, *other));
    finding.evidence.push_back(row.source);
    // Keep the version of one of the two packages. The newest releases of both could include a
    // newer PyTorch, which may need a newer driver.
    const auto wanted = wanted_of(look, row, *one, *other);
    if (wanted.empty())
      finding.fix.push_back(
          {uninstall_command(look.facts.python, {row.package}),
           text("no release of this package is compatible with {}", named(*other))});
    else
      finding.fix.push_back(
          {install_command(look.facts.python, wanted),
           text("installs the release that is compatible with the other package")});
  }
}

/// Reports an MMCV without compiled operators, which packages for detection and segmentation need.
void mmcv_without_operators(Examination& look) {
  const auto* folders = look.see_whole(look.facts.parts.folders);
  if (folders == nullptr) return;
  const auto files = folders->find("mmcv");
  if (files == folders->end() ||
      std::any_of(files->second.begin(), files->second.end(),
                  [](const std::string& name) { return name.starts_with("_ext"); }))
    return;
  for (const char* name : {"mmdet", "mmsegmentation", "mmdet3d", "mmpose", "mmrotate", "mmocr"}) {
    const auto package = look.facts.python.distribution(name);
    const auto full = look.facts.python.distribution("mmcv-full");
    const auto plain = look.facts.python.distribution("mmcv");
    const Distribution* user = look.see(package);
    const Distribution* mmcv = full ? look.see(full) : look.see(plain);
    if (user == nullptr || mmcv == nullptr) continue;
    Finding& finding =
        look.found(text("{} lacks the compiled operators that {} needs: the import fails",
                        named(*mmcv), named(*user)));
    const std::string folder = mmcv->path.substr(0, mmcv->path.rfind('/'));
    finding.evidence = {fmt::format("{}/mmcv/_ext*.so: {}", folder, tr("missing")), user->path,
                        "https://github.com/open-mmlab/mmcv/issues/204"};
    finding.fix.push_back(
        {uninstall_command(look.facts.python, {"mmcv", "mmcv-full", "mmcv-lite"}) + "\n" +
             install_command(look.facts.python, {"openmim"}) + "\n" +
             look.facts.python.interpreter.value_or("python3") + " -m mim install " +
             (is_older(mmcv->version, "2") ? "mmcv-full==" + mmcv->version : "mmcv"),
         text("installs a build for this PyTorch and CUDA if there is one; otherwise compiles the "
              "package, which needs nvcc")});
    return;
  }
}

/// Reports a DGL without a library for the installed PyTorch. DGL has one library for each
/// supported release of PyTorch, and loads it by name.
void dgl_for_other_torch(Examination& look) {
  const auto* folders = look.see_whole(look.facts.parts.folders);
  const TorchBuild* torch = look.see(look.facts.python.torch);
  const auto package = look.facts.python.distribution("dgl");
  const Distribution* dgl = look.see(package);
  if (folders == nullptr || torch == nullptr || dgl == nullptr) return;
  const auto files = folders->find("dgl/graphbolt");
  if (files == folders->end()) return;
  constexpr std::string_view kBegin = "libgraphbolt_pytorch_";
  std::string newest;
  for (const std::string& name : files->second) {
    if (!name.starts_with(kBegin) || !name.ends_with(".so")) continue;
    const std::string release = name.substr(kBegin.size(), name.size() - kBegin.size() - 3);
    if (version_of(release) == version_of(torch->version)) return;
    if (newest.empty() || is_older(newest, release)) newest = release;
  }
  if (newest.empty()) return;
  Finding& finding = look.found(
      text("{} has no library for PyTorch {}: the import fails", named(*dgl), torch->version));
  finding.evidence = {text("found {}", fmt::format("{}{}.so", kBegin, newest)), torch->path,
                      "https://github.com/dmlc/dgl/issues/7822"};
  if (!is_older("2.4", beginning(torch->version)) && torch->cuda)
    finding.fix.push_back(
        {install_command(look.facts.python, {"--force-reinstall", "--no-deps", "dgl"},
                         fmt::format("-f https://data.dgl.ai/wheels/torch-{}/{}/repo.html",
                                     beginning(torch->version), tag_of_cuda(*torch->cuda))),
         text("installs DGL's build for this release of PyTorch")});
  finding.fix.push_back({install_command(look.facts.python, {"torch==" + newest}),
                         text("installs the newest PyTorch that this DGL supports")});
}

void not_as_named(Examination& look) {
  for (const KnownBad& row : look.knowledge.compatibility().known_bad) {
    // Rules FW10 and FW11 report these packages.
    if (row.package == "jax" || row.package.starts_with("cupy")) continue;
    const auto package = look.facts.python.distribution(row.package);
    const Distribution* one = look.see(package);
    if (one == nullptr || one->version != row.version || !look.facts.python.torch) continue;
    Finding& finding = look.found(
        text("{} is a release with a known fault: {}", named(*one), tr(row.what.c_str())));
    finding.severity = Severity::kWarning;
    finding.evidence = {one->path, row.source};
    finding.fix.push_back(
        {uninstall_command(look.facts.python, {row.package}) + "\n" +
             install_command(look.facts.python, {"--no-build-isolation", row.use}),
         text("or use torch.amp, which is part of PyTorch and does the same")});
  }
}

/// Reports missing FFmpeg libraries, which TorchCodec up to 0.17 always needs. Its wheels do not
/// contain them.
void torchcodec_without_ffmpeg(Examination& look) {
  const auto package = look.facts.python.distribution("torchcodec");
  const Distribution* one = look.see(package);
  const auto* libraries = look.see_whole(look.facts.python.libraries);
  if (one == nullptr || libraries == nullptr || !is_older(one->version, "0.17") ||
      is_condas(look, "torchcodec") ||
      std::any_of(libraries->begin(), libraries->end(), [](const CudaLibrary& library) {
        return library.name.starts_with("libavutil.so.");
      }))
    return;
  Finding& finding = look.found(
      text("{} needs FFmpeg's libraries, which are not installed: Could not load libtorchcodec",
           named(*one)));
  finding.severity = Severity::kWarning;
  finding.evidence = {
      one->path,
      text("not found in LD_LIBRARY_PATH or in the system's folders: {}", "libavutil.so.*"),
      "https://github.com/meta-pytorch/torchcodec/issues/998"};
  if (look.facts.python.is_conda)
    finding.fix.push_back({fmt::format("conda install -p {} -c conda-forge 'ffmpeg<8'",
                                       pasted(look.facts.python.prefix)),
                           ""});
  else
    finding.fix.push_back(
        {"sudo apt-get install ffmpeg", text("the package may have another name on this system; a "
                                             "static build of FFmpeg has no shared libraries")});
}

void not_whole(Examination& look) {
  mmcv_without_operators(look);
  torchcodec_without_ffmpeg(look);
  dgl_for_other_torch(look);
  not_as_named(look);
}

constexpr auto kPairsRules = std::to_array<Rule>({
    {"FW25", Layer::kFramework, Severity::kError, true,
     msgid("packages with incompatible releases"), "", wrong_pairs},
    {"FW26", Layer::kFramework, Severity::kError, true,
     msgid("a package without its compiled parts, or another package of the same name"), "",
     not_whole},
});

}  // namespace

std::span<const Rule> pair_rules() {
  return kPairsRules;
}

}  // namespace berth::doctor
