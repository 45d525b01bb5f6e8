#include <doctest/doctest.h>

#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;

namespace {

/// The packages that FW25 suggests installing; "" if the two packages are compatible.
std::string wanted(const char* name, const char* version, const char* other,
                   const char* its_version) {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.conda = std::vector<CondaPackage>{};
  facts.python.distributions = std::vector<Distribution>{
      {name, version, std::string("/venv/site/") + name + ".dist-info", 1, {}, ""},
      {other, its_version, std::string("/venv/site/") + other + ".dist-info", 1, {}, ""}};
  const auto findings = diagnose(facts, Knowledge{}, {"FW25"}).findings;
  if (findings.empty()) return "";
  const std::string& command = findings.at(0).fix.at(0).command;
  return command.substr(command.rfind(' ') + 1);
}

/// The number of FW25's findings for one package with this PyTorch.
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
  // A nightly build is incompatible with the same packages as its release.
  CHECK(clashes("numpy", "2.0.1", "2.2.0.dev20231101+cu121") == 1);
}

TEST_CASE("what has to be of one number with another is told where it is not") {
  CHECK(wanted("flashinfer-cubin", "0.6.1", "flashinfer-python", "0.5.3") ==
        "flashinfer-cubin==0.5.3");
  CHECK(wanted("flashinfer-cubin", "0.5.3", "flashinfer-python", "0.5.3").empty());
  CHECK(wanted("flashinfer-jit-cache", "0.6.16+cu130", "flashinfer-python", "0.6.16").empty());
  CHECK(wanted("flashinfer-jit-cache", "0.6.8.post1+cu130", "flashinfer-python", "0.6.8") ==
        "flashinfer-jit-cache==0.6.8");
  CHECK(wanted("tensorflow-text", "2.15.0", "tensorflow", "2.17.0") == "'tensorflow-text==2.17.*'");
  CHECK(wanted("tensorflow-text", "2.17.0", "tensorflow", "2.17.1").empty());
}

TEST_CASE("a PyTorch stays as it is where another package wants a newer one") {
  Facts facts = tests::workstation("535.183.01", "12.2");
  facts.python.conda = std::vector<CondaPackage>{};
  facts.python.distributions = std::vector<Distribution>{
      {"torch", "2.8.0+cu126", "/venv/site/torch.dist-info", 1, {}, ""},
      {"xformers", "0.0.35", "/venv/site/xformers.dist-info", 1, {"torch>=2.10"}, ""}};
  const auto found = diagnose(facts, Knowledge{}, {"FW25"}).findings;
  REQUIRE(found.size() == 1);
  CHECK(found[0].fix.at(0).command.ends_with(" xformers torch==2.8.0"));
}

TEST_CASE(
    "releases that import what another package has no longer, and the first and last of them") {
  CHECK(wanted("vllm", "0.9.2", "transformers", "4.56.2") == "'transformers<4.54'");
  CHECK(wanted("vllm", "0.9.2", "transformers", "4.53.3").empty());
  CHECK(wanted("vllm", "0.10.0", "transformers", "4.56.2").empty());
  CHECK(wanted("jaxlib", "0.4.23+cuda12.cudnn89", "numpy", "2.0.1") == "'numpy<2'");
  CHECK(wanted("jaxlib", "0.4.26", "numpy", "2.0.1").empty());
  CHECK(wanted("mxnet-cu112", "1.9.1", "numpy", "1.24.4") == "'numpy<1.24'");
  CHECK(wanted("mxnet-cu112", "1.9.1", "numpy", "1.23.5").empty());
  CHECK(wanted("dgl", "2.1.0", "torchdata", "0.11.0") == "'torchdata<0.10'");
  CHECK(wanted("dgl", "2.1.0", "torchdata", "0.9.0").empty());
  CHECK(wanted("tensorflow", "2.9.1", "protobuf", "4.21.1") == "'protobuf<4'");
  CHECK(wanted("tensorflow", "2.12.0", "protobuf", "4.21.1").empty());
  CHECK(wanted("tensorflow-cpu", "2.9.1", "protobuf", "4.21.1") == "'protobuf<4'");
  CHECK(wanted("tensorflow-intel", "2.9.1", "protobuf", "4.21.1") == "'protobuf<4'");
  CHECK(clashes("deepspeed", "0.12.2", "2.4.0+cu121") == 1);
  CHECK(clashes("deepspeed", "0.12.2", "2.3.1+cu121") == 0);
  CHECK(clashes("deepspeed", "0.7.3", "2.0.1+cu118") == 1);
  CHECK(clashes("torchao", "0.13.0", "2.5.1+cu124") == 1);
  CHECK(clashes("torchao", "0.12.0", "2.5.1+cu124") == 0);
}

