// Rules LIB03, LIB06 to LIB10: problems with CUDA libraries that packages contain.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/cuda_compilers.hpp"
#include "doctor/rules/cuda_uses.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/requirement.hpp"
#include "doctor/rules/wheel_search.hpp"

namespace berth::doctor {
namespace {

using From = CudaLibrary::From;

/// The name of a wheel without its suffix, and the CUDA major version in the suffix:
/// {"nvidia-nccl", 12} for "nvidia-nccl-cu12". The version is 0 for other packages.
std::pair<std::string, int> wheel_of(const std::string& name) {
  const std::size_t at = name.rfind("-cu");
  if (!name.starts_with("nvidia-") || at == std::string::npos) return {};
  const Version major = version_of(std::string_view(name).substr(at + 3));
  return {name.substr(0, at), major.empty() ? 0 : major[0]};
}

struct Doubled {
  std::map<int, std::vector<Distribution>> by_major;
  std::set<std::string> libraries;
};

/// Finds wheels of the same library for different CUDA major versions, which overwrite each other's
/// files.
Doubled doubled_wheels(const std::vector<Distribution>& all) {
  std::map<std::pair<std::size_t, std::string>, std::map<int, Distribution>> groups;
  for (const Distribution& one : all)
    if (const auto [base, major] = wheel_of(one.name); major != 0)
      groups[{one.entry, base}].emplace(major, one);
  Doubled out;
  for (const auto& [key, majors] : groups) {
    if (majors.size() < 2) continue;
    out.libraries.insert(key.second.substr(7));
    for (const auto& [major, one] : majors) out.by_major[major].push_back(one);
  }
  return out;
}

/// The CUDA major version whose wheels to keep: that of an installed framework, or else the newest
/// that the driver supports.
int major_to_keep(Examination& look, const Doubled& doubled) {
  for (const CudaUse& use : framework_uses(look))
    if (const Version cuda = version_of(use.cuda);
        !cuda.empty() && doubled.by_major.contains(cuda[0]))
      return cuda[0];
  const SeenDriver driver = nvidia_driver(look);
  int right = doubled.by_major.rbegin()->first;
  const std::string serves = driver.cuda.empty()
                                 ? look.knowledge.compatibility().cuda_of_branch(driver.version)
                                 : driver.cuda;
  if (const Version most = version_of(serves); !most.empty())
    for (const auto& [major, wheels] : doubled.by_major)
      if (major <= most[0] || major == doubled.by_major.begin()->first) right = major;
  return right;
}

void majors_mixed(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return;
  const Doubled doubled = doubled_wheels(*all);
  if (doubled.libraries.empty()) return;
  const int right = major_to_keep(look, doubled);
  std::vector<std::string> majors, remove, again;
  std::vector<std::string> evidence;
  for (const auto& [major, wheels] : doubled.by_major) {
    majors.push_back(std::to_string(major));
    for (const Distribution& one : wheels) {
      evidence.push_back(one.path);
      if (major == right) again.push_back(one.name + "==" + one.version);
    }
  }
  for (const Distribution& one : *all)
    if (const int major = wheel_of(one.name).second; major != 0 && major != right)
      if (doubled.by_major.contains(major)) remove.push_back(one.name);
  Finding& finding = look.found(
      text("wheels for CUDA {} are installed together and overwrite each other's files: {}",
           fmt::format("{}", fmt::join(majors, ", ")),
           fmt::format("{}", fmt::join(doubled.libraries, ", "))));
  finding.evidence = std::move(evidence);
  again.insert(again.begin(),
               {look.facts.python.has_uv ? "--reinstall" : "--force-reinstall", "--no-deps"});
  finding.fix.push_back(
      {uninstall_command(look.facts.python, remove) + "\n" +
           install_command(look.facts.python, again),
       text("keeps CUDA {}; the second command restores files that the first one removed", right)});
}

void pins_broken(Examination& look) {
  const auto package = look.facts.python.distribution("torch");
  const Distribution* torch = look.see(package);
  if (torch == nullptr) return;
  std::vector<std::string> wrong, again;
  for (const std::string& row : torch->needs) {
    const Requirement need = parse_requirement(row);
    if ((!need.name.starts_with("nvidia-") && need.name != "triton") || need.exact.empty() ||
        need.exact.find('*') != std::string::npos ||
        need.marker.find("extra") != std::string::npos ||
        (is_aarch64(look.facts) && need.marker.find("x86_64") != std::string::npos))
      continue;
    const auto has = look.facts.python.distribution(need.name);
    if (!has || has->version == need.exact) continue;
    wrong.push_back(
        text("{} is version {}, but version {} is needed", need.name, has->version, need.exact));
    again.push_back(need.name + "==" + need.exact);
  }
  if (wrong.empty()) return;
  Finding& finding =
      look.found(text_n("{} library of PyTorch {} is not the version that PyTorch requires",
                        "{} libraries of PyTorch {} are not the versions that PyTorch requires",
                        static_cast<long long>(wrong.size()), wrong.size(), torch->version));
  finding.evidence = std::move(wrong);
  finding.fix.push_back(
      {install_command(look.facts.python, again),
       text("if another package requires the present versions, it needs its own environment")});
}

bool has_library(Examination& look, const std::string& begin) {
  return !libraries_named(look, begin).empty();
}

std::string told(const CudaLibrary& one) {
  return one.folder + "/" + one.name + (one.version.empty() ? "" : " (" + one.version + ")");
}

/// A copy of a cuDNN library that is neither in this wheel's folder nor in another wheel; nullptr
/// if there is none.
const CudaLibrary* foreign(const std::vector<CudaLibrary>& all, const std::string& name,
                           const std::string& folder) {
  for (const CudaLibrary& one : all)
    if (one.name == name && one.folder != folder && one.from != From::kWheel) return &one;
  return nullptr;
}

void cudnn_of_wheel(Examination& look, const CudaLibrary& core, const Compatibility::Cudnn& row,
                    const std::vector<CudaLibrary>& all) {
  const auto has = [&](const std::string& name) {
    return std::any_of(all.begin(), all.end(), [&](const CudaLibrary& one) {
      return one.name == name && one.folder == core.folder;
    });
  };
  std::vector<std::string> missing, elsewhere;
  for (const std::string& name : row.libraries)
    if (!has(name)) missing.push_back(name);
  for (const std::string& name : row.newer)
    if (!has(name) && foreign(all, name, core.folder) != nullptr) missing.push_back(name);
  // A reinstallation adds only the files in the wheel's list. Other files are not missing.
  const auto& record = look.facts.python.cudnn_listed;
  if (const auto* listed = missing.empty() ? nullptr : look.see(record))
    std::erase_if(missing, [&](const std::string& name) {
      return std::find(listed->begin(), listed->end(), name) == listed->end();
    });
  for (const std::string& name : missing)
    if (const CudaLibrary* other = foreign(all, name, core.folder))
      elsewhere.push_back(told(*other));
  if (!missing.empty() && record.is_unreadable()) return;
  // If LD_LIBRARY_PATH has a copy of cuDNN, the loader takes sub-libraries from there, but libcudnn
  // itself from the wheel.
  const CudaLibrary* first = foreign(all, core.name, core.folder);
  const bool overridden = first != nullptr && first->from == From::kVariable;
  if (missing.empty() && !overridden) return;
  Finding& finding = look.found(
      missing.empty()
          ? text("two copies of cuDNN {} are mixed: the wheel's and the one in LD_LIBRARY_PATH",
                 row.major)
      : elsewhere.empty()
          ? text("the wheel of cuDNN {} is incomplete: {} is missing", row.major, missing.front())
          : text("two copies of cuDNN {} are mixed: the wheel lacks {}, "
                 "which is loaded from the system",
                 row.major, missing.front()));
  finding.evidence.push_back(told(core));
  if (overridden) finding.evidence.push_back(told(*first));
  finding.evidence.insert(finding.evidence.end(), elsewhere.begin(), elsewhere.end());
  const auto* packages = look.see(look.facts.python.distributions);
  for (const Distribution& one : packages == nullptr ? std::vector<Distribution>() : *packages)
    if (one.name.starts_with("nvidia-cudnn-cu"))
      finding.fix.push_back({install_command(look.facts.python, {"--force-reinstall", "--no-deps",
                                                                 one.name + "==" + one.version}),
                             text("installs a complete wheel")});
  if (overridden) finding.fix.insert(finding.fix.begin(), {"unset LD_LIBRARY_PATH", ""});
  if (!elsewhere.empty())
    finding.fix.push_back(on_system(look, "cudnn_remove",
                                    text("removes the system's copy: other programs may need it")));
}

void cudnn_mixed(Examination& look) {
  if (look.see_whole(look.facts.python.libraries) == nullptr) return;
  const auto all = libraries_named(look, "libcudnn");
  for (const Compatibility::Cudnn& row : look.knowledge.compatibility().cudnn)
    for (const CudaLibrary& one : all)
      if (one.from == From::kWheel && one.folder.ends_with("/nvidia/cudnn/lib") &&
          one.name == "libcudnn.so." + std::to_string(row.major))
        cudnn_of_wheel(look, one, row, all);
}

/// Reports a cuDNN in LD_LIBRARY_PATH or in the system that is too old. Skips files whose names
/// contain only the major version.
void other_cudnn_too_old(Examination& look, const std::string& who, const std::string& wanted) {
  for (const CudaLibrary& one : libraries_named(look, "libcudnn.so." + beginning(wanted, 1))) {
    if (one.from == From::kConda) continue;
    if (one.from == From::kWheel || version_of(one.version).size() < 2 ||
        !is_older(beginning(one.version), wanted))
      return;
    Finding& finding = look.found(
        text("cuDNN {} is older than the {} that {} was built with", one.version, wanted, who));
    finding.evidence.push_back(told(one));
    finding.fix.push_back(
        {"", text("install cuDNN {} or newer of the same major version in that folder", wanted)});
    return;
  }
}

/// Reports a cuDNN wheel that is older than `wanted`, within the same major version. Without such a
/// wheel, checks other copies.
void cudnn_too_old(Examination& look, const std::string& who, const std::string& wanted) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr || wanted.empty()) return;
  if (std::none_of(all->begin(), all->end(),
                   [](const Distribution& one) { return one.name.starts_with("nvidia-cudnn-cu"); }))
    return other_cudnn_too_old(look, who, wanted);
  for (const Distribution& one : *all) {
    if (!one.name.starts_with("nvidia-cudnn-cu") || !is_older(one.version, wanted) ||
        version_of(one.version)[0] != version_of(wanted)[0])
      continue;
    Finding& finding = look.found(
        text("cuDNN {} is older than the {} that {} was built with", one.version, wanted, who));
    finding.evidence.push_back(one.path);
    finding.fix.push_back(
        {install_command(look.facts.python, {"-U", one.name + ">=" + wanted}),
         text("if PyTorch requires exactly the older version, use separate environments")});
    return;
  }
}

