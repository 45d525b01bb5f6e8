// Tests that fixes have no unintended effects.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/ground_for_tests.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/reinstall.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace fixes_test {
namespace {

void add(Facts& facts, const std::string& name, const std::string& version) {
  auto all = facts.python.distributions.value_or({});
  all.push_back({name, version, "/venv/site/" + name + "-" + version + ".dist-info", 0, {}, ""});
  facts.python.distributions = all;
}

std::string fix_of(const Facts& facts, const char* rule) {
  const auto found = diagnose(facts, Knowledge{}, {rule}).findings;
  return found.empty() || found[0].fix.empty() ? "" : found[0].fix[0].command;
}

}  // namespace

TEST_CASE("the driver is purged without the container toolkit and without CUDA's") {
  const Facts facts = healthy();
  const Knowledge known;
  Examination look(facts, known, Severity::kFatal);
  const std::string command = on_system(look, "driver_purge", "").command;
  REQUIRE(command.starts_with("sudo apt-get purge"));
  const auto purged = [&](const std::string& package) {
    std::string rest = command;
    for (std::smatch word; std::regex_search(rest, word, std::regex("'([^']*)'"));
         rest = word.suffix())
      if (std::regex_search(package, std::regex(word[1].str(), std::regex::extended))) return true;
    return false;
  };
  for (const char* package : {"nvidia-driver-550", "nvidia-dkms-550-open", "libnvidia-compute-550",
                              "libnvidia-gl-550", "nvidia-utils-550", "libcuda1", "cuda-drivers"}) {
    CAPTURE(package);
    CHECK(purged(package));
  }
  for (const char* package : {"nvidia-container-toolkit", "nvidia-container-toolkit-base",
                              "libnvidia-container1", "libnvidia-container-tools",
                              "nvidia-cuda-toolkit", "nvidia-docker2", "cuda-toolkit-12-4"}) {
    CAPTURE(package);
    CHECK_FALSE(purged(package));
  }
}

TEST_CASE("where each kind of NVIDIA's module leaves one GPU, neither is told to be installed") {
  Facts facts = healthy();
  auto all = *facts.machine.pci;
  const auto gpu = std::find_if(all.begin(), all.end(),
                                [](const PciFunction& one) { return one.is_nvidia_gpu(); });
  REQUIRE(gpu != all.end());
  PciFunction other = *gpu;
  gpu->device = 0x1b80;
  other.address = "0000:41:00.0";
  other.device = 0x2b85;
  all.push_back(other);
  facts.machine.pci = all;
  facts.nvidia.open_module = true;
  CHECK(fix_of(facts, "DRV06").empty());
  all.back().driver = std::string("vfio-pci");
  facts.machine.pci = all;
  CHECK_FALSE(fix_of(facts, "DRV06").empty());
}

TEST_CASE("of wheels for two CUDAs those stay that the driver serves") {
  for (const auto& [driver, cuda, kept] :
       {std::tuple("535.183.01", "12.2", "nvidia-nccl-cu12==2.27.3"),
        std::tuple("580.95.05", "13.0", "nvidia-nccl-cu13==2.28.3")}) {
    Facts facts = tests::workstation(driver, cuda);
    add(facts, "nvidia-nccl-cu12", "2.27.3");
    add(facts, "nvidia-nccl-cu13", "2.28.3");
    CHECK(fix_of(facts, "LIB03").find(kept) != std::string::npos);
  }
}

TEST_CASE("steps that follow each other are one way to mend it, not two") {
  Facts facts = healthy();
  facts.container.kind = Fact<std::string>();
  facts.container.engines.docker_snap = std::string("/snap/docker");
  const auto found = diagnose(facts, Knowledge{}, {"CTR05"}).findings;
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].fix.size() == 1);
  CHECK(found[0].fix[0].command.starts_with("sudo snap remove docker\nsudo apt-get install"));
}

