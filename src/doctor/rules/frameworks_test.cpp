#include <doctest/doctest.h>

#include <algorithm>

#include "doctor/knowledge/version.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;

namespace frameworks_test {
namespace {

/// A workstation with a GPU from 2022, a matching driver, and a PyTorch that supports the GPU.
Facts healthy() {
  Facts facts = tests::workstation("580.95.05", "13.0");
  PythonFacts& python = facts.python;
  python.prefix = "/venv";
  python.is_venv = true;
  python.path = std::vector<PathEntry>{{"/home/ada/.local", PathOrigin::kUser}, {"/venv/site", {}}};
  python.distributions = std::vector<Distribution>{};
  python.libraries = std::vector<CudaLibrary>{};
  python.libdevice = std::vector<std::string>{};
  TorchBuild torch;
  torch.path = "/venv/site/torch/version.py";
  torch.entry = 1;
  torch.version = "2.8.0+cu128";
  torch.cuda = std::string("12.8");
  python.torch = torch;
  return facts;
}

void add(Facts& facts, const char* name, const char* version, std::size_t entry = 1,
         std::vector<std::string> needs = {}) {
  auto all = *facts.python.distributions;
  all.push_back({name, version, std::string("/venv/site/") + name + ".dist-info", entry,
                 std::move(needs), ""});
  facts.python.distributions = all;
}

void add_library(Facts& facts, const char* name, const char* folder, const char* version,
                 CudaLibrary::From from = CudaLibrary::From::kWheel) {
  auto all = *facts.python.libraries;
  all.push_back({name, folder, version, from});
  facts.python.libraries = all;
}

void edit_answer(Facts& facts) {
  auto gpus = *facts.driver.gpus;
  gpus[0].uuid = std::string("GPU-aa11");
  facts.driver.gpus = gpus;
}

void set_torch(Facts& facts, const char* version, const char* cuda) {
  TorchBuild torch = *facts.python.torch;
  torch.version = version;
  torch.cuda = cuda == nullptr ? Fact<std::string>() : Fact<std::string>(std::string(cuda));
  facts.python.torch = torch;
}

void set_gpu(Facts& facts, const char* name, const char* capability) {
  auto gpus = *facts.driver.gpus;
  gpus[0].name = std::string(name);
  gpus[0].compute_capability = std::string(capability);
  facts.driver.gpus = gpus;
}

std::vector<Rule> rules() {
  std::vector<Rule> all;
  for (const auto group : {wheel_rules(), unfound_library_rules(), framework_rules(),
                           package_rules(), extension_rules()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

berth::model::Diagnosis diagnosis(const Facts& facts) {
  return diagnose_with(rules(), facts, {});
}

std::string first(const Facts& facts) {
  const auto found = diagnosis(facts).findings;
  return found.empty() ? "" : found.front().id;
}

struct Mutation {
  const char* id;
  void (*change)(Facts&);
};

constexpr Mutation kBuilds[] = {
    {"FW01", [](Facts& facts) { set_torch(facts, "2.8.0+cpu", nullptr); }},
    {"FW02",
     [](Facts& facts) {
       facts.driver.driver_version = std::string("470.86");
       facts.driver.cuda_version = std::string("11.4");
     }},
    {"FW03",
     [](Facts& facts) {
       set_torch(facts, "2.5.1+cu124", "12.4"), set_gpu(facts, "NVIDIA GeForce RTX 5090", "12.0");
     }},
    {"FW04", [](Facts& facts) { set_gpu(facts, "NVIDIA GeForce GTX 1080 Ti", "6.1"); }},
    {"FW05", [](Facts& facts) { add(facts, "torchvision", "0.20.1+cu124", 1, {"torch==2.5.1"}); }},
    {"FW06",
     [](Facts& facts) {
       add(facts, "flash-attn", "2.5.6");
       auto all = *facts.python.distributions;
       all[0].url = "https://x/flash_attn-2.5.6+cu122torch2.2cxx11abiTRUE-cp311.whl";
       facts.python.distributions = all;
     }},
    {"FW07",
     [](Facts& facts) {
       set_torch(facts, "2.8.0+rocm6.4", nullptr);
       TorchBuild torch = *facts.python.torch;
       torch.hip = std::string("6.4");
       facts.python.torch = torch;
     }},
};

constexpr Mutation kPackages[] = {
    {"FW08",
     [](Facts& facts) {
       facts.python.torch = Fact<TorchBuild>();
       add(facts, "tensorflow", "2.18.0");
     }},
    {"FW10",
     [](Facts& facts) {
       facts.python.torch = Fact<TorchBuild>();
       add(facts, "jaxlib", "0.7.1");
     }},
    {"FW11", [](Facts& facts) { add(facts, "cupy-cuda12x", "13.6.0"); }},
    {"FW13",
     [](Facts& facts) {
       set_torch(facts, "2.1.0", nullptr);
       facts.python.conda = std::vector<CondaPackage>{{"pytorch", "2.1.0", "cpu_generic_0", "x"}};
     }},
    {"FW14",
     [](Facts& facts) {
       set_torch(facts, "2.9.1+cpu", nullptr);
       facts.python.machine = std::string("aarch64");
     }},
    {"FW15",
     [](Facts& facts) {
       add(facts, "onnxruntime", "1.18.0");
       add(facts, "onnxruntime-gpu", "1.18.0");
     }},
    {"FW17",
     [](Facts& facts) {
       facts.python.bitsandbytes = std::vector<std::string>{"libbitsandbytes_cuda118.so"};
     }},
    {"FW18",
     [](Facts& facts) {
       add(facts, "torch", "2.6.0", 0);
       add(facts, "torch", "2.8.0", 1);
     }},
};

constexpr Mutation kLibraries[] = {
    {"LIB03",
     [](Facts& facts) {
       add(facts, "nvidia-nccl-cu11", "2.14.3");
       add(facts, "nvidia-nccl-cu12", "2.27.3");
     }},
    {"LIB06",
     [](Facts& facts) { add_library(facts, "libcudnn.so.9", "/venv/site/nvidia/cudnn/lib", "9"); }},
    {"LIB07",
     [](Facts& facts) {
       add(facts, "jax-cuda12-plugin", "0.7.1");
       facts.python.libdevice = std::vector<std::string>{"/usr/local/cuda"};
       add(facts, "nvidia-cudnn-cu12", "9.1.0.70");
     }},
    {"LIB08",
     [](Facts& facts) {
       add(facts, "torch", "2.8.0", 1, {"nvidia-nccl-cu12==2.27.3"});
       add(facts, "nvidia-nccl-cu12", "2.20.5");
     }},
    {"LIB09",
     [](Facts& facts) {
       add(facts, "nvidia-nccl-cu12", "2.20.5", 0);
       add(facts, "nvidia-nccl-cu12", "2.27.3");
     }},
    {"LIB10", [](Facts& facts) { add(facts, "jax-cuda12-plugin", "0.7.1"); }},
};

std::vector<Mutation> mutations() {
  std::vector<Mutation> all(std::begin(kBuilds), std::end(kBuilds));
  all.insert(all.end(), std::begin(kPackages), std::end(kPackages));
  all.insert(all.end(), std::begin(kLibraries), std::end(kLibraries));
  return all;
}

}  // namespace

TEST_CASE("PyTorch that fits its driver and GPU has no finding") {
  CHECK(first(healthy()).empty());
  CHECK(diagnosis(healthy()).not_checked.empty());
}

TEST_CASE("each fault of a framework is named first by its own rule") {
  for (const Mutation& mutation : mutations()) {
    Facts facts = healthy();
    mutation.change(facts);
    CHECK_MESSAGE(first(facts) == mutation.id, mutation.id);
  }
}

TEST_CASE("without a GPU, neither a CPU build nor an old driver is a fault") {
  for (const Mutation& mutation : mutations()) {
    Facts facts = healthy();
    mutation.change(facts);
    facts.driver.gpus = std::vector<GpuAnswer>{};
    facts.machine.pci = std::vector<PciFunction>{};
    const std::string id = mutation.id;
    // Skip faults that break imports, because they also matter without a GPU.
    if (id == "FW05" || id == "FW06" || id == "FW18" || id.starts_with("LIB")) continue;
    CHECK_MESSAGE(first(facts).empty(), id);
  }
}

TEST_CASE("unreadable facts are neither wrong nor fine") {
  Facts facts = healthy();
  const Unreadable why{"/venv", 13};
  facts.python.torch = why;
  facts.python.distributions = why;
  facts.python.libraries = why;
  facts.python.libdevice = why;
  facts.python.bitsandbytes = why;
  facts.python.conda = why;
  const auto found = diagnosis(facts);
  CHECK(found.findings.empty());
  CHECK(found.checked.empty());
}

TEST_CASE("a driver of the same CUDA major serves a newer minor, and a WSL driver counts by CUDA") {
  Facts facts = healthy();
  facts.driver.driver_version = std::string("535.54.03");
  facts.driver.cuda_version = std::string("12.2");
  CHECK(first(facts).empty());
  set_torch(facts, "1.10.0+cu102", "10.2");
  facts.driver.driver_version = std::string("418.87");
  facts.driver.cuda_version = std::string("10.1");
  CHECK(first(facts) == "FW02");
}

TEST_CASE("PTX is compiled only by a driver that is not older than it") {
  Facts facts = healthy();
  set_torch(facts, "2.8.0+cu129", "12.9");
  set_gpu(facts, "a GPU of tomorrow", "13.0");
  CHECK(first(facts).empty());
  facts.driver.driver_version = std::string("570.26");
  facts.driver.cuda_version = std::string("12.8");
  CHECK(first(facts) == "FW03");
}

TEST_CASE("a fix for an old GPU keeps the release and names the index that has its kernels") {
  Facts facts = healthy();
  set_gpu(facts, "Tesla P100-PCIE-16GB", "6.0");
  const auto found = diagnosis(facts).findings;
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].fix.at(0).command ==
        "/venv/bin/python -m pip install --force-reinstall 'torch==2.8.*' --index-url "
        "https://download.pytorch.org/whl/cu126");
}

TEST_CASE("an extension's PyTorch is known from its version, its conda build or its requirement") {
  const auto with = [](auto change) {
    Facts facts = healthy();
    change(facts);
    return first(facts);
  };
  CHECK(with([](Facts& facts) { add(facts, "torch-scatter", "2.1.2+pt28cu128"); }).empty());
  CHECK(with([](Facts& facts) { add(facts, "torch-scatter", "2.1.2+pt24cu124"); }) == "FW06");
  CHECK(with([](Facts& facts) { add(facts, "torch-sparse", "0.6.17+pt113cu117"); }) == "FW06");
  CHECK(with([](Facts& facts) { add(facts, "something", "1.0+ptolemy"); }).empty());
  CHECK(with([](Facts& facts) { add(facts, "xformers", "0.0.28", 1, {"torch==2.5.0"}); }) ==
        "FW06");
  CHECK(with([](Facts& facts) { add(facts, "xformers", "0.0.32", 1, {"torch>=2.8"}); }).empty());
  const auto conda = [&](const char* build) {
    return with([&](Facts& facts) {
      facts.python.conda = std::vector<CondaPackage>{{"pytorch-scatter", "2.1.2", build, "x"}};
    });
  };
  CHECK(conda("py310_torch_2.4.0_cu124") == "FW06");
  CHECK(conda("py310_torch_2.8.0_cu128").empty());
}

TEST_CASE("pip's TensorFlow does not find the CUDA of the conda environment around it") {
  Facts facts = healthy();
  facts.python.torch = Fact<TorchBuild>();
  add(facts, "tensorflow", "2.18.0");
  for (const char* name : {"libcudart.so.12", "libcublas.so.12", "libcudnn.so.9"})
    add_library(facts, name, "/venv/lib", "12.5", CudaLibrary::From::kConda);
  facts.python.libdevice = std::vector<std::string>{"/usr/local/cuda"};
  CHECK(first(facts) == "FW08");
  auto all = *facts.python.libraries;
  for (CudaLibrary& one : all) one.from = CudaLibrary::From::kVariable;
  facts.python.libraries = all;
  CHECK(first(facts).empty());
}

TEST_CASE("onnxruntime for the CPU is reported only if no other package uses the GPU") {
  Facts facts = healthy();
  add(facts, "onnxruntime", "1.22.1");
  CHECK(first(facts).empty());
  facts.python.torch = Fact<TorchBuild>();
  CHECK(first(facts) == "FW15");
  add(facts, "jaxlib", "0.7.1");
  add(facts, "jax-cuda12-plugin", "0.7.1");
  facts.python.libdevice = std::vector<std::string>{"/usr/local/cuda"};
  CHECK(first(facts).empty());
}

TEST_CASE("a Jetson's GPU is on no bus, and a CPU wheel is still the wrong one") {
  Facts facts = healthy();
  set_torch(facts, "2.4.0", nullptr);
  facts.python.machine = std::string("aarch64");
  facts.driver.gpus = std::vector<GpuAnswer>{};
  facts.machine.pci = Unreadable{"/sys/bus/pci/devices", 2};
  CHECK(first(facts).empty());
  facts.machine.is_jetson = true;
  CHECK(first(facts) == "FW14");
}

TEST_CASE("a Jetson's chip tells its compute capability, and only its own SASS runs there") {
  Facts facts = healthy();
  facts.python.machine = std::string("aarch64");
  facts.driver.gpus = std::vector<GpuAnswer>{};
  facts.driver.driver_version = {};
  facts.driver.cuda_version = std::string("12.6");
  facts.machine.is_jetson = true;
  set_torch(facts, "2.5.0a0+872d972e41.nv24.08", "12.6");
  facts.python.torch_code = TorchCode{"/venv/libtorch_cuda.so", {"8.7"}, ""};
  CHECK(first(facts).empty());
  facts.machine.tegra = std::string("tegra234");
  CHECK(first(facts).empty());
  facts.machine.tegra = std::string("tegra194");
  CHECK(first(facts) == "FW04");
}

TEST_CASE("any card of AMD's that ROCm's runtime lists wants a PyTorch for ROCm") {
  Facts facts = healthy();
  facts.driver.gpus = std::vector<GpuAnswer>{};
  facts.machine.pci = std::vector<PciFunction>{};
  CHECK(first(facts).empty());
  // gfx1101: RX 7800 XT
  facts.rocm.nodes = std::vector<KfdNode>{{"1", "0000:0c:00.0", 110001, false}};
  CHECK(first(facts) == "FW07");
  set_torch(facts, "2.8.0+cpu", nullptr);
  CHECK(first(facts) == "FW01");
  // gfx1103: integrated
  facts.rocm.nodes = std::vector<KfdNode>{{"1", "0000:c4:00.0", 110003, false}};
  CHECK(first(facts).empty());
}

TEST_CASE("a processor's GPU counts where ROCm is meant for it, and not beside NVIDIA's") {
  Facts facts = healthy();
  const auto gpus = facts.driver.gpus;
  facts.driver.gpus = std::vector<GpuAnswer>{};
  facts.machine.pci = std::vector<PciFunction>{};
  facts.rocm.nodes = std::vector<KfdNode>{{"1", "0000:c4:00.0", 110003, false}};
  CHECK(first(facts).empty());
  facts.nodes.kfd = GpuNode{"/dev/kfd", {}, 0};
  CHECK(first(facts).empty());  // /dev/kfd is not enough: amdgpu always creates it
  facts.container.kind = std::string("docker");
  CHECK(first(facts) == "FW07");
  facts.container.kind = {};
  facts.rocm.folder = std::string("/opt/rocm");
  CHECK(first(facts) == "FW07");
  facts.driver.gpus = gpus;
  CHECK(first(facts).empty());
}

TEST_CASE("conda's PyTorch of its own channel has the kernels of its toolkit's time") {
  Facts facts = healthy();
  set_torch(facts, "1.4.0", "10.1");
  set_gpu(facts, "NVIDIA GeForce RTX 3060", "8.6");
  const auto built = [&](const char* build) {
    facts.python.conda = std::vector<CondaPackage>{{"pytorch", "1.4.0", build, "x"}};
    return first(facts);
  };
  CHECK(built("py3.7_cuda10.1.243_cudnn7.6.3_0") == "FW03");
  // a build of conda-forge; the GPUs that it supports are unknown
  CHECK(built("cuda101py37h02f0884_0").empty());
}

TEST_CASE("a build of somebody else's is judged by the code in its files, or not at all") {
  Facts facts = healthy();
  set_torch(facts, "2.7.1.post306", "12.9");
  set_gpu(facts, "Orin (nvgpu)", "8.7");
  facts.python.conda =
      std::vector<CondaPackage>{{"pytorch", "2.7.1", "cuda129_py312h6a4aee4_306", "x"}};
  const Unreadable unknown{"/env/lib/libtorch_cuda.so (.nv_fatbin)", 0};
  facts.python.torch_code = unknown;
  const auto found = diagnosis(facts);
  CHECK(found.findings.empty());
  CHECK(std::none_of(found.checked.begin(), found.checked.end(),
                     [](const std::string& id) { return id == "FW03"; }));
  // For CUDA up to 12.6, the tables contain the GPUs of conda-forge's builds.
  set_torch(facts, "2.5.1.post306", "12.6");
  CHECK(first(facts).starts_with("FW0"));
  set_gpu(facts, "NVIDIA GeForce RTX 4090", "8.9");
  CHECK(first(facts).empty());
  set_gpu(facts, "Orin (nvgpu)", "8.7");
  set_torch(facts, "2.7.1.post306", "12.9");
  // The code is for GPUs other than the Jetson's, and does not run on the Jetson.
  facts.python.torch_code = TorchCode{"/env/lib/libtorch_cuda.so", {"8.0", "8.6", "9.0"}, ""};
  CHECK(first(facts).starts_with("FW0"));
  facts.python.torch_code = TorchCode{"/env/lib/libtorch_cuda.so", {"8.0", "8.7"}, ""};
  CHECK(first(facts).empty());
  set_gpu(facts, "NVIDIA GeForce RTX 4090", "8.9");
  CHECK(first(facts).empty());
  facts.python.torch_code = TorchCode{"/env/lib/libtorch_cuda.so", {"8.7"}, ""};
  CHECK(first(facts).starts_with("FW0"));
  facts.python.torch_code = TorchCode{"/env/lib/libtorch_cuda.so", {"5.0"}, "8.0"};
  CHECK(first(facts).empty());
}

TEST_CASE("an older nvJitLink that a variable puts before the wheel's is named with both files") {
  Facts facts = healthy();
  add(facts, "nvidia-nvjitlink-cu12", "12.8.61");
  add_library(facts, "libnvJitLink.so.12", "/venv/site/nvidia/nvjitlink/lib", "");
  add_library(facts, "libnvJitLink.so.12", "/usr/local/cuda-12.1/lib64", "12.1.105",
              CudaLibrary::From::kVariable);
  facts.process.environment = Environment{{"LD_LIBRARY_PATH", "/usr/local/cuda-12.1/lib64"}};
  const auto found = diagnose(facts, Knowledge{}, {"ENV08"}).findings;
  REQUIRE(found.size() == 1);
  CHECK(found[0].evidence[0].find("/usr/local/cuda-12.1/lib64/") != std::string::npos);
  CHECK(found[0].evidence[1].find("/venv/site/nvidia/nvjitlink/lib/") != std::string::npos);
  // There is no finding if the nvJitLink in LD_LIBRARY_PATH is newer, because it also works.
  for (const char* version : {"12.8.93", "12.9.41", "12"}) {
    Facts other = healthy();
    add(other, "nvidia-nvjitlink-cu12", "12.8.61");
    add_library(other, "libnvJitLink.so.12", "/venv/site/nvidia/nvjitlink/lib", "");
    add_library(other, "libnvJitLink.so.12", "/opt/lib", version, CudaLibrary::From::kVariable);
    CHECK(diagnose(other, Knowledge{}, {"ENV08"}).findings.empty());
  }
  Facts linked = healthy();
  add(linked, "nvidia-nccl-cu12", "2.27.3");
  add_library(linked, "libnccl.so.2", "/venv/site/nvidia/nccl/lib", "");
  add_library(linked, "libnccl.so.2", "/opt/lib", "2.18.1", CudaLibrary::From::kVariable);
  CHECK(diagnose(linked, Knowledge{}, {"ENV08"}).findings.empty());
}

TEST_CASE("bitsandbytes is asked for a binary that it has, or the variable is named") {
  Facts facts = healthy();
  facts.python.bitsandbytes =
      std::vector<std::string>{"libbitsandbytes_cuda121.so", "libbitsandbytes_cuda128.so"};
  facts.process.environment = Environment{{"BNB_CUDA_VERSION", "121"}};
  CHECK(diagnose(facts, Knowledge{}, {"ENV18", "FW17"}).findings.empty());
  facts.process.environment = Environment{{"BNB_CUDA_VERSION", "12"}};
  CHECK(diagnose(facts, Knowledge{}, {"ENV18"}).findings.size() == 1);
}

TEST_CASE("an Intel card alone asks for a PyTorch with XPU") {
  Facts facts = healthy();
  facts.driver.gpus = std::vector<GpuAnswer>{};
  PciFunction card;
  card.address = "0000:03:00.0";
  card.vendor = 0x8086;
  card.device = 0x56a0;
  card.class_code = 0x030000;
  facts.machine.pci = std::vector{card};
  CHECK(diagnose(facts, Knowledge{}, {"XPU01"}).findings.size() == 1);
  TorchBuild torch = *facts.python.torch;
  torch.xpu = std::string("20250201");
  facts.python.torch = torch;
  CHECK(diagnose(facts, Knowledge{}, {"XPU01"}).findings.empty());
  torch.xpu = Fact<std::string>();
  facts.python.torch = torch;
  add(facts, "intel-extension-for-pytorch", "2.3.0");  // the CPU build from PyPI
  CHECK(diagnose(facts, Knowledge{}, {"XPU01"}).findings.size() == 1);
  card.address = "0000:00:02.0";
  card.device = 0x4680;
  facts.machine.pci = std::vector{card};
  const auto of_processor = diagnose(facts, Knowledge{}, {"XPU01"}).findings;
  REQUIRE(of_processor.size() == 1);
  CHECK(of_processor.front().severity == Severity::kInfo);
  facts.python.distributions = std::vector<Distribution>{};
  add(facts, "intel-extension-for-pytorch", "2.1.10+xpu");
  CHECK(diagnose(facts, Knowledge{}, {"XPU01"}).findings.empty());
}

TEST_CASE("an old Python is named where only newer ones have a PyTorch for the GPU") {
  Facts facts = healthy();
  set_gpu(facts, "NVIDIA GeForce RTX 5090", "12.0");
  set_torch(facts, "2.4.1+cu121", "12.1");
  facts.python.version = std::string("3.8");
  CHECK(diagnose(facts, Knowledge{}, {"FW12"}).findings.size() == 1);
  facts.python.version = std::string("3.12");
  CHECK(diagnose(facts, Knowledge{}, {"FW12"}).findings.empty());
}

TEST_CASE("a vLLM that reads numbers only is not given a name") {
  Facts facts = healthy();
  edit_answer(facts);
  add(facts, "vllm", "0.22.0");
  facts.process.environment = Environment{{"CUDA_VISIBLE_DEVICES", "GPU-aa11"}};
  CHECK(diagnose(facts, Knowledge{}, {"ENV03"}).findings.size() == 1);
  facts.process.environment = Environment{{"CUDA_VISIBLE_DEVICES", "0"}};
  CHECK(diagnose(facts, Knowledge{}, {"ENV03"}).findings.empty());
}

}  // namespace frameworks_test
