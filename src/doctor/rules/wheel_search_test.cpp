// Tests which packages find CUDA's libraries in NVIDIA's wheels, and which driver the wheels need.
#include "doctor/rules/wheel_search.hpp"

#include <doctest/doctest.h>

#include <cerrno>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;
using From = CudaLibrary::From;

namespace wheel_search_test {
namespace {

constexpr const char* kNvidia = "/venv/lib/python3.11/site-packages/nvidia/";

/// A workstation with a driver for CUDA 12, and a Python without packages.
Facts workstation() {
  Facts facts = tests::workstation("550.107.02", "12.4");
  PythonFacts& python = facts.python;
  python.prefix = "/venv";
  python.path = std::vector<PathEntry>{{"/venv/lib/python3.11/site-packages", {}}};
  python.distributions = std::vector<Distribution>{};
  python.libraries = std::vector<CudaLibrary>{};
  facts.imports.libraries = std::vector<LinkedLibrary>{};
  facts.imports.links = std::vector<LinkedLibrary>{};
  return facts;
}

void add(Facts& facts, const char* name, const char* version, std::vector<std::string> needs = {}) {
  auto all = *facts.python.distributions;
  all.push_back({name, version, std::string("/venv/") + name, 0, std::move(needs), ""});
  facts.python.distributions = all;
}

void add_library(Facts& facts, const char* name, const std::string& folder, From from) {
  auto all = *facts.python.libraries;
  all.push_back({name, folder, "", from});
  facts.python.libraries = all;
}

void add_torch(Facts& facts, const char* cuda = "12.4") {
  TorchBuild torch;
  torch.path = "/venv/torch/version.py";
  torch.version = "2.6.0+cu124";
  torch.cuda = std::string(cuda);
  facts.python.torch = torch;
}

void set_driver(Facts& facts, const char* version, const char* cuda) {
  facts.driver.driver_version = std::string(version);
  facts.driver.cuda_version = std::string(cuda);
}

std::vector<berth::model::Finding> found(const Facts& facts, const char* rule) {
  return diagnose(facts, Knowledge{}, {rule}).findings;
}

}  // namespace

TEST_CASE("CuPy finds a wheel's NVRTC from 14 on, and before only where LD_LIBRARY_PATH leads") {
  const auto with = [](const char* version, From from, bool torch = false) {
    Facts facts = workstation();
    add(facts, "cupy-cuda12x", version);
    add_library(facts, "libnvrtc.so.12", std::string(kNvidia) + "cuda_nvrtc/lib", from);
    if (torch) add_torch(facts);
    return found(facts, "FW11");
  };
  const auto missed = with("13.0.0", From::kWheel);
  REQUIRE(missed.size() == 1);
  CHECK(missed[0].evidence.at(0) == std::string(kNvidia) + "cuda_nvrtc/lib/libnvrtc.so.12");
  REQUIRE(missed[0].fix.size() == 2);
  CHECK(missed[0].fix[1].command.find("cuda_nvrtc/lib") != std::string::npos);
  CHECK(with("14.0.1", From::kWheel).empty());
  CHECK(with("13.0.0", From::kVariable).empty());
  CHECK(with("13.0.0", From::kSystem).empty());
  // The wheel's NVRTC is also reported if PyTorch is installed, because PyTorch loads NVRTC only to
  // compile something.
  CHECK(with("13.6.0", From::kWheel, true).size() == 1);
}

TEST_CASE("CuPy 13 that was compiled opens NVRTC by name, where neither 12 nor 14 need do so") {
  const auto with = [](const char* version) {
    Facts facts = workstation();
    add(facts, "cupy", version);
    facts.process.environment = Environment{{"CUDA_PATH", "/cvmfs/cuda/12.2"}};
    return facts;
  };
  const auto missed = found(with("13.0.0"), "FW11");
  REQUIRE(missed.size() == 1);
  CHECK(missed[0].fix.at(0).command.find("/cvmfs/cuda/12.2/lib64") != std::string::npos);
  CHECK(found(with("12.3.0"), "FW11").empty());
  CHECK(found(with("14.0.1"), "FW11").empty());
  for (const From from : {From::kVariable, From::kSystem, From::kConda}) {
    Facts facts = with("13.0.0");
    add_library(facts, "libnvrtc.so.12", "/opt/lib", from);
    CHECK(found(facts, "FW11").empty());
  }
  Facts wheel = with("13.0.0");
  add_library(wheel, "libnvrtc.so.12", std::string(kNvidia) + "cuda_nvrtc/lib", From::kWheel);
  CHECK(found(wheel, "FW11").size() == 1);
}

TEST_CASE("an extra counts as requested if all of it is installed and nothing else required it") {
  const std::vector<std::string> extra{"nvidia-cublas-cu12 ; extra == 'cuda'",
                                       "nvidia-cuda-runtime-cu12 ; extra == 'cuda'"};
  const auto with = [&](bool runtime) {
    Facts facts = workstation();
    set_driver(facts, "515.43.04", "11.7");
    add(facts, "ctransformers", "0.2.27", extra);
    add(facts, "nvidia-cublas-cu12", "12.2.5.6");
    if (runtime) add(facts, "nvidia-cuda-runtime-cu12", "12.2.140");
    return facts;
  };
  CHECK(found(with(true), "FW02").size() == 1);
  CHECK(found(with(false), "FW02").empty());
  Facts other = with(true);
  add(other, "somebody-else", "1.0", {"nvidia-cublas-cu12 ; extra == 'gpu'"});
  CHECK(found(other, "FW02").empty());
  Facts served = with(true);
  set_driver(served, "535.54.03", "12.2");
  CHECK(found(served, "FW02").empty());
}

TEST_CASE("a wheel of cuDNN has lost only what pip put there") {
  Facts facts = workstation();
  add(facts, "nvidia-cudnn-cu11", "8.5.0.96");
  add_library(facts, "libcudnn.so.8", std::string(kNvidia) + "cudnn/lib", From::kWheel);
  // the list of the wheel's files (RECORD) is missing
  CHECK(found(facts, "LIB06").size() == 1);
  facts.python.cudnn_listed = std::vector<std::string>{"libcudnn.so.8"};
  CHECK(found(facts, "LIB06").empty());
  facts.python.cudnn_listed = std::vector<std::string>{"libcudnn.so.8", "libcudnn_ops_infer.so.8"};
  CHECK(found(facts, "LIB06").size() == 1);
  // A copy in the system does not replace a file that the wheel should contain.
  Facts beside = facts;
  add_library(beside, "libcudnn_ops_infer.so.8", "/usr/lib/x86_64-linux-gnu", From::kSystem);
  CHECK(found(beside, "LIB06").size() == 1);
  beside.python.cudnn_listed = std::vector<std::string>{"libcudnn.so.8"};
  CHECK(found(beside, "LIB06").empty());
  facts.python.cudnn_listed = Unreadable{"/venv/RECORD", EACCES};
  const auto refused = diagnose(facts, Knowledge{}, {"LIB06"});
  CHECK(refused.findings.empty());
  CHECK(refused.not_checked.size() == 1);
}

TEST_CASE("bitsandbytes before 0.38 wants a libcudart.so of just that name") {
  Facts facts = workstation();
  add_torch(facts, "11.7");
  add(facts, "bitsandbytes", "0.36.0.post2");
  facts.python.bitsandbytes = std::vector<std::string>{"libbitsandbytes_cuda117.so"};
  add_library(facts, "libcudart.so.11.0", std::string(kNvidia) + "cuda_runtime/lib", From::kWheel);
  const auto missed = found(facts, "FW17");
  REQUIRE(missed.size() == 1);
  CHECK(missed[0].fix.at(0).command.find("ln -s libcudart.so.11.0") == 0);
  Facts newer = facts;
  newer.python.distributions = std::vector<Distribution>{};
  add(newer, "bitsandbytes", "0.38.0");
  CHECK(found(newer, "FW17").empty());
  facts.python.bitsandbytes_runtime = std::string("/usr/local/cuda/lib64");
  CHECK(found(facts, "FW17").empty());
}

TEST_CASE("before 13 CuPy wants the runtime, which a PyTorch that is imported first has loaded") {
  Facts facts = workstation();
  add(facts, "cupy-cuda12x", "12.3.0");
  add_library(facts, "libnvrtc.so.12", "/usr/local/cuda/lib64", From::kSystem);
  CHECK(found(facts, "FW11").size() == 1);
  add_library(facts, "libcudart.so.12", std::string(kNvidia) + "cuda_runtime/lib", From::kWheel);
  CHECK(found(facts, "FW11").size() == 1);
  add_torch(facts);
  CHECK(found(facts, "FW11").empty());
}

TEST_CASE("ONNX Runtime does not look into wheels, and from 1.21 on it does where it is told to") {
  const auto with = [](const char* version) {
    Facts facts = workstation();
    add(facts, "onnxruntime-gpu", version);
    add_library(facts, "libcublasLt.so.12", "/usr/local/cuda/lib64", From::kSystem);
    add_library(facts, "libcudnn.so.9", std::string(kNvidia) + "cudnn/lib", From::kWheel);
    return facts;
  };
  auto findings = found(with("1.20.1"), "FW15");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == berth::model::Severity::kError);
  findings = found(with("1.22.0"), "FW15");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == berth::model::Severity::kWarning);
  CHECK(findings[0].fix.at(0).says.find("preload_dlls") != std::string::npos);
  Facts beside_torch = with("1.22.0");
  add_torch(beside_torch);
  CHECK(found(beside_torch, "FW15").empty());
}

