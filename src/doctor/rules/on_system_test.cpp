// Tests of fixes that change kernel parameters, and of fixes in which a step fails.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "base/file.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/ground_for_tests.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "doctor/rules/on_system.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

TEST_CASE("the kernel's command line is changed by the system's own means, others' words kept") {
  Facts facts = healthy();
  const Knowledge known;
  const auto fix = [&](const char* id, const std::vector<std::string>& words) {
    facts.machine.system = OsRelease{id, {}, "41", "Linux", false};
    Examination look(facts, known, Severity::kFatal);
    return without_arguments(
        look, words, [](std::string_view one) { return one == "nouveau"; }, "so");
  };
  CHECK(
      fix("fedora", {"rd.driver.blacklist=nouveau", "modprobe.blacklist=nouveau,pcspkr"}).command ==
      "sudo grubby --update-kernel=ALL --remove-args='rd.driver.blacklist=nouveau' && "
      "sudo grubby --update-kernel=ALL --remove-args='modprobe.blacklist=nouveau,pcspkr' && "
      "sudo grubby --update-kernel=ALL --args='modprobe.blacklist=pcspkr' && "
      "sudo reboot");
  CHECK(fix("pop", {"nomodeset"}).command == "sudo kernelstub -d 'nomodeset' && sudo reboot");
  // On NixOS, the user must edit a file. The fix contains each word to remove.
  const auto edited = fix("nixos", {"nomodeset", "module_blacklist=nouveau"});
  CHECK(edited.command == "sudo nixos-rebuild edit && sudo nixos-rebuild boot && sudo reboot");
  CHECK(edited.says.find("nomodeset") != std::string::npos);
  CHECK(edited.says.find("module_blacklist=nouveau") != std::string::npos);
  CHECK(fix("plan9", {"nomodeset"}).command.empty());
  CHECK(fix("ubuntu", {"nomodeset';reboot;'"}).command.empty());

  // Runs the fix's command on a file in grub's format.
  const berth::system::TemporaryTree folder;
  folder.put("grub",
             "GRUB_CMDLINE_LINUX_DEFAULT='quiet nomodeset'\n"
             "GRUB_CMDLINE_LINUX=\"modprobe.blacklist=nouveau\" # nomodesetting\n");
  const auto carried_out = [&](const std::vector<std::string>& words, const char* grubs) {
    std::string command = fix("debian", words).command;
    CHECK(command.find("update-grub") != std::string::npos);
    command = std::regex_replace(command, std::regex("sudo update-grub"), grubs);
    command = std::regex_replace(command, std::regex("sudo reboot"), "touch " + folder.path + "/r");
    command = std::regex_replace(command, std::regex("/etc/default/"), folder.path + "/");
    command = std::regex_replace(command, std::regex("sudo "), "");
    return std::system(command.c_str()) == 0;
  };
  REQUIRE(carried_out({"nomodeset", "modprobe.blacklist=nouveau"}, "true"));
  CHECK(*berth::read_file(folder.path + "/grub") ==
        "GRUB_CMDLINE_LINUX_DEFAULT='quiet '\nGRUB_CMDLINE_LINUX=\"\" # nomodesetting\n");
  CHECK(berth::read_file(folder.path + "/r"));

  // Only whole words are removed, in both variables and with any kind of quotes.
  folder.put("grub",
             "GRUB_CMDLINE_LINUX_DEFAULT=\"modprobe.blacklist=pcspkr,floppy "
             "rd.modprobe.blacklist=nouveau modprobeXblacklist=nouveau modprobe.blacklist=nouveau "
             "modprobe.blacklist=nouveau module_blacklist=nouveau\"\n"
             "GRUB_CMDLINE_LINUX=module_blacklist=nouveau\n");
  REQUIRE(carried_out({"modprobe.blacklist=nouveau", "module_blacklist=nouveau"}, "true"));
  CHECK(std::regex_replace(*berth::read_file(folder.path + "/grub"), std::regex(" +"), " ") ==
        "GRUB_CMDLINE_LINUX_DEFAULT=\"modprobe.blacklist=pcspkr,floppy "
        "rd.modprobe.blacklist=nouveau modprobeXblacklist=nouveau \"\nGRUB_CMDLINE_LINUX=\n");

  // If a step fails, the machine must not reboot.
  REQUIRE(std::filesystem::remove(folder.path + "/r"));
  CHECK_FALSE(carried_out({"nomodeset"}, "false"));
  CHECK_FALSE(std::filesystem::exists(folder.path + "/r"));
}

TEST_CASE("two kernel parameters with one key are removed, and their other values added again") {
  Facts facts = healthy();
  const Knowledge known;
  facts.machine.system = OsRelease{"debian", {}, "12", "Linux", false};
  Examination look(facts, known, Severity::kFatal);
  const std::string command =
      without_arguments(
          look, {"modprobe.blacklist=amdgpu,floppy", "modprobe.blacklist=amdgpu"},
          [](std::string_view one) { return one == "amdgpu"; }, "")
          .command;
  CHECK(command.find("modprobe[.]blacklist=amdgpu,floppy") != std::string::npos);
  CHECK(command.find("modprobe[.]blacklist=amdgpu(") != std::string::npos);
  CHECK(command.find("DEFAULT modprobe.blacklist=floppy\"") != std::string::npos);
  CHECK(command.ends_with(" && sudo update-grub && sudo reboot"));
}

