// Rule LIB14: the ICD file through which OpenCL's loader finds NVIDIA's library is missing.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

constexpr const char* kSource = "https://github.com/NVIDIA/nvidia-container-toolkit/pull/1893";

/// Reports a missing ICD file. Up to 1.19, the container toolkit provides the library but not this
/// file.
void no_file(Examination& look, const OpenClFiles& files, const std::string& who, bool is_sure) {
  Finding& finding =
      look.found(text("OpenCL finds no NVIDIA GPU, because no file in /etc/OpenCL/vendors names "
                      "the driver's library; {} uses OpenCL",
                      who));
  if (!is_sure) finding.severity = Severity::kInfo;
  finding.evidence = {files.library,
                      fmt::format("/etc/OpenCL/vendors/nvidia.icd: {}", tr("missing")), kSource};
  const Identity* identity = look.see(look.facts.process.identity);
  const bool is_root = identity != nullptr && identity->uid == 0;
  finding.fix.push_back(
      {is_root ? "mkdir -p /etc/OpenCL/vendors && echo libnvidia-opencl.so.1 > "
                 "/etc/OpenCL/vendors/nvidia.icd"
               : "sudo mkdir -p /etc/OpenCL/vendors && echo libnvidia-opencl.so.1 | sudo tee "
                 "/etc/OpenCL/vendors/nvidia.icd",
       text("for an image, put this into its Dockerfile")});
}

void opencl(Examination& look) {
  const OpenClFiles* files = look.see(look.facts.parts.opencl);
  if (files == nullptr || files->library.empty() || seen_gpus(look).empty()) return;
  for (const char* name : {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"})
    if (!variable_or_empty(look, name).empty()) return;
  const auto wheel = look.facts.python.distribution("pyopencl");
  const auto trees = look.facts.python.distribution("lightgbm");
  const Distribution* package = look.see(wheel);
  if (files->icds.empty()) {
    if (package != nullptr) return no_file(look, *files, named(*package), true);
    // If the only OpenCL program is clinfo, which just lists devices, the finding is less certain.
    if (!files->program.empty())
      return no_file(look, *files, files->program, !files->program.ends_with("/clinfo"));
    // LightGBM usually trains on the CPU or with CUDA, so the finding is less certain.
    if (const Distribution* lightgbm = look.see(trees))
      return no_file(look, *files, named(*lightgbm), false);
    return;
  }
  // conda's OpenCL loader searches only its own environment.
  const bool named_there = std::any_of(
      files->conda_icds.begin(), files->conda_icds.end(),
      [](const std::string& one) { return contains(one, "nvidia") || contains(one, "system"); });
  if (package == nullptr || !files->conda_loader || named_there ||
      conda_package(look, "pyopencl") == nullptr ||
      conda_package(look, "ocl-icd-system") != nullptr)
    return;
  const std::string& prefix = look.facts.python.prefix;
  Finding& finding =
      look.found(text("conda's OpenCL only searches its own environment, where no file names "
                      "NVIDIA's library: {} finds no GPU",
                      named(*package)));
  finding.evidence = {files->icds.front(),
                      fmt::format("{}/etc/OpenCL/vendors/nvidia.icd: {}", prefix, tr("missing")),
                      "https://documen.tician.de/pyopencl/misc.html"};
  finding.fix.push_back(
      {fmt::format("conda install -p {} -c conda-forge ocl-icd-system", pasted(prefix)),
       text("makes conda's OpenCL search the system's folder too")});
}

constexpr auto kOpenclRules = std::to_array<Rule>({
    {"LIB14", Layer::kLibraries, Severity::kWarning, true,
     msgid("OpenCL without the file that names NVIDIA's library"), "", opencl},
});

}  // namespace

std::span<const Rule> opencl_rules() {
  return kOpenclRules;
}

}  // namespace berth::doctor