/// The version of the toolkit that contains a library: "12.2" for /usr/local/cuda-12.2/lib64, and
/// for /apps/cuda/12.2.0/lib64 of an environment module. "" if the folder and the file name have at
/// most a major version.
std::string toolkit_of(const CudaLibrary& one) {
  const auto told = [](std::string_view text) {
    return version_of(text).size() < 2 ? std::string() : beginning(text);
  };
  for (const std::string_view mark : {"/cuda-", "/cuda/", "/cuda_", "/cuda"})
    if (const std::size_t at = one.folder.find(mark); at != std::string::npos)
      if (std::string found = told(std::string_view(one.folder).substr(at + mark.size()));
          !found.empty())
        return found;
  return told(one.version);
}

void cuda_too_old(Examination& look, const Distribution& jax, const JaxPlugin& row) {
  // JAX prefers a library in a wheel to the one of the system. So it must be certain that no wheel
  // has it.
  if (look.see_whole(look.facts.python.libraries) == nullptr) return;
  const auto all = libraries_named(look, "libcusparse.so." + std::to_string(row.cuda_major));
  const bool has_wheel = std::any_of(
      all.begin(), all.end(), [](const CudaLibrary& one) { return one.from == From::kWheel; });
  for (const CudaLibrary& one : all) {
    const std::string toolkit = toolkit_of(one);
    const bool wins = one.from == From::kVariable || (!has_wheel && one.from == From::kSystem);
    if (!wins || toolkit.empty() || row.cuda.empty() || !is_older(toolkit, row.cuda)) continue;
    Finding& finding = look.found(text("{} needs CUDA {} or newer, but gets {} from {}", named(jax),
                                       row.cuda, toolkit, one.folder));
    finding.evidence.push_back(told(one));
    if (one.from == From::kVariable)
      finding.fix.push_back({"unset LD_LIBRARY_PATH", text("JAX then uses CUDA from its wheels")});
    add_reinstall(look, finding, wish_of(look, Framework::kJax));
    return;
  }
}