TEST_CASE("from 1.27 on ONNX Runtime of PyPI is built with CUDA 13") {
  const auto with = [](const char* version, const char* served, const char* blas) {
    Facts facts = workstation();
    facts.driver.cuda_version = std::string(served);
    add(facts, "onnxruntime-gpu", version);
    add_library(facts, blas, "/usr/local/cuda/lib64", From::kSystem);
    add_library(facts, "libcudnn.so.9", "/usr/local/cuda/lib64", From::kSystem);
    return facts;
  };
  CHECK(found(with("1.26.0", "13.0", "libcublasLt.so.12"), "FW15").empty());
  CHECK(found(with("1.27.0", "13.0", "libcublasLt.so.13"), "FW15").empty());
  auto findings = found(with("1.27.0", "13.0", "libcublasLt.so.12"), "FW15");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].fix.at(0).command.ends_with("'onnxruntime-gpu[cuda,cudnn]'"));
  findings = found(with("1.27.0", "12.8", "libcublasLt.so.12"), "FW15");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].fix.at(0).command.ends_with("'onnxruntime-gpu[cuda,cudnn]<1.27'"));
}

TEST_CASE("what ONNX Runtime's own file links to counts before what its release is known for") {
  Facts facts = workstation();
  add(facts, "onnxruntime-gpu", "0.3.0");
  CHECK(found(facts, "FW15").empty());
  facts.imports.libraries = std::vector<LinkedLibrary>{
      {"libcudnn.so.9", "/venv/libonnxruntime_providers_cuda.so", "onnxruntime-gpu", ""}};
  CHECK(found(facts, "FW15").size() == 1);
  CHECK(found(facts, "LIB04").empty());  // FW15 reports the same library
}

