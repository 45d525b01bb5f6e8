#include <doctest/doctest.h>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace compilers_test {
namespace {

/// A workstation with Python packages that compile code for its GPU.
Facts healthy() {
  Facts facts = tests::workstation("550.54.15", "12.4");
  PythonFacts& python = facts.python;
  python.distributions = std::vector<Distribution>{};
  python.libraries = std::vector<CudaLibrary>{};
  facts.libraries.cuda =
      FoundLibrary{"libcuda.so.1", "/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.550.54.15",
                   "550.54.15", "/etc/ld.so.cache"};
  ToolchainFacts& tools = facts.toolchain;
  tools.nvvm = std::vector<Toolkit>{{Toolkit::From::kSystem, "/usr/local/cuda", "12.4.1"}};
  tools.compiler = HostCompiler{"/usr/bin/gcc-12", 12};
  tools.nvcc = CompilerLimit{"/usr/local/cuda/include/crt/host_config.h", 13};
  tools.any_compiler = tools.has_python_header = tools.links_cuda = true;
  tools.cached_cuda = std::vector<std::string>{"/usr/lib/libcuda.so.1"};
  return facts;
}

void add(Facts& facts, const char* name, const char* version) {
  auto all = *facts.python.distributions;
  all.push_back({name, version, std::string("/venv/site/") + name, 0, {}, ""});
  facts.python.distributions = all;
}

berth::model::Diagnosis asked(const char* rule, const Facts& facts) {
  return diagnose(facts, Knowledge{}, {rule});
}

bool holds(const char* rule, const Facts& facts) {
  return !asked(rule, facts).findings.empty();
}

Severity severity(const char* rule, const Facts& facts) {
  const auto found = asked(rule, facts).findings;
  REQUIRE(found.size() == 1);
  return found.front().severity;
}

}  // namespace

TEST_CASE("Numba with a newer NVVM than the driver is named, unless nvJitLink helps it") {
  Facts facts = healthy();
  add(facts, "numba", "0.60.0");
  CHECK(!holds("FW16", facts));
  facts.toolchain.nvvm =
      std::vector<Toolkit>{{Toolkit::From::kSystem, "/usr/local/cuda", "12.5.0"}};
  // Numba is often used for the CPU only
  CHECK(severity("FW16", facts) == Severity::kInfo);
  add(facts, "numba-cuda", "0.11.0");
  CHECK(severity("FW16", facts) == Severity::kError);
  SUBCASE("12.6 has the PTX of 12.5") {
    facts.driver.cuda_version = std::string("12.5");
    facts.toolchain.nvvm = std::vector<Toolkit>{{Toolkit::From::kSystem, "/cuda", "12.6.2"}};
    CHECK(!holds("FW16", facts));
  }
  SUBCASE("a wheel of nvcc that this Numba does not look for") {
    facts.toolchain.nvvm = std::vector<Toolkit>{{Toolkit::From::kWheel, "/venv/nvcc", "12.9.86"},
                                                {Toolkit::From::kSystem, "/cuda", "12.4.0"}};
    CHECK(!holds("FW16", facts));
  }
  SUBCASE("pynvjitlink") {
    add(facts, "pynvjitlink-cu12", "0.3.0");
    CHECK(!holds("FW16", facts));
  }
  SUBCASE("a folder that could not be read") {
    facts.toolchain.nvvm.doubt({"/opt/conda/lib", 13});
    CHECK(!holds("FW16", facts));
    CHECK(asked("FW16", facts).not_checked.size() == 1);
  }
}

TEST_CASE("a newer Numba links by nvJitLink on its own") {
  Facts facts = healthy();
  add(facts, "numba-cuda", "0.19.0");
  facts.toolchain.nvvm = std::vector<Toolkit>{{Toolkit::From::kWheel, "/venv/nvcc", "12.9.86"}};
  CHECK(holds("FW16", facts));
  add(facts, "nvidia-nvjitlink-cu12", "12.9.86");
  CHECK(!holds("FW16", facts));
}

TEST_CASE("a compiler that is too new, or none, is named to whom it matters") {
  Facts facts = healthy();
  CHECK(!holds("FW19", facts));
  facts.toolchain.compiler = HostCompiler{"/usr/bin/gcc-14", 14};
  CHECK(severity("FW19", facts) == Severity::kInfo);
  add(facts, "deepspeed", "0.15.0");
  CHECK(severity("FW19", facts) == Severity::kWarning);
  facts.toolchain.compiler = HostCompiler{"/usr/bin/gcc", 0};  // 0: its version is unknown
  CHECK(!holds("FW19", facts));
  add(facts, "triton", "3.2.0");
  facts.toolchain.has_python_header = false;
  CHECK(severity("FW19", facts) == Severity::kInfo);
  add(facts, "vllm", "0.8.0");
  CHECK(severity("FW19", facts) == Severity::kError);
  facts.toolchain.any_compiler = false;
  CHECK(asked("FW19", facts).findings.front().title.find("C compiler") != std::string::npos);
  facts.toolchain.any_compiler = Unreadable{"gcc", 0};
  CHECK(!holds("FW19", facts));
  CHECK(asked("FW19", facts).not_checked.size() == 1);
}