TEST_CASE("a build for the processor is replaced by the same release where the tables have it") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  facts.python.distributions = std::vector<Distribution>{};
  facts.python.torch = TorchBuild{"/venv/torch/version.py", 0, "2.8.0+cpu", {}, {}, {}};
  const std::string command = fix_of(facts, "FW01");
  CHECK(command.find("'torch==2.8.*'") != std::string::npos);
}

TEST_CASE("a closed node is mended where its mode comes from, not by hand") {
  Facts facts = healthy();
  auto nodes = *facts.nvidia.nodes;
  nodes[0].node.mode = 0600;
  nodes[0].node.open_error = 13;
  facts.nvidia.nodes = nodes;
  const auto found = diagnose(facts, Knowledge{}, {"DRV12"}).findings;
  REQUIRE(found.size() == 1);
  for (const auto& fix : found[0].fix) CHECK(fix.command.find("chmod") == std::string::npos);
  CHECK(found[0].fix.size() == 2);
  facts.nvidia.parameters = std::map<std::string, std::string>{{"DeviceFileMode", "384"}};
  CHECK(diagnose(facts, Knowledge{}, {"DRV12"}).findings[0].fix.size() == 1);
}

TEST_CASE("a build for the processor is replaced by words that pip takes, of the same release") {
  for (const auto& [version, wanted] : {std::pair("2.15.0", "'tensorflow[and-cuda]==2.15.0'"),
                                        std::pair("2.11.0", "tensorflow==2.11.0")}) {
    Facts facts = tests::workstation("580.95.05", "13.0");
    facts.python.distributions = std::vector<Distribution>{};
    add(facts, "tensorflow-cpu", version);
    const std::string command = fix_of(facts, "FW21");
    CHECK(command.ends_with(std::string(" -m pip install ") + wanted));
  }
}

TEST_CASE("nobody behind a mirror is sent past it for PyTorch") {
  Facts facts = healthy();
  const Knowledge known;
  const auto fix = [&](const char* index, const char* tag) {
    facts.packages.pip.main =
        *index == '\0' ? Fact<IndexAddress>() : IndexAddress{index, "/etc/pip.conf", false};
    facts.packages.uv = facts.packages.pip;
    Examination look(facts, known, Severity::kFatal);
    return torch_install(look, {"torch==2.8.0"}, tag, "so");
  };
  constexpr const char* kPublic = "--index-url https://download.pytorch.org/whl/xpu";
  CHECK(fix("", "xpu").command.find(kPublic) != std::string::npos);
  CHECK(fix("", "xpu").says == "so");
  CHECK(fix("", "").command.find("--index-url") == std::string::npos);
  const auto behind = fix("https://mirror.lab/simple", "xpu");
  CHECK(behind.command.find(kPublic) == std::string::npos);
  CHECK(behind.command.find("TORCH_INDEX") != std::string::npos);
  CHECK(behind.says.find("the configured index, https://mirror.lab/simple, is not such a mirror") !=
        std::string::npos);
  CHECK(fix("https://mirror.lab/whl/xpu", "xpu").command.find("--index-url") == std::string::npos);
}

TEST_CASE("an Intel card's PyTorch comes from the index that is configured") {
  Facts facts;
  facts.machine.pci = std::vector{tests::card("0000:03:00.0", 0x8086, 0xe20b, "xe")};
  facts.python.interpreter = std::string("/venv/bin/python");
  facts.python.torch = TorchBuild{"/venv/torch/version.py", 0, "2.8.0+cpu", {}, {}, {}};
  facts.python.distributions = std::vector<Distribution>{};
  facts.packages.pip.main = IndexAddress{"https://mirror.lab/simple", "/etc/pip.conf", false};
  const std::string command = fix_of(facts, "XPU01");
  CHECK(command.find("TORCH_INDEX") != std::string::npos);
}