/// The cuDNN version for which a jaxlib was built: "8.6" for 0.4.7+cuda11.cudnn86, "8.0" for
/// …cudnn805. Older wheels are in a table. Returns "" if the version is unknown.
std::string cudnn_of_jaxlib(Examination& look, const Distribution& jaxlib) {
  const std::string_view tag = local_part(jaxlib.version);
  const std::size_t at = tag.find("cudnn");
  if (at != std::string_view::npos && (tag.size() == at + 7 || tag.size() == at + 8))
    return fmt::format("{}.{}", tag[at + 5], tag[at + 6]);
  for (const CondaJaxlib& row : look.knowledge.compatibility().jaxlib_wheels)
    if (in_range(jaxlib.version, row.versions) && tag == row.build) return row.cudnn;
  return "";
}

/// Reports that the cuDNN in a conda environment is older than the one with which its jaxlib was
/// built. jaxlib then fails, although its requirements allow this cuDNN.
void cudnn_of_conda_too_old(Examination& look) {
  const CondaPackage* jaxlib = conda_package(look, "jaxlib");
  if (jaxlib == nullptr || look.see_whole(look.facts.python.conda) == nullptr) return;
  const CondaPackage* cudnn = conda_package(look, "libcudnn");
  if (cudnn == nullptr) cudnn = conda_package(look, "cudnn");
  if (cudnn == nullptr) return;
  for (const CondaJaxlib& row : look.knowledge.compatibility().conda_jaxlibs) {
    if (!in_range(jaxlib->version, row.versions) || !jaxlib->build.starts_with(row.build) ||
        !is_older(beginning(cudnn->version), beginning(row.cudnn)))
      continue;
    const bool other_major = version_of(cudnn->version)[0] != version_of(row.cudnn)[0];
    Finding& finding = look.found(text("cuDNN {} is older than the {} that {} was built with",
                                       cudnn->version, row.cudnn, "jaxlib " + jaxlib->version));
    finding.evidence = {cudnn->path, jaxlib->path, row.source};
    finding.fix.push_back(
        {fmt::format("conda install -p {} -c conda-forge {}", pasted(look.facts.python.prefix),
                     other_major ? "'jaxlib>0.4.31=*cuda*' 'cudnn>=9.1'"
                                 : fmt::format("'libcudnn>={}'", row.cudnn)),
         text("jaxlib's package also accepts an older cuDNN, so conda's solver may keep the old "
              "cuDNN")});
    return;
  }
}

