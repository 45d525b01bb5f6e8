#include <doctest/doctest.h>

#include <filesystem>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace builds_test {
namespace {

/// An environment like AlphaFold's: JAX for CUDA, and TensorFlow only to load data.
Facts alphafold() {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.distributions = std::vector<Distribution>{
      {"tensorflow-cpu", "2.11.0", "/env/tensorflow_cpu.dist-info", 0, {}, ""},
      {"jaxlib", "0.3.25+cuda11.cudnn805", "/env/jaxlib.dist-info", 0, {}, ""}};
  facts.python.libraries = std::vector<CudaLibrary>{};
  facts.python.libdevice = std::vector<std::string>{"/env/jaxlib/cuda"};
  return facts;
}

std::vector<berth::model::Finding> asked(const char* rule, const Facts& facts) {
  return diagnose(facts, Knowledge{}, {rule}).findings;
}

}  // namespace

TEST_CASE("TensorFlow for the processor, by its name, is not a mistake beside JAX on the GPU") {
  Facts facts = alphafold();
  auto found = asked("FW21", facts);
  REQUIRE(found.size() == 1);
  CHECK(found.front().severity == Severity::kInfo);
  auto all = *facts.python.distributions;
  all.pop_back();
  facts.python.distributions = all;
  found = asked("FW21", facts);
  REQUIRE(found.size() == 1);
  CHECK(found.front().severity == Severity::kError);
}

TEST_CASE("a libdevice of JAX's own is one for JAX, and none for TensorFlow") {
  Facts facts = alphafold();
  CHECK(asked("LIB10", facts).empty());
  auto all = *facts.python.distributions;
  all.front().name = "tensorflow";
  facts.python.distributions = all;
  facts.python.libraries = std::vector<CudaLibrary>{
      {"libcudart.so.11.0", "/usr/local/cuda/lib64", "11.8", CudaLibrary::From::kSystem}};
  CHECK(asked("LIB10", facts).size() == 1);
}

TEST_CASE("vLLM's own wheel serves no Pascal, and who built one may have made it serve") {
  Facts facts = alphafold();
  auto gpus = *facts.driver.gpus;
  gpus.front().compute_capability = std::string("6.1");
  facts.driver.gpus = gpus;
  facts.python.distributions =
      std::vector<Distribution>{{"vllm", "0.9.0", "/env/vllm.dist-info", 0, {}, ""}};
  CHECK(asked("FW04", facts).size() == 1);
  facts.python.distributions =
      std::vector<Distribution>{{"vllm", "0.9.0+pascal", "/env/vllm.dist-info", 0, {}, ""}};
  CHECK(asked("FW04", facts).empty());
}

TEST_CASE("of several GPUs a package serves none where all are alike and too old") {
  Facts facts = alphafold();
  facts.python.distributions =
      std::vector<Distribution>{{"vllm", "0.2.0", "/env/vllm.dist-info", 0, {}, ""}};
  auto gpus = *facts.driver.gpus;
  gpus.front().compute_capability = std::string("6.1");
  gpus.push_back(gpus.front());
  gpus.back().pci_address = "0000:02:00.0";
  facts.driver.gpus = gpus;
  CHECK(asked("FW04", facts).size() == 1);
  /// the user may run the package on this second GPU
  gpus.back().compute_capability = std::string("8.6");
  facts.driver.gpus = gpus;
  CHECK(asked("FW04", facts).empty());
}

TEST_CASE("vLLM has served no Volta since 0.21") {
  Facts facts = alphafold();
  auto gpus = *facts.driver.gpus;
  gpus.front().compute_capability = std::string("7.0");
  facts.driver.gpus = gpus;
  for (const auto& [version, is_served] : {std::pair{"0.20.1", true}, std::pair{"0.21.0", false}}) {
    facts.python.distributions =
        std::vector<Distribution>{{"vllm", version, "/env/vllm.dist-info", 0, {}, ""}};
    CHECK(asked("FW04", facts).empty() == is_served);
  }
}