TEST_CASE("a fix speaks the package manager of the system that was looked at") {
  const Knowledge known;
  const auto on = [&](const OsRelease& system, const char* task) {
    Facts facts = healthy();
    facts.machine.system = system;
    Examination look(facts, known, Severity::kFatal);
    return on_system(look, task, "", "470");
  };
  const OsRelease ubuntu{"ubuntu", {"debian"}, "24.04", "Ubuntu 24.04 LTS", false};
  const OsRelease mint{"linuxmint", {"ubuntu", "debian"}, "22", "Linux Mint 22", false};
  const OsRelease debian{"debian", {}, "12", "Debian GNU/Linux 12 (bookworm)", false};
  const OsRelease fedora{"fedora", {}, "41", "Fedora Linux 41", false};
  const OsRelease silverblue{"fedora", {}, "41", "Fedora Linux 41 (Silverblue)", true};
  const OsRelease rocky{"rocky", {"rhel", "centos", "fedora"}, "9.4", "Rocky Linux 9.4", false};
  const OsRelease rhel10{"rhel", {"centos", "fedora"}, "10.0", "Red Hat Enterprise Linux", false};
  const OsRelease leap{"opensuse-leap", {"suse", "opensuse"}, "15.6", "openSUSE Leap 15.6", false};
  const OsRelease arch{"arch", {}, "", "Arch Linux", false};
  const OsRelease derived{"something", {"arch"}, "", "Something", false};
  CHECK(on(ubuntu, "driver").command.starts_with("sudo ubuntu-drivers"));
  CHECK(on(mint, "driver_branch").command.find("nvidia-driver-470") != std::string::npos);
  CHECK(on(debian, "driver").command.find("apt install nvidia-driver ") != std::string::npos);
  CHECK(on(fedora, "driver_branch").command.find("akmod-nvidia-470xx") != std::string::npos);
  CHECK(on(silverblue, "driver").command.starts_with("sudo rpm-ostree install akmod-nvidia"));
  CHECK(on(rocky, "driver_branch").command.find("nvidia-driver:470-dkms") != std::string::npos);
  CHECK(on(rhel10, "driver").command.find("module") == std::string::npos);
  CHECK(on(leap, "initramfs").command.starts_with("sudo dracut"));
  CHECK(on(arch, "initramfs").command.starts_with("sudo mkinitcpio"));
  CHECK(on(derived, "driver").command.find("pacman") != std::string::npos);
  // The fix must not name EPEL, which does not support Amazon Linux. Its own repository has DKMS.
  const OsRelease amazon{"amzn", {"fedora"}, "2023", "Amazon Linux 2023", false};
  CHECK(on(amazon, "driver").command.find("nvidia-driver:open-dkms") != std::string::npos);
  CHECK(on(amazon, "driver").says.find("EPEL") == std::string::npos);
  // Each system signs modules with another program, and has the key at another path.
  CHECK(on(ubuntu, "module_key").command.find("shim-signed/mok/MOK.der") != std::string::npos);
  CHECK(on(debian, "module_key").command.find("/var/lib/dkms/mok.pub") != std::string::npos);
  CHECK(on(fedora, "module_key").command.find("akmods/certs/public_key") != std::string::npos);
}

TEST_CASE("the key that Secure Boot wants is the system's own") {
  Facts facts = healthy();
  unload(facts);
  facts.machine.secure_boot = true;
  facts.machine.system = OsRelease{"fedora", {}, "41", "Fedora Linux 41", false};
  CHECK(fix_of(facts, "DRV03").find("/etc/pki/akmods") != std::string::npos);
  edit(facts.machine.pci, [](auto& all) {
    for (PciFunction& gpu : all) gpu.vendor = 0x1002;
  });
  facts.machine.system = OsRelease{"debian", {}, "12", "Debian GNU/Linux 12", false};
  log(facts, "Loading of unsigned module is rejected");
  CHECK(fix_of(facts, "DRV03").find("/var/lib/dkms/mok.pub") != std::string::npos);
}