TEST_CASE("JAX and xFormers say in their metadata which jaxlib and PyTorch they take") {
  const auto clash = [](const char* name, const char* version, const char* need, const char* other,
                        const char* its_version) {
    Facts facts = tests::workstation("580.95.05", "13.0");
    facts.python.conda = std::vector<CondaPackage>{};
    facts.python.distributions = std::vector<Distribution>{
        {name, version, std::string("/venv/site/") + name, 1, {need}, ""},
        {other, its_version, std::string("/venv/site/") + other, 1, {}, ""}};
    return diagnose(facts, Knowledge{}, {"FW25"}).findings.size();
  };
  const char* jaxlib = "jaxlib<=0.4.30,>=0.4.27";
  CHECK(clash("jax", "0.4.30", jaxlib, "jaxlib", "0.4.23+cuda12.cudnn89") == 1);
  CHECK(clash("jax", "0.4.30", jaxlib, "jaxlib", "0.4.30") == 0);
  CHECK(clash("jax", "0.4.30", jaxlib, "jaxlib", "0.4.29+cuda12.cudnn91") == 0);
  CHECK(clash("xformers", "0.0.35", "torch>=2.10", "torch", "2.8.0") == 1);
  CHECK(clash("xformers", "0.0.35", "torch>=2.10", "torch", "2.11.0+cu130") == 0);
}

TEST_CASE("glibc refuses executable stacks from 2.41 on, whichever file says which it is") {
  const auto refused = [](const char* name, const char* version, const char* libc) {
    Facts facts = tests::workstation("580.95.05", "13.0");
    facts.python.conda = std::vector<CondaPackage>{};
    facts.python.distributions = std::vector<Distribution>{
        {name, version, std::string("/venv/site/") + name + ".dist-info", 1, {}, ""}};
    if (libc != nullptr) facts.imports.libc = std::string(libc);
    return diagnose(facts, Knowledge{}, {"LIB13"}).findings.size();
  };
  CHECK(refused("ctranslate2", "4.5.0", "2.41") == 1);
  CHECK(refused("ctranslate2", "4.5.0", "2.40") == 0);
  CHECK(refused("ctranslate2", "4.6.0", "2.42") == 0);
  CHECK(refused("torch", "1.13.1+rocm5.2", "2.41") == 1);
  CHECK(refused("torch", "1.13.1+cu117", "2.41") == 0);
  CHECK(refused("ctranslate2", "4.5.0", nullptr) == 0);
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.distributions = std::vector<Distribution>{};
  facts.imports.libc = std::string("2.42");
  facts.imports.executable_stacks = std::vector<StackFile>{};
  CHECK(diagnose(facts, Knowledge{}, {"LIB13"}).findings.empty());
  facts.imports.executable_stacks = std::vector<StackFile>{{"mine", "/venv/site/mine/_C.so"}};
  const auto findings = diagnose(facts, Knowledge{}, {"LIB13"}).findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].fix.at(0).command == "patchelf --clear-execstack /venv/site/mine/_C.so");
}

