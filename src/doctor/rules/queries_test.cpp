#include "doctor/rules/queries.hpp"

#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/ground_for_tests.hpp"
#include "doctor/rules/install.hpp"

using namespace berth::doctor;

namespace {

/// The parts of a command that are not in single quotes.
std::string unquoted(std::string_view command) {
  std::string out;
  bool inside = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (!inside && command[i] == '\\')
      ++i;  // after a backslash, the next character is literal
    else if (command[i] == '\'')
      inside = !inside;
    else if (!inside)
      out += command[i];
  }
  return inside ? "a quote is open" : out;
}

constexpr const char* kHostile = "x';touch /tmp/evil;$(touch /tmp/evil)'`y`";

}  // namespace

TEST_CASE("what a file is called is not a command in a fix that somebody pastes") {
  CHECK(pasted("0000:01:00.0") == "0000:01:00.0");
  CHECK(unquoted(pasted(kHostile)).find("evil") == std::string::npos);
  CHECK(pasted("two\nlines").find('\n') == std::string::npos);
  PythonFacts python;
  python.interpreter = std::string("/home/") + kHostile + "/bin/python";
  for (const bool uv : {false, true}) {
    python.has_uv = uv;
    CHECK(unquoted(install_command(python, {"torch", kHostile})).find("evil") == std::string::npos);
    CHECK(unquoted(uninstall_command(python, {kHostile})).find("evil") == std::string::npos);
  }
}

TEST_CASE("no rule puts a name from outside into a command as it is") {
  Facts facts = healthy();
  const std::string evil = kHostile;
  facts.machine.kernel = evil;
  facts.nvidia.modules_on_disk = std::vector<ModuleFile>{};
  facts.nvidia.libraries = std::vector<DriverLibrary>{{"libcuda.so", "550.1", "/lib/" + evil},
                                                      {"libcuda.so", "550.2", "/usr/" + evil}};
  facts.nvidia.fabric_manager = evil;
  facts.platform.interfaces = std::vector<std::string>{"eth0" + evil};
  facts.platform.named.nvcc = std::string("/usr/bin/nvcc");
  facts.platform.named.usual_nvcc = "/usr/local/" + evil + "/bin/nvcc";
  facts.process.environment =
      Environment{{"NCCL_SOCKET_IFNAME", "none"}, {"PATH", "/usr/bin"}, {"LOCAL_RANK", "1"}};
  facts.python.interpreter = "/venv/" + evil + "/bin/python";
  facts.python.prefix = "/venv/" + evil;
  facts.python.path = std::vector<PathEntry>{{"/venv/lib", PathOrigin::kOwn}};
  facts.python.distributions =
      std::vector<Distribution>{{"nvidia-nccl-cu11", "2.1" + evil, "/venv/lib/a", 0, {}, ""},
                                {"nvidia-nccl-cu12", "2.2" + evil, "/venv/lib/b", 0, {}, ""},
                                {"cupy-cuda11x", "1" + evil, "/venv/lib/c", 0, {}, ""},
                                {"cupy-cuda12x", "1" + evil, "/venv/lib/d", 0, {}, ""},
                                {"tensorflow", "2.20" + evil, "/venv/lib/e", 0, {}, ""},
                                {"torchvision", "0.1" + evil, "/venv/lib/f", 0, {"torch==2.1"}, ""},
                                {"jaxlib", "0.4.30" + evil, "/venv/lib/g", 0, {}, ""}};
  TorchBuild torch;
  torch.version = "2.4" + evil;
  facts.python.torch = torch;
  facts.python.conda =
      std::vector<CondaPackage>{{"tensorflow", "2", "cpu_" + evil, "/venv/conda-meta/x.json"}};
  first_answer(facts, [&](GpuAnswer& gpu) {
    gpu.pci_address = evil;
    gpu.ecc_uncorrected = 3;
    gpu.mig_enabled = true;
    gpu.mig_instances = std::vector<std::string>{"MIG-" + evil, "MIG-2"};
    gpu.compute_mode = std::string("prohibited");
  });
  CdiSpec spec;
  spec.path = "/etc/cdi/" + evil;
  facts.container.engines.cdi = std::vector<CdiSpec>{spec};
  const Knowledge known;
  std::size_t commands = 0;
  for (const Rule& rule : all_rules()) {
    Examination look(facts, known, rule.severity);
    rule.look(look);
    for (const Finding& finding : look.findings())
      for (const berth::model::Fix& fix : finding.fix) {
        CAPTURE(rule.id);
        CAPTURE(fix.command);
        CHECK(unquoted(fix.command).find("evil") == std::string::npos);
        commands += fix.command.find("evil") != std::string::npos ? 1 : 0;
      }
  }
  CHECK(commands >= 8);
}

TEST_CASE("an NVML error without a text shows its number") {
  Facts facts = healthy();
  facts.driver.nvml_init = 18;
  const auto evidence = [&](const char* rule) {
    const auto found = diagnose(facts, Knowledge{}, {rule}).findings;
    return found.empty() ? std::string() : found[0].evidence.back();
  };
  CHECK(evidence("DRV05") == "nvmlInit: 18");
  facts.driver.nvml_message = std::string("Driver/library version mismatch");
  CHECK(evidence("DRV05") == "nvmlInit: 18; Driver/library version mismatch");
  facts.driver.nvml_message = {};
  facts.driver.nvml_init = 9;
  CHECK(evidence("DRV28") == "nvmlInit: 9");
}