TEST_CASE("a system that no row is about gets words, and never another's command") {
  Facts facts = healthy();
  facts.machine.system = OsRelease{"void", {}, "", "Void Linux", false};
  const Knowledge known;
  Examination look(facts, known, Severity::kFatal);
  const auto fix = on_system(look, "driver_branch", "", "470");
  CHECK(fix.command.empty());
  CHECK(fix.says ==
        "NVIDIA's driver, branch 470, with the proprietary module, with the package manager of "
        "Void Linux");
  CHECK(on_system(look, "initramfs", "").says ==
        "rebuild the initial RAM disk and reboot: see the documentation of Void Linux");
  // Inside a container, the system of the host is unknown.
  facts.machine.system = OsRelease{"ubuntu", {"debian"}, "24.04", "Ubuntu", false};
  facts.machine.in_container = true;
  CHECK(on_system(look, "driver_branch", "", "470").command.empty());
  CHECK(on_system(look, "gcc", "").command == "sudo apt install gcc");
}

TEST_CASE("every task of every system is one that a rule may want") {
  const Compatibility& known = shipped_compatibility();
  REQUIRE(known.systems.size() > 8);
  for (const SystemCommands& system : known.systems)
    for (const SystemTask& task : system.tasks) {
      CAPTURE(task.name);
      const bool wanted = std::any_of(known.system_wishes.begin(), known.system_wishes.end(),
                                      [&](const SystemWish& one) {
                                        // "module@dkms" is the variant of the task "module" for
                                        // drivers installed with DKMS.
                                        return one.task == task.name.substr(0, task.name.find('@'));
                                      });
      CHECK(wanted);
      CHECK((!task.command.empty() || !task.action.empty()));
    }
}

TEST_CASE("which system it is stands in os-release, as shells read it") {
  const berth::system::TemporaryTree folder;
  folder.put("proc/modules", "");
  folder.put("etc/os-release",
             "NAME=\"Rocky Linux\"\nID='rocky'\nID_LIKE=\"rhel centos fedora\"\n"
             "VERSION_ID=\"9.4\"\nPRETTY_NAME=\"Rocky Linux 9.4 (Blue Onyx)\"\n# x\n=\n");
  const auto system = collect_machine(Tree(folder.path), Fact<std::string>()).system;
  REQUIRE(system);
  CHECK(system->id == "rocky");
  CHECK(system->like == std::vector<std::string>{"rhel", "centos", "fedora"});
  CHECK(system->version == "9.4");
  CHECK(system->name == "Rocky Linux 9.4 (Blue Onyx)");
  CHECK_FALSE(system->is_image);
  folder.put("run/ostree-booted", "");
  CHECK(collect_machine(Tree(folder.path), Fact<std::string>()).system->is_image);
}

TEST_CASE("a module that is forbidden is mended where it is forbidden") {
  Facts facts = healthy();
  facts.machine.modules = std::vector<std::string>{"ext4"};
  auto functions = *facts.machine.pci;
  for (auto& one : functions) one.driver = {};
  facts.machine.pci = functions;
  facts.nvidia.modprobe = std::vector<ModprobeLine>{
      {"/lib/modprobe.d/blacklist-nvidia-prime.conf", "alias nvidia off"}};
  CHECK(fix_of(facts, "DRV01").starts_with("sudo prime-select nvidia"));
  facts.nvidia.modprobe =
      std::vector<ModprobeLine>{{"/etc/modprobe.d/my own.conf", "install nvidia /bin/false"}};
  CHECK(fix_of(facts, "DRV01").find("'/etc/modprobe.d/my own.conf'") != std::string::npos);
  // Lines about other modules, such as nvidiafb, do not block the module nvidia.
  facts.nvidia.modprobe = std::vector<ModprobeLine>{{"/x", "blacklist nvidiafb"}};
  facts.platform.command_line = std::string("quiet module_blacklist=nouveau,nvidia_drm nomodeset");
  CHECK(fix_of(facts, "DRV01").find("/etc/default/grub") == std::string::npos);
  facts.platform.command_line = std::string("quiet module_blacklist=nouveau,nvidia");
  CHECK(fix_of(facts, "DRV01").find("/etc/default/grub") != std::string::npos);
}