TEST_CASE("a library in a wheel is missed only by a package that does not look there") {
  Facts facts = workstation();
  const auto linked = [&](const char* package) {
    facts.imports.libraries = std::vector<LinkedLibrary>{
        {"libcublas.so.12", "/venv/_ext.so", package, std::string(kNvidia) + "cublas/lib"}};
    return found(facts, "LIB04").size();
  };
  CHECK(linked("ctranslate2") == 1);
  add(facts, "jax", "0.7.1");
  CHECK(linked("jax") == 0);
  add_torch(facts);
  CHECK(linked("ctranslate2") == 0);
}

TEST_CASE("TensorFlow 2.16.1 does not look into the wheels that 2.15 did find") {
  const auto with = [](const char* version) {
    Facts facts = workstation();
    add(facts, "tensorflow", version);
    for (const char* name : {"libcudart.so.12", "libcublas.so.12", "libcudnn.so.8"})
      add_library(facts, name, std::string(kNvidia) + "x/lib", From::kWheel);
    return found(facts, "FW08").size();
  };
  CHECK(with("2.15.1") == 0);
  CHECK(with("2.16.1") == 1);
}

TEST_CASE("a driver is too old for whatever brings a newer CUDA, be it no framework") {
  const auto with = [](auto change) {
    Facts facts = workstation();
    set_driver(facts, "470.256.02", "11.4");
    change(facts);
    const auto findings = found(facts, "FW02");
    set_driver(facts, "550.107.02", "12.4");
    CHECK(found(facts, "FW02").empty());
    return findings.size();
  };
  CHECK(with([](Facts& facts) { add(facts, "ctranslate2", "4.5.0"); }) == 1);
  CHECK(with([](Facts& facts) { add(facts, "ctranslate2", "3.24.0"); }) == 0);
  CHECK(with([](Facts& facts) {
          add(facts, "nvidia-cublas-cu12", "12.4.5.8");
          add(facts, "something", "1.0", {"nvidia-cublas-cu12<13,>=12"});
        }) == 1);
  // There is no finding if only an extra requires the wheel, or if programs for the CPU require the
  // wheel, too.
  CHECK(with([](Facts& facts) {
          add(facts, "nvidia-cublas-cu12", "12.4.5.8");
          add(facts, "something", "1.0", {"nvidia-cublas-cu12; extra == \"cuda\""});
        }) == 0);
  CHECK(with([](Facts& facts) {
          add(facts, "nvidia-nccl-cu12", "2.27.3");
          add(facts, "xgboost", "3.0", {"nvidia-nccl-cu12; platform_system == \"Linux\""});
        }) == 0);
  CHECK(with([](Facts& facts) {
          facts.imports.links =
              std::vector<LinkedLibrary>{{"libcudart.so.12", "/venv/_ext.so", "ctranslate2", ""}};
        }) == 1);
  CHECK(with([](Facts& facts) {
          add_library(facts, "libcublas.so.12", std::string(kNvidia) + "cublas/lib",
                      From::kVariable);
        }) == 1);
  CHECK(with([](Facts& facts) {
          add_library(facts, "libcublas.so.12", "/usr/local/cuda/lib64", From::kVariable);
        }) == 0);
}

