#include <doctest/doctest.h>

#include <cstdlib>

#include "base/file.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using tests::alter;

namespace hardware_test {
namespace {

PciFunction nvidia_gpu(Fact<std::string> driver) {
  PciFunction gpu;
  gpu.address = "0000:01:00.0";
  gpu.vendor = 0x10de;
  gpu.device = 0x2684;
  gpu.class_code = 0x030000;
  gpu.driver = std::move(driver);
  return gpu;
}

std::string first(const Facts& facts) {
  const auto found = diagnose_with(hardware_rules(), facts, {}).findings;
  return found.empty() ? "" : found.front().id;
}

}  // namespace

TEST_CASE("a GPU with its driver has no finding") {
  Facts facts;
  facts.machine.pci = std::vector{nvidia_gpu(std::string("nvidia"))};
  CHECK(first(facts).empty());
}

TEST_CASE("a GPU that no driver, or another one, has bound is named") {
  Facts facts;
  facts.machine.pci = std::vector{nvidia_gpu({})};
  CHECK(first(facts) == "HW02");
  facts.machine.pci = std::vector{nvidia_gpu(std::string("nouveau"))};
  CHECK(first(facts) == "HW03");
}

TEST_CASE("a bus that cannot be read has no GPU missing") {
  Facts facts;
  facts.machine.pci = Unreadable{"/sys/bus/pci/devices", 13};
  const auto diagnosis = diagnose_with(hardware_rules(), facts, {});
  CHECK(diagnosis.findings.empty());
  CHECK(diagnosis.not_checked.size() >= 5);
}

TEST_CASE("a driver without a GPU is a fault of a desktop, but normal for a laptop") {
  Facts facts;
  facts.machine.pci = std::vector<PciFunction>{};
  facts.machine.modules = std::vector<std::string>{"i915"};
  facts.machine.kernel = std::string("6.11.0-17-generic");
  facts.nvidia.modules_on_disk = std::vector<ModuleFile>{{"6.11.0-17-generic", "/nvidia.ko", true}};
  CHECK(diagnose_with(hardware_rules(), facts, {}).findings.at(0).severity == Severity::kWarning);
  facts.machine.is_laptop = true;
  CHECK(diagnose_with(hardware_rules(), facts, {}).findings.at(0).severity == Severity::kInfo);
}

TEST_CASE("a GPU lost before its start has no Xid, and is recognised by the kernel's message") {
  Facts facts;
  facts.machine.modules = std::vector<std::string>{"nvidia"};
  facts.machine.pci = std::vector{nvidia_gpu({})};
  facts.machine.kernel_log = std::vector<std::string>{
      "NVRM: The NVIDIA GPU 0000:01:00.0", "NVRM: (PCI ID: 10de:26b5) installed in this system has",
      "NVRM: fallen off the bus and is not responding to commands."};
  CHECK(first(facts) == "HW08");
  facts.machine.pci = std::vector{nvidia_gpu(std::string("nvidia"))};  // the GPU has recovered
  CHECK(first(facts).empty());
  PciFunction other = nvidia_gpu({});
  other.address = "0000:41:00.0";
  facts.machine.pci = std::vector{other};
  CHECK(first(facts) == "HW02");
}

TEST_CASE("a GPU that was given to a virtual machine is taken back without the other devices") {
  const Knowledge known;
  Facts facts;
  facts.machine.pci = std::vector{nvidia_gpu(std::string("vfio-pci"))};
  const auto fix = [&] {
    const auto found = diagnose_with(hardware_rules(), facts, known).findings;
    REQUIRE(found.size() == 1);
    return found.front().fix.back();
  };
  const auto given = [&](const char* id, const char* words) {
    facts.machine.system = OsRelease{id, {}, "41", "Linux", false};
    facts.platform.command_line = std::string(words);
    return fix().command;
  };
  constexpr const char* kAlone = "ro quiet vfio-pci.ids=10de:2684";
  CHECK(given("ubuntu", kAlone).ends_with(" && sudo update-grub && sudo reboot"));
  CHECK(given("fedora", kAlone) ==
        "sudo grubby --update-kernel=ALL --remove-args='vfio-pci.ids=10de:2684' && sudo reboot");
  CHECK(given("fedora", "vfio-pci.ids=1b21:2142,10de:2684,10de:22ba")
            .find("--args='vfio-pci.ids=1b21:2142,10de:22ba'") != std::string::npos);
  CHECK(given("arch", kAlone).find("grub-mkconfig") != std::string::npos);
  CHECK(fix().says.find("systemd-boot") != std::string::npos);
  CHECK(given("pop", kAlone) == "sudo kernelstub -d 'vfio-pci.ids=10de:2684' && sudo reboot");
  CHECK_MESSAGE(given("fedora", "vfio-pci.ids=10de:2684';reboot;'").empty(), "not a list of ids");
  const auto line = [&](const char* text) {
    const berth::system::TemporaryTree folder;
    folder.put("vfio.conf", std::string(text) + "\n");
    facts.nvidia.modprobe = std::vector<ModprobeLine>{{folder.path + "/vfio.conf", text}};
    const std::string command = fix().command;
    REQUIRE(command.starts_with("sudo sed -i "));
    REQUIRE(std::system(command.substr(5, command.find(" && ") - 5).c_str()) == 0);
    return *berth::read_file(folder.path + "/vfio.conf");
  };
  CHECK(line("options vfio-pci ids=10de:2684,1b21:2142") == "options vfio-pci ids=1b21:2142\n");
  CHECK(line("options vfio-pci ids=1b21:2142,10de:2684 disable_vga=1") ==
        "options vfio-pci ids=1b21:2142 disable_vga=1\n");
  CHECK(line("options vfio-pci ids=10de:2684").empty());
  alter(facts.nvidia.modprobe, [](auto& it) {
    it.push_back({"/etc/modprobe.d/vfio.conf", "softdep nvidia pre: vfio-pci"});
  });
  CHECK(fix().says.find("softdep nvidia pre: vfio-pci") != std::string::npos);
}

}  // namespace hardware_test
