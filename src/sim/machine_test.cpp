#include <doctest/doctest.h>
#include <test_paths.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/machine.hpp"
#include "sim/machine_check.hpp"

namespace sim = berth::sim;

namespace {

constexpr const char* kGood = R"(schema = 1
name = "one"
[driver]
version = "580.95.05"
cuda = "13.0"
[[device]]
name = "NVIDIA L4"
architecture = "ada"
compute_capability = "8.9"
pci = ["0000:01:00.0"]
pci_id = "10de:27b8"
memory = "23034MiB"
power_limit_watts = 72
clock_graphics_mhz = 2040
clock_memory_mhz = 6251
)";

/// A valid machine with the line `from` replaced by `to`, or with `to` added at its end.
std::string with(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
std::string plus(const std::string& line) {
  return kGood + line + "\n";
}

}  // namespace

TEST_CASE("every shipped machine can be read and has the name of its file") {
  CHECK(sim::built_in_machines().size() == 19);
  for (const sim::BuiltIn& built_in : sim::built_in_machines()) {
    CAPTURE(built_in.name);
    const auto machine = sim::parse_machine(built_in.text, std::string(built_in.name));
    if (!machine) FAIL(machine.error().message);
    CHECK(machine->name == built_in.name);
    CHECK(!machine->summary.empty());
    for (const sim::MachineDevices& group : machine->groups)
      CHECK((group.vendor == "nvidia") == (group.pci_id.substr(0, 4) == "10de"));
  }
}

TEST_CASE("a short machine file gets defaults from its other keys") {
  const auto machine = sim::parse_machine(kGood, "good.toml");
  REQUIRE(machine);
  const sim::MachineDevices& device = machine->groups.at(0);
  CHECK(device.power_idle_watts == 7);
  CHECK(device.power_max_watts == 72);
  CHECK(device.kernel_driver == "nvidia");
  CHECK(device.memory_bytes == std::uint64_t{23034} << 20U);
  CHECK(device.pcie_generation_idle == 4);
}

namespace {

struct Row {
  std::string text, id, line, says;
};

std::vector<Row> bad_machines() {
  return {
      {"schema = ", "E0602", "1", "not TOML"},
      {"name = \"x\"", "E0606", "", "schema"},
      {"schema = 2\nname = \"x\"", "E0605", "1", "1 to 1"},
      {with("schema = 1", "schema = \"1\""), "E0604", "1", "whole number"},
      {with("[driver]", "[drivers]"), "E0603", "3", "drivers"},
      {with("name = \"NVIDIA L4\"", "nam = \"NVIDIA L4\""), "E0606", "", "name"},
      {plus("fan = 2"), "E0603", "16", "fan"},
      {plus("fans = -1"), "E0605", "16", "0 to 16"},
      {plus("fans = 99999999999999999999"), "E0602", "16", ""},
      {plus("fans = 1.5"), "E0604", "16", "whole number"},
      {plus("ecc = \"yes\""), "E0604", "16", "true or false"},
      {plus("memory = \"1GiB\""), "E0602", "", ""},
      {with("\"23034MiB\"", "23034"), "E0604", "12", "size"},
      {with("\"23034MiB\"", "\"23034\""), "E0605", "12", "unit"},
      {with("\"23034MiB\"", "\"0MiB\""), "E0605", "6", "memory"},
      {with("\"23034MiB\"", "\"2000TiB\""), "E0605", "12", "PiB"},
      {with("\"NVIDIA L4\"", "\"" + std::string(96, 'x') + "\""), "E0605", "7", "95 bytes"},
      {with("\"NVIDIA L4\"", "\"a\\u001b[2Jb\""), "E0605", "7", "characters"},
      {with("\"ada\"", "\"adda\""), "E0605", "6", "adda"},
      {with("\"8.9\"", "\"8\""), "E0605", "6", "compute_capability"},
      {with("\"10de:27b8\"", "\"27b8\""), "E0605", "6", "PCI id"},
      {with("[\"0000:01:00.0\"]", "\"0000:01:00.0\""), "E0604", "10", "list"},
      {with("[\"0000:01:00.0\"]", "[]"), "E0605", "6", "address"},
      {with("[\"0000:01:00.0\"]", "[\"../../etc\"]"), "E0605", "6", "PCI address"},
      {with("[\"0000:01:00.0\"]", "[\"0000:01:00.0\", \"0000:01:00.0\"]"), "E0605", "1",
       "0000:01:00.0"},
      {with("[\"0000:01:00.0\"]", "[\"0000:02:00.0\", \"0000:01:00.0\"]"), "E0605", "1", "order"},
      {with("\"580.95.05\"", "\"new\""), "E0605", "3", "driver version"},
      {with("\"13.0\"", "\"13\""), "E0605", "3", "CUDA version"},
      {plus("kernel_driver = \"../x\""), "E0605", "6", "kernel_driver"},
      {plus("local_cpus = [\"a\"]"), "E0605", "6", "CPU cores"},
      {plus("numa = [0, 1]"), "E0605", "6", "numa"},
      {plus("pci_path = [\"pci0000:00/../../etc\"]"), "E0605", "6", "bridges"},
      {plus("pci_path = [\"\"]"), "E0605", "6", "bridges"},
      {plus("nvlink_to = [7]"), "E0605", "1", "nvlink_to"},
      {plus("unsupported = [\"colour\"]"), "E0605", "6", "colour"},
      {plus("power_idle_watts = 72"), "E0605", "6", "power_idle_watts"},
      {plus("power_max_watts = 60"), "E0605", "6", "power_limit_watts"},
      {plus("temperature_busy_celsius = 95"), "E0605", "6", "temperatures"},
      {plus("pcie_width_now = 32"), "E0605", "6", "PCIe"},
      {plus("mig = [{ profile = \"1g.5gb\", memory = \"4GiB\" }]"), "E0605", "6", "mig_capable"},
      {plus("mig = [{ profile = \"big\", memory = \"4GiB\" }]"), "E0605", "6", "profile"},
      {plus("mig = [{ profile = \"1g.5gb\", memory = \"4GiB\", size = 1 }]"), "E0603", "16",
       "size"},
      {plus("mig_enabled = true"), "E0605", "6", "mig_enabled"},
      {plus("mig_capable = true\nmig_profiles = [{ profile = \"1g.5gb\", number = 0, id = 19, "
            "memory = "
            "\"4GiB\", multiprocessors = 14, size = 2, starts = [7] }]"),
       "E0605", "6", "8 memory slices"},
      {plus("mig_capable = true\nmig_profiles = [{ profile = \"1g.5gb\", number = 0, id = 19, "
            "memory = "
            "\"4GiB\", multiprocessors = 14, size = 1 }]"),
       "E0605", "6", "starts"},
      {plus("mig_profiles = [{ profile = \"1g.5gb\", number = 0, id = 19, memory = \"4GiB\", "
            "multiprocessors = 14, size = 1, starts = [0] }]"),
       "E0605", "6", "mig_capable"},
      {plus("[[process]]\ndevice = 1\nmemory = \"1GiB\""), "E0605", "1", "device 1"},
      {plus("[[process]]\ndevice = 0\nmemory = \"30GiB\""), "E0605", "1", "more memory"},
      {plus("[[process]]\ndevice = 0\nmemory = \"1GiB\"\nuse = [\"play\"]"), "E0605", "16", "play"},
      {plus("[[process]]\ndevice = 0\nmemory = \"1GiB\"\npartition = 0"), "E0605", "1",
       "partition"},
      {plus("[[process]]\ndevice = 0\nmemory = \"1GiB\"\ncommand = \"\""), "E0605", "16",
       "command"},
      {with("[driver]\nversion = \"580.95.05\"\ncuda = \"13.0\"\n", ""), "E0605", "1", "[driver]"},
  };
}

}  // namespace

