// Reads the tables of a machine file as lists of typed fields.
#include <algorithm>
#include <functional>

#include "base/toml_table.hpp"
#include "sim/machine_check.hpp"

namespace berth::sim {
namespace {

using Reader = TomlTable;

/// Reads a delay of the simulated driver.
void milliseconds(Reader& reader, const char* key, std::uint64_t& into) {
  std::chrono::milliseconds time(into);
  reader.duration(key, time, std::chrono::hours(1));
  into = static_cast<std::uint64_t>(time.count());
}

void read_driver(Reader& reader, Machine& machine) {
  MachineDriver driver;
  reader.string("version", driver.version, true);
  reader.string("cuda", driver.cuda, true);
  milliseconds(reader, "init", driver.init_ms);
  milliseconds(reader, "pcie_window", driver.pcie_window_ms);
  reader.string("confidential", driver.confidential);
  reader.check(problem_of(driver));
  machine.driver = std::move(driver);
}

void read_power_and_clocks(Reader& reader, MachineDevices& d) {
  reader.number("power_limit_watts", d.power_limit_watts, 1, 5000, true);
  reader.number("power_min_watts", d.power_min_watts, 1, 5000);
  reader.number("power_max_watts", d.power_max_watts, 1, 5000);
  reader.number("power_idle_watts", d.power_idle_watts, 0, 5000);
  reader.number("power_default_watts", d.power_default_watts, 1, 5000);
  reader.number("clock_application_mhz", d.clock_application_mhz, 1, 10'000);
  reader.number("clock_graphics_mhz", d.clock_graphics_mhz, 1, 10'000, true);
  reader.number("clock_graphics_idle_mhz", d.clock_graphics_idle_mhz, 0, 10'000);
  reader.number("clock_memory_mhz", d.clock_memory_mhz, 1, 50'000, true);
  reader.number("clock_memory_idle_mhz", d.clock_memory_idle_mhz, 0, 50'000);
  reader.number("clock_video_mhz", d.clock_video_mhz, 0, 10'000);
  reader.number("temperature_idle_celsius", d.temperature_idle, 0, 150);
  reader.number("temperature_busy_celsius", d.temperature_busy, 0, 150);
  reader.number("temperature_slowdown_celsius", d.temperature_slowdown, 1, 150);
  reader.number("temperature_shutdown_celsius", d.temperature_shutdown, 1, 150);
}

void read_bus(Reader& reader, MachineDevices& d) {
  reader.strings("pci", d.pci, true);
  reader.string("pci_id", d.pci_id, true);
  reader.string("pci_subsystem", d.pci_subsystem);
  reader.string("pci_class", d.pci_class);
  reader.strings("pci_path", d.pci_path);
  reader.numbers("numa", d.numa, -1, 1023);
  reader.strings("local_cpus", d.local_cpus);
  reader.number("pcie_generation", d.pcie_generation, 1, 7);
  reader.number("pcie_generation_idle", d.pcie_generation_idle, 1, 7);
  reader.number("pcie_width", d.pcie_width, 1, 32);
  reader.number("pcie_width_now", d.pcie_width_now, 1, 32);
  reader.flag("on_bus", d.on_bus);
}

void read_devices(Reader& reader, Machine& machine) {
  MachineDevices d;
  reader.string("vendor", d.vendor);
  reader.string("name", d.name, true);
  reader.string("architecture", d.architecture);
  reader.string("compute_capability", d.compute_capability);
  reader.string("brand", d.brand);
  reader.string("kernel_driver", d.kernel_driver);
  reader.string("compute_mode", d.compute_mode);
  reader.size("memory", d.memory_bytes, true);
  reader.size("memory_reserved", d.memory_reserved_bytes);
  reader.size("bar1", d.bar1_bytes);
  read_bus(reader, d);
  read_power_and_clocks(reader, d);
  reader.number("fans", d.fans, 0, 16);
  reader.number("nvlinks", d.nvlinks, 0, 36);
  reader.numbers("nvlink_to", d.nvlink_to, -1, 1023);
  reader.number("cores", d.cores, 0, 1'000'000);
  reader.number("multiprocessors", d.multiprocessors, 0, 10'000);
  reader.number("memory_bus_width", d.memory_bus_width, 0, 65'536);
  reader.number("load_percent", d.load_percent, 0, 100);
  reader.flag("ecc", d.ecc);
  reader.flag("persistence", d.persistence);
  reader.flag("mig_capable", d.mig_capable);
  reader.flag("display", d.display);
  reader.flag("asleep", d.asleep);
  reader.flag("unified", d.unified);
  reader.flag("retired_pages_pending", d.retired_pages_pending);
  reader.flag("peer_access", d.peer_access);
  reader.string("fabric", d.fabric);
  reader.string("vgpu_licence", d.vgpu_licence);
  reader.tables("mig", [&d](Reader& inner) {
    MachinePartition& partition = d.mig.emplace_back();
    inner.string("profile", partition.profile, true);
    inner.size("memory", partition.memory_bytes, true);
  });
  reader.flag("mig_enabled", d.mig_enabled);
  reader.tables("mig_profiles", [&d](Reader& inner) {
    MachineMigProfile& one = d.mig_profiles.emplace_back();
    inner.string("profile", one.profile, true);
    inner.number("number", one.number, 0, 63, true);
    inner.number("id", one.id, 0, 1023, true);
    inner.size("memory", one.memory_bytes, true);
    inner.number("multiprocessors", one.multiprocessors, 1, 10'000, true);
    inner.number("size", one.size, 1, 8, true);
    inner.numbers("starts", one.starts, 0, 7);
  });
  reader.strings("unsupported", d.unsupported);
  fill_defaults(d);
  if (reader.is_sound()) reader.check(problem_of(d));
  machine.groups.push_back(std::move(d));
}

void read_process(Reader& reader, Machine& machine) {
  MachineProcess process;
  reader.number("device", process.device, 0, 1023, true);
  std::int64_t partition = -1;
  reader.number("partition", partition, 0, 1023);
  if (partition >= 0) process.partition = partition;
  reader.size("memory", process.memory_bytes, true);
  reader.strings("use", process.use);
  reader.number("activity_percent", process.activity_percent, 0, 100);
  reader.flag("foreign", process.foreign);
  reader.string("command", process.command, false, 120);
  reader.check(problem_of(process));
  machine.processes.push_back(std::move(process));
}

}  // namespace

Result<Machine> parse_machine(std::string_view document, const std::string& origin) {
  Machine machine;
  auto done = TomlTable::read(document, origin, "docs/simulator.md", [&](Reader& reader) {
    std::int64_t schema = 1;
    reader.number("schema", schema, 1, 1, true);
    reader.string("name", machine.name, true);
    reader.string("summary", machine.summary, false, 200);
    reader.string("note", machine.note, false, 400);
    reader.table("driver", [&](Reader& inner) { read_driver(inner, machine); });
    reader.tables("device", [&](Reader& inner) { read_devices(inner, machine); });
    reader.tables("process", [&](Reader& inner) { read_process(inner, machine); });
    reader.finish();
    if (reader.is_sound()) reader.check(problem_of(machine));
  });
  if (!done) return std::move(done).error();
  return machine;
}

}  // namespace berth::sim