TEST_CASE("CUDA 13's wheels have no major in their names, and the runtime's version is CUDA's") {
  Facts facts = workstation();
  add(facts, "nvidia-cuda-runtime", "13.0.48");
  add(facts, "nvidia-cufft", "12.0.0.15");
  add(facts, "one", "1.0", {"nvidia-cufft"});
  CHECK(found(facts, "FW02").empty());
  add(facts, "two", "1.0", {"nvidia-cuda-runtime"});
  CHECK(found(facts, "FW02").size() == 1);
}

TEST_CASE("beside a framework that the driver serves, a package for a newer CUDA is a warning") {
  Facts facts = workstation();
  set_driver(facts, "470.256.02", "11.4");
  add_torch(facts, "11.3");
  add(facts, "ctranslate2", "4.5.0");
  const auto findings = found(facts, "FW02");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == berth::model::Severity::kWarning);
}

TEST_CASE("wheels of CUDA 13 that share a folder are older or newer each by itself") {
  Facts facts = workstation();
  add(facts, "jax-cuda13-plugin", "0.10.1");
  add(facts, "nvidia-cublas", "13.4.0.1");
  add(facts, "nvidia-cuda-runtime", "13.2.75");
  add_library(facts, "libcublas.so.13", std::string(kNvidia) + "cu13/lib", From::kWheel);
  facts.process.environment = Environment{{"LD_LIBRARY_PATH", "/opt/cuda/lib64"}};
  const auto with = [&](const char* version) {
    Facts beside = facts;
    add_library(beside, "libcublas.so.13", "/opt/cuda/lib64", From::kVariable);
    auto all = *beside.python.libraries;
    all.back().version = version;
    beside.python.libraries = all;
    return found(beside, "ENV08");
  };
  const auto older = with("13.1.0.3");
  REQUIRE(older.size() == 1);
  CHECK(older[0].title.find("13.1.0.3, not 13.4.0.1") != std::string::npos);
  CHECK(with("13.5.1.27").empty());
}

}  // namespace wheel_search_test