TEST_CASE("no older driver is offered that would take a newer GPU out of use") {
  Facts facts = healthy();
  edit(facts.machine.pci, [](auto& all) {
    all[0].device = 0x1eb8;
    all[1].device = 0x1096;
    all[1].driver = {};
  });
  edit(facts.driver.gpus, [](auto& all) { all.pop_back(); });
  log(facts, "NVRM: supported through the NVIDIA 390.xx Legacy drivers. Please");
  const auto found = [&] { return diagnose(facts, Knowledge{}, {"DRV08"}).findings.at(0); };
  CHECK(found().fix.size() == 1);
  CHECK(found().fix[0].command.empty());
  CHECK(found().fix[0].says.find("410") != std::string::npos);
  // The GPU at 01:00.0 works, so the evidence must not contain it.
  for (const std::string& line : found().evidence)
    CHECK(line.find("0000:01:00.0") == std::string::npos);
  edit(facts.machine.pci, [](auto& all) { all.erase(all.begin()); });
  CHECK(found().fix[0].command.find("390") != std::string::npos);
}

TEST_CASE("a package published as a binary gets its PyTorch back, and is not reinstalled alone") {
  Facts facts = tests::workstation("550.144.03", "12.4");
  TorchBuild torch;
  torch.version = "2.7.1+cu126";
  torch.cuda = std::string("12.6");
  facts.python.torch = torch;
  facts.python.path = std::vector<PathEntry>{{"/venv/site", {}}};
  facts.python.distributions = std::vector<Distribution>{
      {"vllm",
       "0.8.5",
       "/venv/site/vllm",
       0,
       {"torch==2.6.0", "torchaudio==2.6.0", "torchvision==0.21.0; platform_system == 'Linux'",
        "torch==2.1.0; extra == 'old'"},
       ""}};
  facts.imports.symbols = std::vector<MissingSymbol>{};
  facts.imports.torch_links = std::vector<LinkedLibrary>{};
  facts.imports.torch_symbols = std::vector<WantedSymbol>{};
  CHECK(fix_of(facts, "FW06") ==
        "/venv/bin/python -m pip install torch==2.6.0 torchvision==0.21.0 torchaudio==2.6.0");
  SUBCASE("and moves on with PyTorch where that has no kernels for the GPU") {
    first_answer(facts, [](auto& gpu) { gpu.compute_capability = std::string("12.0"); });
    CHECK(fix_of(facts, "FW06") == "/venv/bin/python -m pip install -U vllm");
  }
  SUBCASE("a build of PyTorch's index has its PyTorch there") {
    edit(facts.python.distributions, [](auto& all) {
      all[0] = {"xformers", "0.0.28.post3+cu118", "/venv/site/x", 0, {"torch==2.5.1"}, ""};
    });
    add(facts, "torchvision", "0.22.1+cu126");
    CHECK(fix_of(facts, "FW06") ==
          "/venv/bin/python -m pip install torch==2.5.1 torchvision --index-url "
          "https://download.pytorch.org/whl/cu118");
  }
}