TEST_CASE("no fix reboots after a step of it has failed") {
  for (const SystemCommands& system : Knowledge{}.compatibility().systems)
    for (const SystemTask& task : system.tasks) {
      CAPTURE(task.command);
      if (task.command.ends_with("sudo reboot"))
        CHECK(task.command.find('\n') == std::string::npos);
    }
  Facts facts = healthy();
  const Knowledge known;
  Examination look(facts, known, Severity::kFatal);
  CHECK(on_system_between(look, "initramfs", "sudo dkms autoinstall", "", "")
            .command.starts_with("sudo dkms autoinstall && sudo update-initramfs"));
}

TEST_CASE("a word for the kernel is added by the means of the system that was looked at") {
  Facts facts = healthy();
  tests::alter(facts.machine.pci, [](auto& functions) {
    for (PciFunction& one : functions) one.iommu = std::string("DMA-FQ");
  });
  for (const auto& [id, words] :
       {std::pair("fedora", "grubby --update-kernel=ALL --args='iommu=pt'"),
        std::pair("pop", "kernelstub -a 'iommu=pt'"), std::pair("arch", "grub-mkconfig")}) {
    const auto shown = id;  // clang cannot capture structured bindings in lambdas
    CAPTURE(shown);
    facts.machine.system = OsRelease{id, {}, "41", "Linux", false};
    const auto found = diagnose(facts, Knowledge{}, {"HW12"}).findings;
    REQUIRE(found.size() == 1);
    CHECK(found[0].fix.at(0).command.find(words) != std::string::npos);
  }
}

TEST_CASE("a driver is rebuilt by its own tools, never by another repository's command") {
  Facts facts = healthy();
  const Knowledge known;
  facts.machine.system = OsRelease{"fedora", {}, "41", "Fedora Linux 41", false};
  const auto fix = [&](const char* task, const char* value) {
    Examination look(facts, known, Severity::kFatal);
    return on_system(look, task, "", value);
  };
  CHECK(fix("module", "6.11.4").command.find("akmods --force --kernels 6.11.4") !=
        std::string::npos);
  CHECK(fix("driver_branch", "470").command.find("akmod-nvidia-470xx") != std::string::npos);
  SUBCASE("DKMS has its source") {
    facts.nvidia.source = std::string("/usr/src/nvidia-570.86.16");
    CHECK(fix("module", "6.11.4").command ==
          "sudo dnf install kernel-devel-6.11.4\nsudo dkms autoinstall -k 6.11.4 && sudo modprobe "
          "nvidia");
    CHECK(fix("module_key", "").command.find("/var/lib/dkms/mok.pub") != std::string::npos);
    CHECK(fix("driver_update", "").command.find("xorg-x11-drv") == std::string::npos);
    CHECK(fix("driver_branch", "470").command == "dnf list --installed '*nvidia*'");
    facts.machine.system = OsRelease{"void", {}, "", "Void Linux", false};
    CHECK(fix("module", "6.11.4").command ==
          "sudo dkms autoinstall -k 6.11.4 && sudo modprobe nvidia");
  }
  SUBCASE("its packages build by a file that names the variant") {
    facts.nvidia.module_variant = std::string("kernel");
    CHECK(fix("driver_open", "580").command.find("macros.nvidia-kmod") == std::string::npos);
    Examination look(facts, known, Severity::kFatal);
    CHECK(with_variant(look, "kernel-open").command ==
          "sudo sed -i 's/^MODULE_VARIANT=.*/MODULE_VARIANT=kernel-open/' /etc/nvidia/kernel.conf "
          "&& sudo akmods --force --rebuild && sudo reboot");
    log(facts, "NVRM: GPU 0000:01:00.0 requires use of the NVIDIA open kernel modules");
    std::string commands;
    for (const auto& one : diagnose_with(ground_rules(), facts, known).findings)
      for (const auto& way : one.fix) commands += way.command + "\n";
    CHECK(commands.find("MODULE_VARIANT=kernel-open") != std::string::npos);
    CHECK(commands.find("akmod-nvidia") == std::string::npos);
  }
}

TEST_CASE("the variant of the module is read from the file that packages build by") {
  const berth::system::TemporaryTree folder;
  folder.put("etc/nvidia/kernel.conf", "# comment\nMODULE_VARIANT=kernel-open\n");
  CHECK(collect_nvidia(Tree(folder.path), {}).module_variant.value_or("") == "kernel-open");
  folder.put("etc/nvidia/kernel.conf", "MODULE_VARIANT=$(reboot)\n");
  CHECK(collect_nvidia(Tree(folder.path), {}).module_variant.value_or("x").empty());
}