TEST_CASE("an Ollama as large as its libraries has them inside") {
  Facts facts = alphafold();
  facts.platform.ollama = OllamaFiles{"/usr/local/bin/ollama", "/usr/local/lib/ollama", {}, 0};
  // the program's size is unknown, because its content was not recorded
  CHECK(asked("FW24", facts).empty());
  facts.platform.ollama =
      OllamaFiles{"/usr/local/bin/ollama", "/usr/local/lib/ollama", {}, 30'000'000};
  REQUIRE(asked("FW24", facts).size() == 1);
  CHECK(asked("FW24", facts).front().severity == Severity::kWarning);
  // A distribution may have the libraries in a separate package, so the finding is only
  // information.
  facts.platform.ollama = OllamaFiles{"/usr/bin/ollama", "/usr/lib/ollama", {}, 30'000'000};
  REQUIRE(asked("FW24", facts).size() == 1);
  CHECK(asked("FW24", facts).front().severity == Severity::kInfo);
  facts.platform.ollama =
      OllamaFiles{"/usr/local/bin/ollama", "/usr/local/lib/ollama", {}, 500'000'000};
  CHECK(asked("FW24", facts).empty());
  facts.platform.ollama = OllamaFiles{"/usr/local/bin/ollama",
                                      "/usr/local/lib/ollama",
                                      {"libcublas.so.12", "libcudart.so.12"},
                                      200'000'000};
  CHECK(asked("FW24", facts).empty());  // Ollama 0.3.7 to 0.3.14 look like this
}

TEST_CASE("the size of Ollama is that of the program behind the link") {
  const berth::system::TemporaryTree folder;
  folder.put("opt/ollama/bin/ollama", "");
  std::filesystem::resize_file(folder.path + "/opt/ollama/bin/ollama", 300'000'000);
  std::filesystem::create_directories(folder.path + "/usr/local/bin");
  std::filesystem::create_symlink("/opt/ollama/bin/ollama", folder.path + "/usr/local/bin/ollama");
  CHECK(collect_ollama(Tree(folder.path))->size == 300'000'000);
}

TEST_CASE("llama-cpp-python before 0.3 computes by what its one library links to") {
  Facts facts = alphafold();
  facts.python.distributions = std::vector<Distribution>{
      {"llama-cpp-python", "0.2.11", "/env/llama_cpp_python.dist-info", 0, {}, ""}};
  CHECK(asked("FW21", facts).empty());
  facts.python.llama_cpp_links = std::vector<std::string>{"libm.so.6", "libcurl.so.4"};
  CHECK(asked("FW21", facts).size() == 1);
  facts.python.llama_cpp_links = std::vector<std::string>{"libcublas.so.12", "libc.so.6"};
  CHECK(asked("FW21", facts).empty());
}

TEST_CASE("a folder or a file's name tells the release of CUDA, or nothing is said of it") {
  Facts facts = alphafold();
  facts.python.distributions = std::vector<Distribution>{
      {"jax-cuda12-plugin", "0.4.30", "/env/jax_cuda12_plugin.dist-info", 0, {}, ""}};
  const auto with = [&](const char* folder, const char* version) {
    facts.python.libraries = std::vector<CudaLibrary>{
        {"libcusparse.so.12", folder, version, CudaLibrary::From::kVariable}};
    return asked("LIB07", facts).size();
  };
  CHECK(with("/apps/cuda/12.0.1/targets/x86_64-linux/lib", "12") == 1);
  CHECK(with("/apps/cuda/12.2.0/targets/x86_64-linux/lib", "12") == 0);
  CHECK(with("/opt/nvidia/lib64", "12") == 0);
  CHECK(with("/usr/local/cuda/lib64", "12.0.76") == 1);
}

TEST_CASE("an older NCCL of the system is in the way of PyTorch's where CuPy loads it first") {
  Facts facts = alphafold();
  const auto finds = [&](const char* version,
                         std::vector<std::pair<const char*, const char*>> all) {
    facts.python.libraries = std::vector<CudaLibrary>{
        {"libnccl.so.2", "/usr/lib/x86_64-linux-gnu", version, CudaLibrary::From::kSystem}};
    std::vector<Distribution> distributions;
    for (const auto& [name, release] : all)
      distributions.push_back({name, release, std::string("/env/") + name, 0, {}, ""});
    facts.python.distributions = distributions;
    return asked("LIB09", facts).size();
  };
  CHECK(finds("2.16.2", {{"torch", "2.3.0"}, {"nvidia-nccl-cu12", "2.20.5"}}) == 0);
  CHECK(finds("2.16.2",
              {{"cupy-cuda12x", "13.1.0"}, {"torch", "2.3.0"}, {"nvidia-nccl-cu12", "2.20.5"}}) ==
        1);
  CHECK(finds("2.20.3",
              {{"cupy-cuda12x", "13.1.0"}, {"torch", "2.3.0"}, {"nvidia-nccl-cu12", "2.20.5"}}) ==
        0);
  const auto severity = [&](const char* version) {
    static_cast<void>(finds(
        version, {{"cupy-cuda12x", "13.1.0"}, {"torch", "2.9.0"}, {"nvidia-nccl-cu12", "2.27.5"}}));
    return asked("LIB09", facts).front().severity;
  };
  CHECK(severity("2.16.2") == Severity::kWarning);
  CHECK(severity("2.25.1") == Severity::kInfo);
}

}  // namespace builds_test
