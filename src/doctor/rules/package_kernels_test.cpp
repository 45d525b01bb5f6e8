#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;

namespace package_kernels_test {
namespace {

/// A machine with this GPU and one package. `torch` is the version of the installed PyTorch.
Facts machine(const char* gpu, const char* name, const char* version, const char* torch = nullptr) {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.prefix = "/venv";
  facts.python.path = std::vector<PathEntry>{{"/venv/site", {}}};
  facts.python.libraries = std::vector<CudaLibrary>{};
  facts.python.conda = std::vector<CondaPackage>{};
  facts.python.distributions = std::vector<Distribution>{
      {name, version, std::string("/venv/site/") + name + ".dist-info", 0, {}, ""}};
  auto gpus = *facts.driver.gpus;
  gpus[0].compute_capability = std::string(gpu);
  facts.driver.gpus = gpus;
  if (torch != nullptr) {
    TorchBuild build;
    build.path = "/venv/site/torch/version.py";
    build.version = torch;
    build.cuda = std::string("12.8");
    facts.python.torch = build;
  }
  return facts;
}

std::string first(const Facts& facts) {
  const auto findings = diagnose(facts, Knowledge{}, {"FW03", "FW04", "FW05"}).findings;
  return findings.empty() ? "" : findings.front().id;
}

}  // namespace

TEST_CASE("torchvision and torchaudio whose metadata tells no PyTorch are known by their numbers") {
  const auto with = [](const char* torch, const char* name, const char* version) {
    return first(machine("8.9", name, version, torch));
  };
  CHECK(with("2.8.0+cu128", "torchvision", "0.23.0").empty());
  CHECK(with("2.8.0+cu128", "torchvision", "0.22.1") == "FW05");
  CHECK(with("2.8.0+cu128", "torchaudio", "2.7.1") == "FW05");
  CHECK(with("2.8.0+cu128", "torchaudio", "2.8.0").empty());
  CHECK(with("1.13.1+cu117", "torchvision", "0.14.1").empty());
  CHECK(with("1.13.1+cu117", "torchvision", "0.15.2") == "FW05");
  // From 2.11 on, torchaudio's release numbers no longer show the PyTorch that it needs.
  CHECK(with("2.14.0+cu130", "torchaudio", "2.11.0").empty());
  CHECK(with("2.8.0+cu128", "torchvision", "0.22.0a0+966da7e").empty());
}

TEST_CASE("packages that serve GPUs up to one generation are reported on the next") {
  const auto with = [](const char* gpu, const char* name, const char* version) {
    return first(machine(gpu, name, version));
  };
  CHECK(with("12.0", "tensorrt", "10.7.0") == "FW03");
  CHECK(with("12.0", "tensorrt", "10.8.0.43").empty());
  CHECK(with("8.9", "tensorrt", "8.4.1.5") == "FW03");
  CHECK(with("8.9", "tensorrt", "8.5.3.1").empty());
  CHECK(with("5.2", "tensorrt", "8.5.3.1").empty());
  CHECK(with("5.2", "tensorrt", "8.6.1") == "FW04");
  CHECK(with("12.0", "paddlepaddle-gpu", "3.0.0") == "FW03");
  CHECK(with("9.0", "paddlepaddle-gpu", "3.0.0").empty());
}

TEST_CASE("from 3.2 on the CUDA of PaddlePaddle's build tells whether it serves Blackwell") {
  const auto with = [](const char* cuda) {
    Facts facts = machine("12.0", "paddlepaddle-gpu", "3.2.0");
    PackageBuild build;
    build.package = "paddlepaddle-gpu";
    build.path = "/venv/site/paddle/version/__init__.py";
    build.cuda = cuda;
    facts.builds = std::vector<PackageBuild>{build};
    return first(facts);
  };
  CHECK(with("12.6") == "FW03");
  CHECK(with("12.9").empty());
  CHECK(with("").empty());
}

}  // namespace package_kernels_test