TEST_CASE("PyTorch is not reinstalled over conda's, nor under packages that need another version") {
  Facts facts = tests::workstation("580.95.05", "13.0");
  first_answer(facts, [](auto& gpu) { gpu.compute_capability = std::string("12.0"); });
  TorchBuild torch;
  torch.version = "2.6.0";
  torch.cuda = std::string("12.4");
  facts.python.torch = torch;
  facts.python.prefix = "/venv";
  facts.python.path = std::vector<PathEntry>{{"/venv/site", {}}};
  facts.python.distributions = std::vector<Distribution>{};
  facts.python.conda = std::vector<CondaPackage>{
      {"pytorch", "2.6.0", "py3.11_cuda12.4_cudnn9.1.0_0", "/venv/conda-meta/pytorch.json"}};
  const auto found = [&] { return diagnose(facts, Knowledge{}, {"FW03"}).findings.at(0).fix; };
  CHECK(found().size() == 1);
  CHECK(found()[0].command.starts_with("conda remove -p /venv pytorch\n/venv/bin/python -m pip"));
  facts.python.conda = {};
  CHECK(found()[0].command.starts_with("/venv/bin/python -m pip install"));
  add(facts, "vllm", "0.8.5");
  edit(facts.python.distributions, [](auto& all) { all[0].needs = {"torch==2.6.0"}; });
  CHECK(found()[0].says.find("vllm 0.8.5 (torch==2.6.0)") != std::string::npos);
}

TEST_CASE("a build for a CUDA that the driver does not serve makes way for one that it does") {
  Facts facts = tests::workstation("535.183.01", "12.2");
  facts.python.path = std::vector<PathEntry>{{"/venv/site", {}}};
  facts.python.distributions = std::vector<Distribution>{};
  add(facts, "cupy-cuda13x", "13.6.0");
  CHECK(fix_of(facts, "FW02")
            .starts_with("/venv/bin/python -m pip uninstall -y cupy-cuda13x\n"
                         "/venv/bin/python -m pip install -U 'cupy-cuda12x[ctk]"));
  facts.python.distributions = std::vector<Distribution>{};
  add(facts, "jaxlib", "0.7.2");
  add(facts, "jax-cuda13-plugin", "0.7.2");
  CHECK(fix_of(facts, "FW02")
            .starts_with("/venv/bin/python -m pip uninstall -y jax-cuda13-plugin jax-cuda13-pjrt\n"
                         "/venv/bin/python -m pip install -U 'jax[cuda12]"));
}

TEST_CASE("a module that another compiler failed to build is built by the kernel's own") {
  const std::string kGcp =
      "Linux version 6.5.0-1013-gcp (buildd@gcc-builder) (x86_64-linux-gnu-gcc-12 (Ubuntu "
      "12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld (GNU Binutils for Ubuntu) 2.38) #13~22.04.1-Ubuntu "
      "SMP";
  CHECK(kernel_compiler(kGcp) == "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0");
  CHECK(
      kernel_compiler("Linux version 5.4.0 (ann@clang) (gcc version 9.3.0 (Debian 9.3.0-1)) #1") ==
      "gcc version 9.3.0 (Debian 9.3.0-1)");
  CHECK(kernel_compiler("Linux version 6.10 (a@b) (clang version 18.1.8, LLD 18.1.8) #1") ==
        "clang version 18.1.8");
  CHECK(kernel_compiler("Linux version 6.10 (((").empty());
  Facts facts = healthy();
  unload(facts);
  edit(facts.nvidia.modules_on_disk, [](auto& files) { files[0].kernel = "6.8.0-44-generic"; });
  facts.machine.system = OsRelease{"ubuntu", {"debian"}, "22.04", "Ubuntu", false};
  const auto fix = [&](const std::string& compiler) {
    facts.nvidia.build_log =
        BuildLog{"/var/lib/dkms/nvidia/535/build/make.log",
                 {"cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'"},
                 compiler};
    const auto found = diagnose(facts, Knowledge{}, {"DRV02"}).findings;
    REQUIRE(found.size() == 1);
    return found[0].fix[0];
  };
  CHECK(fix(kernel_compiler(kGcp)).command == "sudo apt install gcc-12\nsudo dkms autoinstall");
  CHECK(fix("gcc version 9.3.0 (Debian 9.3.0-1)").command.starts_with("sudo apt install gcc-9\n"));
  CHECK(fix("clang version 18.1.8").says.find("clang version 18.1.8") != std::string::npos);
  CHECK(fix("").command == "cat /proc/version");
}

}  // namespace fixes_test
