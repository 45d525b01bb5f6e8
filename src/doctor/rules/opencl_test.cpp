#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;

namespace opencl_test {
namespace {

/// A machine with NVIDIA's OpenCL library, but without an ICD file for it.
Facts machine(const char* package) {
  Facts facts = tests::workstation("550.54.15", "12.4");
  facts.process.identity = Identity{0, 0, {}};
  facts.python.distributions = std::vector<Distribution>{};
  if (*package != '\0')
    facts.python.distributions =
        std::vector<Distribution>{{package, "2024.3", "/venv/site/x", 0, {}, ""}};
  OpenClFiles files;
  files.library = "/usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1";
  facts.parts.opencl = files;
  return facts;
}

std::string said(const Facts& facts) {
  const auto found = diagnose(facts, Knowledge{}, {"LIB14"}).findings;
  if (found.empty()) return "";
  return found.front().severity == Severity::kInfo ? "info" : found.front().title.substr(0, 6);
}

void change(Facts& facts, void (*with)(OpenClFiles&)) {
  OpenClFiles files = *facts.parts.opencl;
  with(files);
  facts.parts.opencl = files;
}

}  // namespace

TEST_CASE("OpenCL without the file that names NVIDIA's library to its loader") {
  CHECK(said(machine("pyopencl")) == "OpenCL");
  CHECK(said(machine("lightgbm")) == "info");
  CHECK_MESSAGE(said(machine("")).empty(), "nobody computes by OpenCL here");
  Facts facts = machine("");
  change(facts, [](OpenClFiles& files) { files.program = "/usr/bin/hashcat"; });
  CHECK(said(facts) == "OpenCL");
  change(facts, [](OpenClFiles& files) { files.program = "/usr/bin/clinfo"; });
  CHECK_MESSAGE(said(facts) == "info", "which lists devices");
  facts = machine("pyopencl");
  facts.process.environment = Environment{{"OCL_ICD_VENDORS", "/opt/vendors"}};
  CHECK_MESSAGE(said(facts).empty(), "it looks elsewhere");
  facts = machine("pyopencl");
  change(facts, [](OpenClFiles& files) { files.icds = {"/etc/OpenCL/vendors/nvidia.icd"}; });
  CHECK(said(facts).empty());
  facts = machine("pyopencl");
  change(facts, [](OpenClFiles& files) { files.library.clear(); });
  CHECK_MESSAGE(said(facts).empty(), "the driver came without its OpenCL");
}

TEST_CASE("conda's loader of OpenCL looks into its own environment") {
  Facts facts = machine("pyopencl");
  facts.python.is_conda = true;
  facts.python.prefix = "/conda/envs/cl";
  CondaPackage conda;
  conda.name = "pyopencl";
  facts.python.conda = std::vector{conda};
  change(facts, [](OpenClFiles& files) {
    files.icds = {"/etc/OpenCL/vendors/nvidia.icd"};
    files.conda_loader = true;
    files.conda_icds = {"pocl.icd"};
  });
  CHECK(said(facts) == "conda'");
  change(facts, [](OpenClFiles& files) { files.conda_icds = {"ocl-icd-system"}; });
  CHECK_MESSAGE(said(facts).empty(), "ocl-icd-system lets it look there");
  change(facts, [](OpenClFiles& files) { files.conda_icds = {}; });
  facts.python.conda = std::vector<CondaPackage>{};
  CHECK_MESSAGE(said(facts).empty(), "a wheel has a loader of its own");
}

}  // namespace opencl_test