TEST_CASE("an error in a machine file has an id and a line") {
  for (const Row& row : bad_machines()) {
    CAPTURE(row.text);
    const auto machine = sim::parse_machine(row.text, "bad.toml");
    REQUIRE(!machine);
    CHECK(machine.error().code == berth::ErrorCode::kInvalidArgument);
    CHECK(machine.error().id == row.id);
    CHECK(machine.error().message.find("bad.toml:" + row.line) == 0);
    CHECK(machine.error().message.find(row.says) != std::string::npos);
    CHECK(!machine.error().hint.empty());
  }
}

TEST_CASE("characters beyond ASCII are for strings and comments, and are refused elsewhere") {
  CHECK(sim::parse_machine(plus("# Bürolärm \xEF\xBB\xBE"), "good.toml"));
  CHECK(sim::parse_machine(with("\"NVIDIA L4\"", "\"Größe \\\" 机器\""), "good.toml"));
  CHECK(sim::parse_machine(with("\"NVIDIA L4\"", "'''Größe '' '''"), "good.toml"));
  for (const char* line : {"slosl\xEF\xBB\xBEhe", "\xC3\xA9 = 1", "fans = \xE3\x80\x80 1",
                           "x = \"\" \xC2\xA0", "x = 58'\xCF\xBD'", "[?a]", "[\x01]"}) {
    const auto machine = sim::parse_machine(plus(line), "bad.toml");
    REQUIRE(!machine);
    CHECK(machine.error().id == "E0602");
    CHECK(machine.error().message.find("bad.toml:16:") == 0);
  }
}

TEST_CASE("a misspelt key gets the right one as a hint") {
  const auto machine = sim::parse_machine(plus("power_limit_wats = 72"), "bad.toml");
  REQUIRE(!machine);
  CHECK(machine.error().hint.find("power_limit_watts") != std::string::npos);
}

TEST_CASE("too many devices are refused") {
  std::string pci;
  for (int bus = 1; bus <= 65; ++bus) {
    char address[32];
    std::snprintf(address, sizeof(address), "%s\"0000:%02x:00.0\"", bus == 1 ? "" : ", ",
                  static_cast<unsigned>(bus));
    pci += address;
  }
  const auto machine = sim::parse_machine(with("[\"0000:01:00.0\"]", "[" + pci + "]"), "many.toml");
  REQUIRE(!machine);
  CHECK(machine.error().message.find("65") != std::string::npos);
}

TEST_CASE("a machine is found by name or by file, and a missing one gets a hint") {
  CHECK(sim::load_machine("dgx-h100-8"));
  const auto wrong = sim::load_machine("dgx-h100");
  REQUIRE(!wrong);
  CHECK(wrong.error().id == "E0601");
  CHECK(wrong.error().hint.find("dgx-h100-8") != std::string::npos);
  const auto nowhere_near = sim::load_machine("nope");  // differs from "none" in one letter
  REQUIRE(!nowhere_near);
  CHECK(nowhere_near.error().hint == "berth sim --list");
  const auto missing = sim::load_machine("./not-here.toml");
  REQUIRE(!missing);
  CHECK(missing.error().id == "E0601");
  CHECK(missing.error().code == berth::ErrorCode::kInvalidArgument);
  CHECK(sim::load_machine(BERTH_SOURCE_DIR "/simulator/machines/gb10.toml"));
}