TEST_CASE("Triton is told where it does not look for the driver's library") {
  Facts facts = healthy();
  add(facts, "triton", "2.1.0");
  CHECK(!holds("LIB11", facts));
  facts.toolchain.cached_cuda = std::vector<std::string>{};
  facts.toolchain.links_cuda = Unreadable{"/etc/ld.so.cache", 0};
  CHECK(holds("LIB11", facts));
  SUBCASE("later releases look in LD_LIBRARY_PATH") {
    facts.python.distributions = std::vector<Distribution>{};
    add(facts, "triton", "2.2.0");
    CHECK(!holds("LIB11", facts));
  }
  SUBCASE("a variable says where it is") {
    facts.process.environment = Environment{{"TRITON_LIBCUDA_PATH", "/usr/lib"}};
    CHECK(!holds("LIB11", facts));
  }
  SUBCASE("the cache knows it, and the linker does not") {
    facts.toolchain.cached_cuda = std::vector<std::string>{"/usr/lib/libcuda.so.1"};
    facts.toolchain.links_cuda = false;
    CHECK(holds("LIB11", facts));
    facts.python.distributions = std::vector<Distribution>{};
    add(facts, "triton", "3.6.0");
    CHECK(!holds("LIB11", facts));
  }
}

TEST_CASE("a Triton whose ptxas is older than the GPU is named, unless another was chosen") {
  Facts facts = healthy();
  auto gpus = *facts.driver.gpus;
  gpus.front().name = std::string("NVIDIA GB10");
  gpus.front().compute_capability = std::string("12.1");
  facts.driver.gpus = gpus;
  add(facts, "pytorch-triton", "3.5.0+git7416ffcb");
  CHECK(severity("FW22", facts) == Severity::kWarning);
  SUBCASE("what compiles in every run") {
    add(facts, "vllm", "0.11.0");
    CHECK(severity("FW22", facts) == Severity::kError);
  }
  SUBCASE("a toolkit that is new enough is offered") {
    facts.toolchain.building = Toolkit{Toolkit::From::kSystem, "/usr/local/cuda-13.0", "13.0.1"};
    CHECK(asked("FW22", facts).findings.front().fix.front().command.find("cuda-13.0/bin/ptxas") !=
          std::string::npos);
  }
  SUBCASE("another ptxas") {
    facts.process.environment = Environment{{"TRITON_PTXAS_PATH", "/usr/local/cuda/bin/ptxas"}};
    CHECK(!holds("FW22", facts));
  }
  SUBCASE("a GPU that this one knows") {
    gpus.front().compute_capability = std::string("12.0");
    facts.driver.gpus = gpus;
    CHECK(!holds("FW22", facts));
  }
  SUBCASE("3.6 has one for Blackwell, 3.7 one that knows Thor") {
    facts.python.distributions = std::vector<Distribution>{};
    add(facts, "triton", "3.6.0");
    CHECK(!holds("FW22", facts));
    gpus.front().compute_capability = std::string("11.0");
    facts.driver.gpus = gpus;
    CHECK(holds("FW22", facts));
    facts.python.distributions = std::vector<Distribution>{};
    add(facts, "triton", "3.7.0");
    CHECK(!holds("FW22", facts));
  }
}

TEST_CASE("TensorFlow with an older CUDA than it was tested with is named") {
  Facts facts = healthy();
  add(facts, "tensorflow", "2.18.0");
  const auto with = [&](const char* version, CudaLibrary::From from) {
    facts.python.libraries =
        std::vector<CudaLibrary>{{"libcudart.so.12", "/usr/local/cuda/lib64", version, from}};
    return holds("FW09", facts);
  };
  using From = CudaLibrary::From;
  CHECK(with("12.2.140", From::kSystem));
  CHECK(!with("12.5.82", From::kSystem));
  CHECK(!with("12.8.57", From::kVariable));
  CHECK(!with("12", From::kSystem));       // "12": the exact version is unknown
  CHECK(!with("12.2.140", From::kWheel));  // LIB07 checks wheels
  CHECK(!with("12.2.140", From::kConda));
}