void library_too_old(Examination& look) {
  if (seen_gpus(look).empty()) return;
  cudnn_of_conda_too_old(look);
  const auto tensorflow = look.facts.python.distribution("tensorflow");
  if (const Distribution* one = look.see(tensorflow))
    if (const TensorflowRelease* row = look.knowledge.compatibility().tensorflow_of(one->version))
      cudnn_too_old(look, "TensorFlow " + one->version, row->cudnn);
  const auto jaxlib = look.facts.python.distribution("jaxlib");
  if (const Distribution* one = look.see(jaxlib))
    cudnn_too_old(look, named(*one), cudnn_of_jaxlib(look, *one));
  for (const JaxPlugin& row : look.knowledge.compatibility().jax) {
    auto jax = look.facts.python.distribution(fmt::format("jax-cuda{}-plugin", row.cuda_major));
    const bool has_plugin = static_cast<bool>(jax);
    if (!has_plugin) {
      jax = look.facts.python.distribution("jaxlib");
      if (!jax || !local_part(jax->version).starts_with(fmt::format("cuda{}", row.cuda_major)))
        continue;
    }
    cuda_too_old(look, *jax, row);
    // The row has the cuDNN that current releases of JAX need. JAX before 0.6.0 does not need it.
    if (has_plugin && !is_older(jax->version, "0.6")) cudnn_too_old(look, named(*jax), row.cudnn);
  }
}

