#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <numeric>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using tests::card;

namespace other_platforms_test {
namespace {

GpuNode node(const std::string& path, std::uint32_t vendor, int open_error = 0) {
  GpuNode one{path, {}, vendor};
  one.node.type = NodeType::kCharacter;
  one.node.mode = 0660;
  one.node.gid = 109;
  one.node.open_error = open_error;
  return one;
}

std::vector<int> processors(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Facts machine() {
  Facts facts;
  facts.machine.kernel = std::string("6.8.0-45-generic");
  facts.machine.modules = std::vector<std::string>{};
  facts.machine.pci = std::vector<PciFunction>{};
  facts.files.cuda = facts.files.nvml = std::vector<LibraryFile>{};
  facts.files.level_zero = facts.files.intel_driver = std::vector<LibraryFile>{};
  facts.nodes.render = std::vector<GpuNode>{};
  facts.wsl.driver_library = facts.wsl.folder_is_searched = false;
  facts.process.identity = Identity{1000, 1000, {1000}};
  facts.process.environment = Environment{};
  facts.process.cpus = processors(16);
  facts.platform.cpu.online = processors(16);
  facts.platform.command_line = std::string("ro quiet");
  return facts;
}

Facts radeon() {
  Facts facts = machine();
  facts.machine.pci = std::vector{card("0000:03:00.0", 0x1002, 0x744c, "amdgpu")};
  facts.rocm.nodes = std::vector<KfdNode>{{"1", "0000:03:00.0", 110000, false}};
  facts.rocm.folder = std::string("/opt/rocm");
  facts.rocm.rocblas_targets = std::vector<std::string>{"gfx1030", "gfx1100"};
  facts.rocm.rocblas_folder = "/opt/rocm/lib/rocblas/library";
  facts.nodes.kfd = node("/dev/kfd", 0);
  facts.nodes.render = std::vector{node("/dev/dri/renderD128", 0x1002)};
  return facts;
}

std::vector<LibraryFile> runtime_of(const std::string& version) {
  return {{"/l/libze_intel_gpu.so.1", "/l/libze_intel_gpu.so." + version}};
}

Facts arc() {
  Facts facts = machine();
  facts.machine.pci = std::vector{card("0000:03:00.0", 0x8086, 0x56a0, "xe")};
  facts.files.intel_driver = std::vector<LibraryFile>{{"/l/libze_intel_gpu.so.1", "/l/x"}};
  facts.nodes.render = std::vector{node("/dev/dri/renderD128", 0x8086)};
  return facts;
}

Facts wsl() {
  Facts facts = machine();
  facts.machine.kernel = std::string("5.15.153.1-microsoft-standard-WSL2");
  facts.wsl.folder = std::string("/usr/lib/wsl");
  facts.wsl.driver_library = facts.wsl.folder_is_searched = true;
  facts.nodes.dxg = node("/dev/dxg", 0);
  facts.files.cuda = std::vector<LibraryFile>{
      {"/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1.1"}};
  facts.driver.nvml_init = 0;
  return facts;
}

struct Mutation {
  const char* rule;
  Facts (*healthy)();
  std::function<void(Facts&)> change;
};

void set(Facts& facts, const std::string& name, const std::string& value) {
  Environment changed = *facts.process.environment;
  changed[name] = value;
  facts.process.environment = changed;
}

std::vector<Mutation> vendor_mutations() {
  return {
      {"AMD01", radeon, [](Facts& f) { f.nodes.kfd = node("/dev/kfd", 0, EACCES); }},
      {"AMD01", radeon, [](Facts& f) { f.nodes.kfd = {}; }},
      {"AMD01", radeon,
       [](Facts& f) { f.nodes.render = std::vector{node("/dev/dri/renderD128", 0x1002, EACCES)}; }},
      {"AMD02", radeon,
       [](Facts& f) {
         f.rocm.nodes = std::vector<KfdNode>{{"1", "0000:03:00.0", 100301, false}};
       }},
      {"AMD04", radeon,
       [](Facts& f) {
         f.machine.pci = std::vector{card("0000:03:00.0", 0x1002, 0x744c, "amdgpu"),
                                     card("0000:06:00.0", 0x1002, 0x744c, "amdgpu")};
       }},
      {"AMD05", radeon,
       [](Facts& f) {
         f.rocm.nodes = std::vector<KfdNode>{{"1", "0000:03:00.0", 110000, false},
                                             {"2", "0000:0e:00.0", 100306, false}};
       }},
      {"AMD06", radeon,
       [](Facts& f) {
         f.machine.kernel_log = std::vector<std::string>{
             "kfd kfd: amdgpu: skipped device 1002:744c, PCI rejects atomics"};
         f.rocm.nodes = std::vector<KfdNode>{};
       }},
      {"AMD06", radeon,
       [](Facts& f) {
         f.machine.kernel_log = Unreadable{"/dev/kmsg", EPERM};
         f.rocm.nodes = std::vector<KfdNode>{};
       }},
      {"XPU04", arc,
       [](Facts& f) {
         f.machine.kernel = std::string("6.1.7-arch1-1");
         f.platform.command_line = std::string("quiet i915.force_probe=56a0");
       }},
      {"XPU04", arc,
       [](Facts& f) {
         f.machine.kernel = std::string("5.19.0-50-generic");
         std::vector<PciFunction> cards = *f.machine.pci;
         cards.front().driver = {};
         f.machine.pci = cards;
       }},
      {"XPU02", arc, [](Facts& f) { f.files.intel_driver = std::vector<LibraryFile>{}; }},
      {"XPU02", arc,
       [](Facts& f) {
         f.machine.pci = std::vector{card("0000:03:00.0", 0x8086, 0xe20b, "xe")};
         f.machine.kernel = std::string("6.14.0-35-generic");
         f.files.intel_driver = runtime_of("1.3.27642");
       }},
      {"XPU03", arc,
       [](Facts& f) { f.nodes.render = std::vector{node("/dev/dri/renderD128", 0x8086, EACCES)}; }},
  };
}

std::vector<Mutation> machine_mutations() {
  return {
      {"WSL01", wsl,
       [](Facts& f) {
         f.files.nvml =
             std::vector<LibraryFile>{{"/l/libnvidia-ml.so.1", "/l/libnvidia-ml.so.510.85.02"}};
       }},
      {"WSL01", wsl,
       [](Facts& f) {
         f.files.cuda = std::vector<LibraryFile>{};
         f.wsl.folder_is_searched = false;
         f.driver.nvml_init = {};
       }},
      {"WSL02", wsl, [](Facts& f) { f.nodes.dxg = {}; }},
      {"WSL03", wsl, [](Facts& f) { f.driver.nvml_init = 17; }},
      {"CPU01", machine, [](Facts& f) { f.process.quota_cores = 2.0; }},
      {"CPU01", machine, [](Facts& f) { set(f, "LOCAL_WORLD_SIZE", "8"); }},
      {"CPU02", machine, [](Facts& f) { set(f, "OMP_NUM_THREADS", "1"); }},
      {"CPU03", machine,
       [](Facts& f) {
         f.platform.cpu.online = processors(256);
         f.process.cgroup_processes_limit = std::uint64_t{100};
       }},
      {"CPU05", machine,
       [](Facts& f) {
         f.platform.cpu.governor = std::string("powersave");
         f.platform.cpu.frequency_driver = std::string("acpi-cpufreq");
       }},
  };
}

std::vector<Mutation> mutations() {
  std::vector<Mutation> all = vendor_mutations();
  for (Mutation& one : machine_mutations()) all.push_back(std::move(one));
  return all;
}

std::vector<Rule> rules() {
  return tests::joined(
      {other_platform_rules(), intel_rules(), left_out_rules(), processor_rules()});
}

std::string first(const Facts& facts) {
  return tests::first_of(rules(), facts);
}

}  // namespace

TEST_CASE("one thing wrong with ROCm, Intel's GPUs, WSL or the processor is named first") {
  for (const Mutation& one : mutations()) {
    CAPTURE(one.rule);
    Facts facts = one.healthy();
    CHECK(first(facts).empty());
    one.change(facts);
    CHECK(first(facts) == one.rule);
  }
}

TEST_CASE(
    "nodes, libraries and buses that cannot be read have nothing wrong, and are not checked") {
  for (const Mutation& one : mutations()) {
    CAPTURE(one.rule);
    Facts facts = one.healthy();
    one.change(facts);
    facts.machine.pci = Unreadable{"/sys/bus/pci/devices", EACCES};
    facts.machine.kernel = Unreadable{"/proc/sys/kernel/osrelease", EACCES};
    facts.wsl.folder = {};
    facts.rocm.nodes = Unreadable{"/sys/class/kfd", EACCES};
    facts.process.cpus = Unreadable{"cpus", 0};
    facts.platform.cpu.governor = Unreadable{"scaling_governor", EACCES};
    const auto diagnosis = diagnose_with(rules(), facts, {});
    CHECK(diagnosis.findings.empty());
    CHECK(std::find(diagnosis.checked.begin(), diagnosis.checked.end(), one.rule) ==
          diagnosis.checked.end());
  }
}

TEST_CASE("graphics of a processor that nobody computes on are left alone") {
  Facts laptop = radeon();
  laptop.rocm.nodes = std::vector<KfdNode>{{"1", "0000:03:00.0", 90012, false}};
  laptop.rocm.folder = {};
  laptop.rocm.rocblas_targets = {};
  laptop.nodes.kfd = node("/dev/kfd", 0, EACCES);
  CHECK(first(laptop).empty());
  Facts intel = arc();
  intel.machine.pci = std::vector{card("0000:00:02.0", 0x8086, 0x9a49, "i915")};
  intel.files.intel_driver = std::vector<LibraryFile>{};
  intel.nodes.render = std::vector{node("/dev/dri/renderD128", 0x8086, EACCES)};
  CHECK(first(intel).empty());
}

TEST_CASE("a governor that follows the load, and ranks that share cores fairly, are left alone") {
  Facts facts = machine();
  facts.platform.cpu.governor = std::string("powersave");
  facts.platform.cpu.frequency_driver = std::string("intel_pstate");
  set(facts, "LOCAL_WORLD_SIZE", "8");
  set(facts, "OMP_NUM_THREADS", "1");
  CHECK(first(facts).empty());
}

TEST_CASE("the rocBLAS that PyTorch's wheel brings counts, not that of the machine") {
  const berth::system::TemporaryTree folder;
  const std::string site = "venv/lib/python3.12/site-packages/";
  folder.put("venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n");
  folder.put("opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1151.dat", "");
  const auto read = [&] {
    const Tree tree(folder.path);
    return collect_rocm(tree, Environment{},
                        collect_python(tree, Environment{}, "/venv/bin/python"));
  };
  using Targets = std::vector<std::string>;
  CHECK(*read().rocblas_targets == Targets{"gfx1151"});
  folder.put(site + "torch/version.py", "__version__ = '2.9.0'\ncuda = None\nhip = '7.0'\n");
  /// PyTorch contains no rocBLAS, so the system's rocBLAS is used
  CHECK(*read().rocblas_targets == Targets{"gfx1151"});
  folder.put(site + "_rocm_sdk_libraries_gfx110X/lib/rocblas/library/Kernels_gfx1100.co", "");
  folder.put(site + "_rocm_sdk_libraries_gfx120X/lib/rocblas/library/Kernels_gfx1200.co", "");
  CHECK(*read().rocblas_targets == Targets{"gfx1100", "gfx1200"});
  folder.put(site + "torch/lib/rocblas/library/TensileLibrary_lazy_gfx942.dat", "");
  CHECK(*read().rocblas_targets == Targets{"gfx942"});
  folder.put(site + "torch/version.py", "__version__ = '2.9.0'\ncuda = '12.8'\nhip = None\n");
  CHECK(*read().rocblas_targets == Targets{"gfx1151"});
}

TEST_CASE("a PyTorch without code for the GPU is told where there are builds that have it") {
  Facts facts = radeon();
  TorchBuild torch;
  torch.version = "2.6.0+rocm6.1";
  torch.hip = std::string("6.1.40091");
  facts.python.torch = torch;
  facts.python.interpreter = std::string("/venv/bin/python");
  facts.rocm.rocblas_folder = "/venv/lib/python3.12/site-packages/torch/lib/rocblas/library";
  facts.rocm.nodes = std::vector<KfdNode>{{"1", "0000:c5:00.0", 110501, false}};
  const auto found = diagnose(facts, Knowledge{}, {"AMD02"}).findings;
  REQUIRE(found.size() == 1);
  CHECK(found[0].title.find("PyTorch 2.6.0+rocm6.1") == 0);
  CHECK(found[0].fix.at(0).command.find("/rocm") != std::string::npos);
}

TEST_CASE(
    "a GPU runs its relative's code where the library has that, and first where both are alike") {
  Facts facts = radeon();
  facts.rocm.rocblas_folder = "/opt/rocm/lib/rocblas/library";
  const auto fixes = [&](unsigned target, std::vector<std::string> targets) {
    facts.rocm.nodes = std::vector<KfdNode>{{"1", "0000:03:00.0", target, false}};
    facts.rocm.rocblas_targets = std::move(targets);
    std::string all;
    const auto found = diagnose(facts, Knowledge{}, {"AMD02"}).findings;
    for (const auto& fix : found.at(0).fix) all += fix.command + ";";
    return all;
  };
  CHECK(fixes(100301, {"gfx906", "gfx1030"}).starts_with("export HSA_OVERRIDE_GFX_VERSION=10.3.0"));
  CHECK(fixes(100301, {"gfx906", "gfx1100"}).find("HSA_OVERRIDE") == std::string::npos);
  CHECK(fixes(100102, {"gfx1010", "gfx1030"}).find("=10.1.0") != std::string::npos);
  CHECK(fixes(100100, {"gfx1030"}).find("=10.3.0") != std::string::npos);
  CHECK(fixes(110002, {"gfx1100"}).starts_with("export HSA_OVERRIDE_GFX_VERSION=11.0.0"));
  TorchBuild torch;
  torch.version = "2.6.0+rocm6.2.4";
  torch.hip = std::string("6.2.41134");
  facts.python.torch = torch;
  facts.rocm.rocblas_folder = "/venv/lib/python3.12/site-packages/torch/lib/rocblas/library";
  CHECK(fixes(100301, {"gfx1030"}).starts_with("export HSA_OVERRIDE_GFX_VERSION=10.3.0"));
  const std::string other = fixes(110501, {"gfx1100"});
  CHECK(other.find("pip install") < other.find("HSA_OVERRIDE_GFX_VERSION=11.0.0"));
}

TEST_CASE("Intel's compute runtime is as new as the GPU, and not newer than an old one") {
  struct Case {
    const char* what;
    std::uint32_t device;
    const char *version, *finding;
  };
  for (const Case& one :
       std::vector<Case>{{"a B580 and 23.43 of Ubuntu 24.04", 0xe20b, "1.3.27642", "XPU02"},
                         {"a B580 and the first release that knows it", 0xe20b, "1.3.30508", ""},
                         {"a B60 with a newer one", 0xe211, "1.15.38308", ""},
                         {"Panther Lake and a year too early", 0xb080, "1.6.31740", "XPU02"},
                         {"Meteor Lake and 22.43", 0x7d55, "1.3.24595", "XPU02"},
                         {"Meteor Lake and the first", 0x7d55, "1.3.25242", ""},
                         {"an N100 and 22.14 of Ubuntu 22.04", 0x46d1, "1.3.22890", "XPU02"},
                         {"an N150 and 23.43 of Ubuntu 24.04", 0x46d4, "1.3.27642", "XPU02"},
                         {"an Arc A770 with an old one", 0x56a0, "1.3.24595", ""},
                         {"a UHD 620 and the release after its last", 0x5917, "1.6.31294", "XPU02"},
                         {"a UHD 620 and its last", 0x5917, "1.3.30872", ""},
                         {"Tiger Lake and the newest", 0x9a49, "1.15.38308", ""},
                         {"a distribution's own numbers", 0x5917, "1.13.0", ""}}) {
    CAPTURE(one.what);
    Facts facts = arc();
    facts.machine.kernel = std::string("6.17.0-5-generic");
    facts.machine.pci = std::vector{card("0000:00:02.0", 0x8086, one.device, "xe")};
    facts.files.intel_driver = runtime_of(one.version);
    facts.files.intel_legacy = std::vector<LibraryFile>{};
    CHECK(first(facts) == one.finding);
  }
  Facts facts = arc();
  facts.machine.pci = std::vector{card("0000:00:02.0", 0x8086, 0x5917, "i915")};
  facts.files.intel_driver = runtime_of("1.6.31294");
  facts.files.intel_legacy = std::vector<LibraryFile>{
      {"/l/libze_intel_gpu_legacy1.so.1", "/l/libze_intel_gpu_legacy1.so.1.3.30872"}};
  CHECK_MESSAGE(first(facts).empty(), "the packages for older GPUs are here");
  facts.files.intel_legacy = std::vector<LibraryFile>{};
  facts.machine.pci = std::vector{card("0000:00:02.0", 0x8086, 0x3e92, "i915"),
                                  card("0000:03:00.0", 0x8086, 0x56a0, "i915")};
  CHECK_MESSAGE(first(facts).empty(), "an Arc beside the processor's graphics is meant");
}

TEST_CASE("an Intel card that the host sees a small part of") {
  constexpr std::uint64_t kMib = 1 << 20;
  const auto severity = [](std::uint64_t window, const char* driver, std::uint32_t device) {
    Facts facts = arc();
    PciFunction one = card("0000:03:00.0", 0x8086, device, driver);
    // Sizes of the BARs: registers, an unused entry, memory (`window`), and then the BARs of
    // virtual functions.
    one.bar_sizes =
        std::vector<std::uint64_t>{16 * kMib, 0, window, 0, 0, 0, 2 * kMib, 0, 8192 * kMib};
    facts.machine.pci = std::vector{one};
    const auto found = diagnose_with(tests::joined({runtime_rules()}), facts, {}).findings;
    return found.empty() ? ""
                         : found.front().id +
                               (found.front().severity == Severity::kError ? " error" : " info");
  };
  CHECK(severity(256 * kMib, "xe", 0xe20b) == "RT10 error");
  CHECK(severity(256 * kMib, "i915", 0x56a0) == "RT10 info");
  CHECK(severity(16384 * kMib, "xe", 0xe20b).empty());
  CHECK(severity(256 * kMib, "xe", 0x9a49).empty());
}

TEST_CASE("a PyTorch for XPU is as new as the GPU") {
  Facts facts = arc();
  facts.machine.pci = std::vector{card("0000:00:02.0", 0x8086, 0xb080, "xe")};
  TorchBuild torch;
  torch.path = "/venv/site/torch/version.py";
  torch.xpu = std::string("20250000");
  for (const auto& [version, is_old] :
       {std::pair{"2.6.0+xpu", true}, {"2.9.1+xpu", true}, {"2.10.0+xpu", false}}) {
    const auto shown = version;  // clang cannot capture structured bindings in lambdas
    CAPTURE(shown);
    torch.version = version;
    facts.python.torch = torch;
    CHECK(diagnose(facts, Knowledge{}, {"FW03"}).findings.size() == (is_old ? 1 : 0));
  }
  torch.version = "2.6.0+xpu";
  facts.python.torch = torch;
  facts.machine.pci = std::vector{card("0000:00:02.0", 0x8086, 0x64a0, "xe")};
  CHECK(diagnose(facts, Knowledge{}, {"FW03"}).findings.empty());
}

TEST_CASE("a build for ROCm is fetched from an index that is there") {
  Facts facts = radeon();
  TorchBuild torch;
  torch.version = "2.15.0+cu132";
  torch.path = "/venv/torch/version.py";
  torch.cuda = std::string("13.2");
  facts.python.torch = torch;
  facts.python.interpreter = std::string("/venv/bin/python");
  for (const auto& finding : diagnose(facts, Knowledge{}, {"FW07"}).findings)
    CHECK(finding.fix.at(0).command.find("/rocm7") != std::string::npos);
  CHECK(diagnose(facts, Knowledge{}, {"FW07"}).findings.size() == 1);
}

}  // namespace other_platforms_test
