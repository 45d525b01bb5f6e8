#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;
using tests::alter;
using tests::card;
using tests::severity_of;

namespace rocm_test {
namespace {

Distribution package(const char* name, const char* version) {
  Distribution one;
  one.name = name, one.version = version, one.path = std::string("/venv/") + name;
  return one;
}

/// A machine with ROCm and an integrated GPU, which may use half of 128 GiB.
Facts strix_halo() {
  Facts facts;
  facts.machine.kernel = std::string("6.14.0-33-generic");
  facts.machine.pci = std::vector{card("0000:c5:00.0", 0x1002, 0x1586, "amdgpu")};
  facts.machine.memory_bytes = 125ULL << 30;
  facts.platform.command_line = std::string("quiet");
  facts.rocm.nodes = std::vector{KfdNode{"1", "0000:c5:00.0", 110501, false}};
  facts.rocm.folder = std::string("/opt/rocm");
  facts.rocm.memory = std::vector{AmdMemory{"0000:c5:00.0", 512ULL << 20, 62ULL << 30}};
  facts.nvidia.modprobe = std::vector<ModprobeLine>{};
  facts.process.environment = Environment{};
  return facts;
}

}  // namespace

TEST_CASE("a processor's GPU gets half of the memory, unless somebody says more") {
  const auto memory = [](const Facts& facts) { return severity_of(rocm_rules(), facts, "AMD09"); };
  const auto but = [&](auto change) {
    Facts facts = strix_halo();
    change(facts);
    return memory(facts);
  };
  CHECK(memory(strix_halo()) == "info");
  CHECK(but([](Facts& f) { f.platform.command_line = std::string("ttm.pages_limit=1"); }).empty());
  CHECK(but([](Facts& f) {
          alter(f.rocm.memory, [](auto& it) { it.front().own = 96ULL << 30; });
          f.machine.kernel = std::string("6.16.9-061609-generic");
        }).empty());
  // Kernels before 6.16.9 report only a part of the memory to ROCm, but AMD's own driver reports
  // all of it.
  CHECK(but([](Facts& f) {
          alter(f.rocm.memory, [](auto& it) { it.front().own = 96ULL << 30; });
        }) == "warning");
  CHECK(but([](Facts& f) {
          alter(f.rocm.memory, [](auto& it) { it.front().own = 96ULL << 30; });
          f.rocm.driver_release = std::string("7.0");
        }).empty());
  CHECK(but([](Facts& f) {
          alter(f.rocm.memory, [](auto& it) { it.front().machines = 100ULL << 30; });
        }).empty());
  CHECK(but([](Facts& f) { f.rocm.folder = {}; }).empty());
  // No finding with a discrete GPU, because programs use that one.
  CHECK(but([](Facts& f) {
          alter(f.rocm.nodes, [](auto& it) { it.push_back({"2", "", 110000, false}); });
        }).empty());
  CHECK(but([](Facts& f) { f.platform.command_line = std::string("amdgpu.gtt_size=98304"); }) ==
        "warning");
  CHECK(but([](Facts& f) {
          alter(f.nvidia.modprobe, [](auto& it) {
            it.push_back({"/etc/modprobe.d/a.conf", "options amdgpu gtt_size=9"});
          });
        }) == "warning");
}

TEST_CASE("PyTorch's own runtime counts inside WSL alone, and where there is another one") {
  Facts facts = strix_halo();
  facts.machine.is_wsl = true;
  facts.machine.kernel = std::string("6.6.87-microsoft-standard-WSL2");
  facts.nodes.dxg = GpuNode{"/dev/dxg", {}, 0};
  facts.rocm.wsl_runtime = std::string("1.13.0");
  facts.rocm.own_runtime = std::string("/venv/torch/lib/libhsa-runtime64.so");
  const auto runtime = [&] { return severity_of(rocm_rules(), facts, "WSL05"); };
  CHECK(runtime() == "error");
  facts.rocm.own_runtime = {};
  CHECK(runtime().empty());
  facts.rocm.own_runtime = std::string("/venv/torch/lib/libhsa-runtime64.so");
  facts.rocm.wsl_runtime = std::string();
  CHECK(runtime().empty());
  facts.rocm.wsl_runtime = std::string("1.13.0");
  facts.machine.is_wsl = false;
  facts.machine.kernel = std::string("6.14.0-33-generic");
  CHECK(runtime().empty());
}

TEST_CASE("vLLM knows AMD's GPUs by amdsmi, and NVIDIA's by the module of nvidia-ml-py") {
  const auto server = [](const Facts& facts) { return severity_of(rocm_rules(), facts, "FW29"); };
  Facts facts = strix_halo();
  facts.rocm.nodes = std::vector{KfdNode{"1", "0000:c5:00.0", 110000, false}};
  TorchBuild torch;
  torch.version = "2.7.0+rocm6.3", torch.hip = std::string("6.3");
  facts.python.torch = torch;
  facts.python.distributions = std::vector{package("vllm", "0.9.1")};
  facts.parts.amdsmi = false;
  CHECK(server(facts) == "error");
  facts.parts.amdsmi = true;
  CHECK(server(facts).empty());
  facts.parts.amdsmi = false;
  facts.python.distributions = std::vector{package("torch", "2.7.0+rocm6.3")};
  CHECK(server(facts).empty());

  facts = tests::workstation("550.54.15", "12.4");
  facts.machine.modules = std::vector<std::string>{"nvidia"};
  const auto with = [&](const char* vllm, const char* pynvml) {
    facts.python.distributions = std::vector{package("vllm", vllm), package("pynvml", pynvml),
                                             package("nvidia-ml-py", "12.560.30")};
    return server(facts);
  };
  CHECK(with("0.6.3", "11.5.3") == "warning");
  CHECK(with("0.6.3", "12.0.0").empty());
  CHECK(with("0.8.5", "11.5.3").empty());
}

TEST_CASE("a kernel whose amdgpu has a fault with this GPU is named, unless a word avoids it") {
  const auto kernel = [](unsigned target, const char* release, const char* line) {
    Facts facts = strix_halo();
    facts.rocm.nodes = std::vector{KfdNode{"1", "0000:c5:00.0", target, false}};
    facts.machine.kernel = std::string(release);
    facts.platform.command_line = std::string(line);
    return severity_of(rocm_rules(), facts, "AMD11");
  };
  CHECK(kernel(80003, "6.13.5-200.fc41.x86_64", "quiet") == "warning");
  CHECK(kernel(80003, "6.12.9-arch1-1", "quiet") == "warning");
  CHECK(kernel(80003, "6.12.21+bpo-amd64", "quiet").empty());
  CHECK(kernel(80003, "6.14.0", "quiet").empty());
  CHECK(kernel(90000, "6.13.5", "quiet").empty());
  CHECK(kernel(110501, "6.17.8-300.fc43.x86_64", "quiet") == "info");
  CHECK(kernel(110501, "6.17.8-300.fc43.x86_64", "quiet amdgpu.cwsr_enable=0").empty());
  CHECK(kernel(110501, "6.18.1", "quiet").empty());
  CHECK(kernel(110501, "6.17.9-300.fc43.x86_64", "quiet").empty());
  // Ubuntu added the fix to its OEM kernels before the official release that contains it.
  CHECK(kernel(110501, "6.14.0-1018-oem", "quiet").empty());
  CHECK(kernel(110501, "6.17.0-1020-oem", "quiet").empty());
  CHECK(kernel(110501, "6.14.0-1017-oem", "quiet") == "info");
  CHECK(kernel(110501, "6.11.0-1027-oem", "quiet") == "info");
  CHECK(kernel(110501, "6.14.0-1018-gcp", "quiet") == "info");
  CHECK(kernel(110501, "6.14.0-37-generic", "quiet") == "info");
}

TEST_CASE("an image's variable lists the GPUs that its PyTorch was compiled for") {
  const auto told = [](unsigned target, const char* targets, const char* version,
                       const char* folder) {
    Facts facts = strix_halo();
    facts.container.kind = std::string("docker");
    facts.rocm.nodes = std::vector{KfdNode{"1", "0000:03:00.0", target, false}};
    facts.process.environment = Environment{{"PYTORCH_ROCM_ARCH", targets}};
    TorchBuild torch;
    torch.path = std::string(folder) + "/torch/version.py";
    torch.version = version, torch.hip = std::string("7.0");
    facts.python.torch = torch;
    return severity_of(other_platform_rules(), facts, "AMD02");
  };
  constexpr const char *kGit = "2.8.0+gitba56102", *kOpt = "/opt/venv/lib/site-packages";
  CHECK(told(110002, "gfx942;gfx1100", kGit, kOpt) == "warning");
  CHECK(told(110002, "gfx942;gfx1102", kGit, kOpt).empty());
  CHECK(told(110002, "gfx1100", "2.9.1+rocm7.1.1.lw.git351ff442",
             "/usr/local/lib/python3.12/dist-packages") == "warning");
  // The user compiled this PyTorch, so PYTORCH_ROCM_ARCH has the targets for building extensions.
  CHECK(told(110002, "gfx942", kGit, "/home/ada/venv/lib/site-packages").empty());
  CHECK(told(110002, "gfx942", "2.8.0a0", kOpt).empty());
  // Code for a family of GPUs runs on all GPUs of the family.
  for (const auto& [target, family, other] :
       {std::tuple(90012U, "gfx9-generic", "gfx9-4-generic"),
        std::tuple(90500U, "gfx9-4-generic", "gfx9-generic"),
        std::tuple(100103U, "gfx10-1-generic", "gfx10-3-generic"),
        std::tuple(100306U, "gfx10-3-generic", "gfx10-1-generic"),
        std::tuple(110002U, "gfx11-generic", "gfx12-generic"),
        std::tuple(110503U, "gfx11-generic", "gfx12-generic"),
        std::tuple(120001U, "gfx12-generic", "gfx11-generic")}) {
    const auto shown = target;  // clang cannot capture structured bindings in lambdas
    CAPTURE(shown);
    CHECK(told(target, family, kGit, kOpt).empty());
    CHECK(told(target, other, kGit, kOpt) == "warning");
  }
  CHECK(told(90010, "gfx9-generic", kGit, kOpt) == "warning");
}

}  // namespace rocm_test