/// Reports an old NCCL in the system, which CuPy's wheels load. If PyTorch is imported after CuPy,
/// it gets this NCCL, because a library with the same name is already loaded.
void nccl_of_cupy(Examination& look, const std::vector<Distribution>& all) {
  const Distribution *cupy = nullptr, *wheel = nullptr;
  for (const Distribution& one : all) {
    if (one.name.starts_with("cupy-cuda")) cupy = &one;
    if (wheel_of(one.name).first == "nvidia-nccl") wheel = &one;
  }
  const auto* libraries = look.see(look.facts.python.libraries);
  if (cupy == nullptr || wheel == nullptr || libraries == nullptr ||
      !look.facts.python.distribution("torch"))
    return;
  for (const CudaLibrary& one : *libraries) {
    if (!one.name.starts_with("libnccl.so") || one.from != From::kSystem || one.version.empty() ||
        !is_older(beginning(one.version), beginning(wheel->version)))
      continue;
    Finding& finding =
        look.found(text("CuPy loads the system's NCCL {}; if PyTorch is imported after CuPy, it "
                        "uses this NCCL instead of its own {}",
                        one.version, wheel->version));
    // Current releases of PyTorch need functions of NCCL 2.19.
    if (!is_older(one.version, "2.19") || is_older(wheel->version, "2.19"))
      finding.severity = Severity::kInfo;
    finding.evidence = {one.path(), wheel->path, cupy->path,
                        "https://github.com/rapidsai/cugraph/issues/4465"};
    finding.fix.push_back({"import torch", text("add this to the program before it imports cupy")});
    finding.fix.push_back(
        {"", text("or remove the older NCCL from the system (in an image: the package libnccl2)")});
    return;
  }
}

void second_nccl(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return;
  const Distribution* first = nullptr;
  for (const Distribution& one : *all) {
    if (wheel_of(one.name).first != "nvidia-nccl") continue;
    if (first == nullptr) first = &one;
    if (one.entry == first->entry || one.version == first->version) continue;
    Finding& finding = look.found(
        text("two copies of NCCL are in sys.path: {} and {}", first->version, one.version));
    finding.evidence = {first->path, one.path};
    finding.fix.push_back({"export PYTHONNOUSERSITE=1",
                           text("makes Python ignore ~/.local, where the second NCCL usually is")});
    return;
  }
  nccl_of_cupy(look, *all);
}