TEST_CASE("runtimes of OpenMP that end a program are named, others live beside each other") {
  Facts facts = healthy();
  const OpenMp of_torch{"/venv/site/torch/lib/libgomp-a34b3233.so.1", true};
  const OpenMp of_sklearn{"/venv/site/scikit_learn.libs/libgomp-d22c30c5.so.1", true};
  const OpenMp of_mkl{"/conda/lib/libiomp5.so", false};
  facts.python.openmp = std::vector{of_torch, of_sklearn, of_mkl};
  CHECK(!holds("CPU04", facts));
  SUBCASE("mkl-service beside GNU's") {
    add(facts, "mkl-service", "2.4.0");
    CHECK(severity("CPU04", facts) == Severity::kInfo);
    facts.process.environment = Environment{{"MKL_THREADING_LAYER", "intel"}};
    CHECK(severity("CPU04", facts) == Severity::kWarning);
    facts.process.environment = Environment{{"MKL_THREADING_LAYER", "GNU"}};
    CHECK(!holds("CPU04", facts));
    facts.process.environment = Environment{{"MKL_SERVICE_FORCE_INTEL", "1"}};
    CHECK(!holds("CPU04", facts));
  }
  SUBCASE("two of Intel's") {
    facts.python.openmp = std::vector{
        of_torch, of_mkl, OpenMp{"/venv/site/ctranslate2.libs/libiomp5-b1b2.so", false}};
    CHECK(severity("CPU04", facts) == Severity::kWarning);
    facts.process.environment = Environment{{"KMP_DUPLICATE_LIB_OK", "TRUE"}};
    CHECK(!holds("CPU04", facts));
  }
}

TEST_CASE("a C library that declares a function of CUDA's otherwise") {
  Facts facts = healthy();
  facts.toolchain.building = Toolkit{Toolkit::From::kSystem, "/usr/local/cuda", "12.8.1"};
  CHECK(!holds("FW19", facts));
  facts.toolchain.clash = HeaderClash{"/usr/local/cuda/include/crt/math_functions.h",
                                      "/usr/include/bits/mathcalls.h", "cospi"};
  CHECK(severity("FW19", facts) == Severity::kInfo);  // no installed package uses nvcc
  add(facts, "torch", "2.8.0");
  CHECK(severity("FW19", facts) == Severity::kInfo);  // PyTorch seldom compiles extensions
  add(facts, "deepspeed", "0.16.0");
  CHECK(severity("FW19", facts) == Severity::kWarning);
}

TEST_CASE("CUDA's header and the C library's are compared as they are, and not by their versions") {
  const berth::system::TemporaryTree folder;
  const std::string header = "usr/local/cuda/include/crt/math_functions.h";
  const std::string plain = "__device_builtin__ double                 ";
  folder.put("usr/local/cuda/bin/nvcc", "");
  folder.put(header, plain + "cospi(double x);\n" + plain + "rsqrt(double x);\n");
  const auto clash = [&](const Environment& environment) {
    return collect_toolchain(Tree(folder.path), environment, {}).clash;
  };
  CHECK_MESSAGE(clash({}).is_absent(), "a C library from before 2.41, or none to compile with");
  folder.put("usr/include/x86_64-linux-gnu/bits/mathcalls.h",
             "__MATHCALL_VEC (cospi,, (_Mdouble_ __x));\n");
  REQUIRE(clash({}));
  CHECK(clash({})->function == "cospi");
  CHECK_MESSAGE(clash({{"CONDA_BUILD_SYSROOT", "/c"}}).is_absent(), "conda's own headers");
  folder.put(header, plain + "cospi(double x) noexcept (true);\n" + plain +
                         "sinpi(double x) A_MACRO;\n" + plain + "rsqrt(double x);\n");
  CHECK_MESSAGE(clash({}).is_absent(), "a newer toolkit, or one that was patched");
  folder.put(
      "usr/include/x86_64-linux-gnu/bits/mathcalls.h",
      "__MATHCALL_VEC (cospi,, (_Mdouble_ __x));\n__MATHCALL_VEC (rsqrt,, (_Mdouble_ __x));\n");
  REQUIRE(clash({}));
  CHECK(clash({})->function == "rsqrt");
}

TEST_CASE("an nvcc that is newer than the driver or PyTorch is named") {
  Facts facts = healthy();
  const auto with = [&](const char* nvcc) {
    facts.toolchain.building = Toolkit{Toolkit::From::kSystem, "/usr/local/cuda", nvcc};
    std::string all;
    for (const Finding& one : asked("ENV11", facts).findings)
      all += std::to_string(static_cast<int>(one.severity)) + one.title + "\n";
    return all;
  };
  const std::string info = std::to_string(static_cast<int>(Severity::kInfo));
  const std::string warning = std::to_string(static_cast<int>(Severity::kWarning));
  CHECK(with("12.4.99").empty());
  CHECK(with("12.8.61") ==
        info + "nvcc is from CUDA 12.8, but the driver only accepts code of CUDA up to 12.4\n");
  CHECK(with("13.0.1").starts_with(warning));
  facts.container.kind = std::string("docker");
  CHECK(with("12.8.61").empty());
  CHECK(with("13.0.1").starts_with(warning));
  facts.python.torch = TorchBuild{};
  tests::alter(facts.python.torch, [](TorchBuild& torch) {
    torch.version = "2.5.1+cu121";
    torch.cuda = std::string("12.1");
    torch.path = "/venv/site/torch/version.py";
  });
  CHECK(with("12.4.99").empty());
  CHECK(with("13.0.1").find("PyTorch is built with CUDA 12.1") != std::string::npos);
}

}  // namespace compilers_test