TEST_CASE("the file whose wish for such a stack is taken out is the package's own") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.conda = std::vector<CondaPackage>{};
  facts.python.distributions = std::vector<Distribution>{
      {"ctranslate2", "4.5.0", "/venv/site/ctranslate2.dist-info", 1, {}, ""}};
  facts.imports.libc = std::string("2.41");
  const auto last_fix = [&] {
    const auto findings = diagnose(facts, Knowledge{}, {"LIB13"}).findings;
    return findings.size() == 1 ? findings[0].fix.back().command : "";
  };
  const StackFile other{"mine", "/venv/site/mine/_C.so"};
  facts.imports.executable_stacks = std::vector<StackFile>{
      other, {"ctranslate2", "/venv/site/ctranslate2.libs/libctranslate2.so.4"}};
  CHECK(last_fix() == "patchelf --clear-execstack /venv/site/ctranslate2.libs/libctranslate2.so.4");
  facts.imports.executable_stacks = std::vector<StackFile>{other};
  CHECK(last_fix().ends_with("'ctranslate2>=4.6'"));
  // The files of ctranslate2 were read and require no executable stack, so the fix is for the other
  // file.
  facts.imports.codes = std::vector<PackageCode>{{"ctranslate2", "/venv/site/ct2.so", {}, ""}};
  CHECK(last_fix() == "patchelf --clear-execstack /venv/site/mine/_C.so");
}

TEST_CASE("glibc that was told to allow executable stacks refuses none") {
  const auto refused = [](const char* tunables) {
    Facts facts = tests::workstation("580.95.05", "13.0");
    facts.python.conda = std::vector<CondaPackage>{};
    facts.python.distributions = std::vector<Distribution>{
        {"ctranslate2", "4.5.0", "/venv/site/ctranslate2.dist-info", 1, {}, ""}};
    facts.imports.libc = std::string("2.41");
    facts.process.environment = Environment{{"GLIBC_TUNABLES", tunables}};
    return !diagnose(facts, Knowledge{}, {"LIB13"}).findings.empty();
  };
  CHECK_FALSE(refused("glibc.rtld.execstack=2"));
  CHECK_FALSE(refused("glibc.malloc.check=1:glibc.rtld.execstack=2"));
  CHECK(refused("glibc.rtld.execstack=1"));
  CHECK(refused("glibc.malloc.check=2"));
  CHECK(refused("glibc.rtld.execstack=2:glibc.rtld.execstack=0"));
}

TEST_CASE("packages do not clash where a variable keeps them apart") {
  const auto clash = [](const char* name, const char* version, const char* other,
                        const char* its_version, const Environment& environment) {
    Facts facts = tests::workstation("580.95.05", "13.0");
    facts.python.conda = std::vector<CondaPackage>{};
    facts.python.distributions = std::vector<Distribution>{
        {name, version, std::string("/venv/site/") + name, 1, {}, ""},
        {other, its_version, std::string("/venv/site/") + other, 1, {}, ""}};
    facts.process.environment = environment;
    return !diagnose(facts, Knowledge{}, {"FW25"}).findings.empty();
  };
  for (const char* name : {"tensorflow", "tensorflow-gpu"}) {
    const char* variable = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION";
    CHECK(clash(name, "2.9.1", "protobuf", "4.21.1", {}));
    CHECK(clash(name, "2.9.1", "protobuf", "4.21.1", {{variable, "upb"}}));
    CHECK_FALSE(clash(name, "2.9.1", "protobuf", "4.21.1", {{variable, "python"}}));
  }
  for (const char* name : {"flashinfer-cubin", "flashinfer-jit-cache"}) {
    const char* variable = "FLASHINFER_DISABLE_VERSION_CHECK";
    CHECK(clash(name, "0.6.1", "flashinfer-python", "0.5.3", {{variable, ""}}));
    CHECK_FALSE(clash(name, "0.6.1", "flashinfer-python", "0.5.3", {{variable, "1"}}));
  }
}
