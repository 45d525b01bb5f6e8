#include <doctest/doctest.h>

#include <tuple>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "doctor/rules/stated_build.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace {

Facts with_torch(const char* version, const char* cuda) {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.path = std::vector<PathEntry>{{"/venv/site", {}}};
  facts.python.distributions = std::vector<Distribution>{};
  facts.python.libraries = std::vector<CudaLibrary>{};
  TorchBuild torch;
  torch.path = "/venv/site/torch/version.py";
  torch.version = version;
  torch.cuda = std::string(cuda);
  facts.python.torch = torch;
  facts.python.torch_libraries = std::vector<std::string>{"libc10.so", "libtorch_cpu.so"};
  facts.imports.symbols = std::vector<MissingSymbol>{};
  facts.imports.torch_links = std::vector<LinkedLibrary>{};
  facts.imports.torch_symbols = std::vector<WantedSymbol>{};
  return facts;
}

std::string found_in(const Facts& facts) {
  return tests::first_of(tests::joined({extension_rules()}), facts);
}

bool wants(const char* torch, const char* cuda, const char* symbol) {
  Facts facts = with_torch(torch, cuda);
  facts.imports.torch_symbols = std::vector<WantedSymbol>{{symbol, "/venv/site/_C.so", "some"}};
  return found_in(facts) == "FW06";
}

}  // namespace

TEST_CASE("which of C++'s two strings an extension was compiled with has to be PyTorch's") {
  const char* old_string = "_ZN3c105ErrorC2ENS_14SourceLocationESs";
  const char* new_string =
      "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
  for (const auto& [torch, cuda, is_new] : {std::tuple{"2.5.1+cu124", "12.4", false},
                                            {"2.6.0+cu124", "12.4", false},
                                            {"2.6.0+cu126", "12.6", true},
                                            {"2.7.1+cu118", "11.8", true}}) {
    CHECK(wants(torch, cuda, old_string) == is_new);
    CHECK(wants(torch, cuda, new_string) == !is_new);
  }
  // PyTorch 2.2 defines this function with an int argument; 2.3 does not.
  CHECK(wants("2.3.0+cu121", "12.1", "_ZN3c104cuda9SetDeviceEi"));
  CHECK_FALSE(wants("2.2.2+cu121", "12.1", "_ZN3c104cuda9SetDeviceEi"));
  // "2.5.1" without a local version may be anyone's build, so its ABI is unknown.
  CHECK_FALSE(wants("2.5.1", "12.4", new_string));
  CHECK_FALSE(wants("2.5.1+cu124", "12.4", "_ZN3c104cuda12device_countEv"));
}

TEST_CASE("an extension links to libraries that its PyTorch has") {
  Facts facts = with_torch("1.8.1+cu111", "11.1");
  facts.imports.torch_links =
      std::vector<LinkedLibrary>{{"libtorch_cpu.so", "/venv/site/mmcv/_ext.so", "mmcv", ""}};
  CHECK(found_in(facts).empty());
  facts.imports.torch_links =
      std::vector<LinkedLibrary>{{"libtorch_cuda_cu.so", "/venv/site/mmcv/_ext.so", "mmcv", ""}};
  CHECK(found_in(facts) == "FW06");
  // There is no finding if the list of PyTorch's libraries is unreadable.
  facts.python.torch_libraries = Unreadable{"/venv/site/torch/lib", 13};
  CHECK(found_in(facts).empty());
}

TEST_CASE("an extension is not called fine if a bundle has only its name") {
  const berth::system::TemporaryTree folder;
  const std::string site = "venv/lib/python3.11/site-packages";
  folder.put(site + "/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "");
  Facts facts = with_torch("2.6.0+cu124", "12.4");
  facts.python.path = std::vector<PathEntry>{{"/" + site, {}}};
  const auto read = [&] {
    return collect_imports(Tree(folder.path), Environment{}, facts.python).torch_extensions;
  };
  facts.imports.torch_extensions = read();
  const auto look = [&] { return diagnose(facts, Knowledge{}, {"FW06"}); };
  CHECK(look().checked.empty());
  REQUIRE(look().not_checked.size() == 1);
  CHECK(look().not_checked[0].why.find("flash_attn_2_cuda") != std::string::npos);
  folder.put(site + "/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "\x7f");
  facts.imports.torch_extensions = read();
  CHECK(look().not_checked.empty());
}

TEST_CASE("CUDA's libraries by the names that programs ask for") {
  CHECK(runtime_name("9.0") == "libcudart.so.9.0");
  CHECK(runtime_name("10.1.243") == "libcudart.so.10.1");
  CHECK(runtime_name("11.8") == "libcudart.so.11.0");
  CHECK(runtime_name("12.5.1") == "libcudart.so.12");
  CHECK(runtime_name("").empty());
  CHECK(blas_name("10.0") == "libcublas.so.10.0");
  CHECK(blas_name("10.1") == "libcublas.so.10");
  CHECK(blas_name("13.0") == "libcublas.so.13");
}

TEST_CASE("of what nobody makes any more the package is named that has taken its place") {
  Facts facts = with_torch("2.6.0+cu124", "12.4");
  const auto first_fix = [&](const char* package) {
    facts.imports.torch_symbols = std::vector<WantedSymbol>{
        {"_ZN3c104cuda9SetDeviceEi", "/venv/site/autogptq_cuda.so", package}};
    return diagnose(facts, Knowledge{}, {"FW06"}).findings.at(0).fix.at(0).command;
  };
  CHECK(first_fix("auto-gptq").find("pip uninstall") != std::string::npos);
  CHECK(first_fix("auto-gptq").ends_with("--no-build-isolation gptqmodel"));
  CHECK(first_fix("flash-attn").ends_with("--no-build-isolation flash-attn"));
}