/// The package that compiles with XLA: TensorFlow, or JAX with a CUDA plugin; "" if there is none.
std::string xla_user(Examination& look) {
  const auto tensorflow = look.facts.python.distribution("tensorflow");
  if (const Distribution* one = look.see(tensorflow);
      one != nullptr && has_library(look, "libcudart.so") && !is_older(one->version, "1.0"))
    return named(*one);
  const auto* all = look.see(look.facts.python.distributions);
  if (all != nullptr)
    for (const Distribution& one : *all)
      if ((one.name.starts_with("jax-cuda") && one.name.ends_with("-plugin")) ||
          (one.name == "jaxlib" && local_part(one.version).starts_with("cuda")))
        return named(one);
  return "";
}

void no_libdevice(Examination& look) {
  const auto* folders = look.see_whole(look.facts.python.libdevice);
  if (folders == nullptr || seen_gpus(look).empty()) return;
  const std::string who = xla_user(look);
  const bool is_jax = who.starts_with("jax");
  if (who.empty() || std::any_of(folders->begin(), folders->end(), [&](const std::string& folder) {
        return is_jax || folder.find("/jax") == std::string::npos;
      }))
    return;
  Finding& finding =
      look.found(text("{} does not find libdevice.10.bc, which XLA needs to compile", who));
  // Before 2.11, TensorFlow used XLA only if the program requested it. Since then, Keras compiles
  // its optimizers with XLA.
  const auto tensorflow = look.facts.python.distribution("tensorflow");
  if (!is_jax && tensorflow && is_older(tensorflow->version, "2.11"))
    finding.severity = Severity::kInfo;
  finding.evidence.push_back(
      text("not found in the wheel nvidia-cuda-nvcc, in /usr/local/cuda* or in the folder of "
           "XLA_FLAGS"));
  finding.fix.push_back({install_command(look.facts.python, {"nvidia-cuda-nvcc-cu12"}), ""});
  // XLA ignores CUDA_HOME. If this variable names a toolkit, as on clusters, the fix passes it to
  // XLA.
  std::string toolkit = "/opt/cuda";
  for (const Toolkit& one : look.facts.toolchain.nvvm.value_or({}))
    if (one.from == Toolkit::From::kVariable) toolkit = one.folder;
  finding.fix.push_back({"export XLA_FLAGS=--xla_gpu_cuda_data_dir=" + pasted(toolkit),
                         text("if a CUDA toolkit is installed elsewhere, name its folder that "
                              "contains nvvm/libdevice")});
}

void xla_cannot_compile(Examination& look) {
  no_libdevice(look);
  if (look.findings().empty()) no_ptxas(look);
}

constexpr auto kWheelsRules = std::to_array<Rule>({
    {"LIB03", Layer::kLibraries, Severity::kFatal, true,
     msgid("overlapping NVIDIA wheels for two CUDA major versions"), "LIB04 LIB05 LIB08",
     majors_mixed},
    {"LIB06", Layer::kLibraries, Severity::kFatal, true, msgid("cuDNN libraries from two copies"),
     "LIB08", cudnn_mixed},
    {"LIB07", Layer::kLibraries, Severity::kFatal, true,
     msgid("CUDA libraries that are too old for a framework"), "ENV08 LIB08", library_too_old},
    {"LIB08", Layer::kLibraries, Severity::kWarning, false,
     msgid("libraries of other versions than PyTorch requires"), "", pins_broken},
    {"LIB09", Layer::kLibraries, Severity::kWarning, true, msgid("a second NCCL"), "", second_nccl},
    {"LIB10", Layer::kLibraries, Severity::kError, true,
     msgid("no libdevice, or no ptxas, for XLA"), "", xla_cannot_compile},
});

}  // namespace

std::span<const Rule> wheel_rules() {
  return kWheelsRules;
}

}  // namespace berth::doctor
