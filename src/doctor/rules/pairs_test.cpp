#include <doctest/doctest.h>

#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;

namespace {

/// FW25 of one package beside this PyTorch.
std::size_t clashes(const char* name, const char* version, const char* torch) {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.conda = std::vector<CondaPackage>{};
  TorchBuild build;
  build.path = "/venv/site/torch/version.py";
  build.version = torch;
  facts.python.torch = build;
  facts.python.distributions = std::vector<Distribution>{
      {"torch", torch, "/venv/site/torch.dist-info", 1, {}, ""},
      {name, version, std::string("/venv/site/") + name + ".dist-info", 1, {}, ""}};
  return diagnose(facts, Knowledge{}, {"FW25"}).findings.size();
}

}  // namespace

TEST_CASE("a table of releases says nothing of nightly builds and checkouts") {
  CHECK(clashes("torchcodec", "0.9.1", "2.8.0+cu128") == 1);
  CHECK(clashes("torchcodec", "0.9.0.dev20250901+cu128", "2.10.0.dev20250901+cu128") == 0);
  CHECK(clashes("torchcodec", "0.9.0a0+8d1c4a2", "2.10.0a0+git1e2f3a4") == 0);
  CHECK(clashes("torchcodec", "0.9.1", "2.10.0.dev20251101+cu130") == 0);
  // What a release cannot do, its nightly builds of before could not either.
  CHECK(clashes("numpy", "2.0.1", "2.2.0.dev20231101+cu121") == 1);
}
