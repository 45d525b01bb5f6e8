// The CPU as a device. It always exists, so that a machine without a GPU can still run jobs.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "system/cpu_model.hpp"
#include "system/cpu_state.hpp"
#include "system/host.hpp"

namespace berth::system {
namespace {

/// The temperature of the hottest package, from sensors on the CPU itself (Linux
/// Documentation/hwmon/coretemp, k10temp).
model::Reading<double> temperature(const Roots& roots) {
  model::Reading<double> hottest = model::Absence::kNotSupported;
  const std::string folder = roots.sys + "/class/hwmon";
  for (const std::string& name : list_folder(folder)) {
    const std::string sensor = fmt::format("{}/{}", folder, name);
    const std::string chip = read_line(sensor + "/name").value_or("");
    if (chip != "coretemp" && chip != "k10temp" && chip != "zenpower" && chip != "cpu_thermal")
      continue;
    // Both drivers document temp1: coretemp as the package, k10temp as Tctl.
    const auto millidegrees = read_number(sensor + "/temp1_input");
    if (!millidegrees || *millidegrees < -50'000 || *millidegrees > 200'000) continue;
    const double celsius = static_cast<double>(*millidegrees) / 1000;
    if (!hottest || celsius > *hottest) hottest = celsius;
  }
  return hottest;
}

/// Reads the error counters of memory controllers (EDAC). Berth uses no other data about the health
/// of the host.
void read_memory_errors(const Roots& roots, model::Device& device) {
  device.readings.ecc_corrected = model::Absence::kNotSupported;
  device.readings.ecc_uncorrected = model::Absence::kNotSupported;
  const std::string folder = roots.sys + "/devices/system/edac/mc";
  std::uint64_t corrected = 0;
  std::uint64_t uncorrected = 0;
  bool counted = false;
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with("mc")) continue;
    const auto ce = read_number(fmt::format("{}/{}/ce_count", folder, name));
    const auto ue = read_number(fmt::format("{}/{}/ue_count", folder, name));
    if (!ce || !ue || *ce < 0 || *ue < 0) continue;
    counted = true;
    corrected += static_cast<std::uint64_t>(*ce);
    uncorrected += static_cast<std::uint64_t>(*ue);
  }
  if (!counted) return;  // without counters, health stays "not checked"
  device.readings.ecc_corrected = corrected;
  device.readings.ecc_uncorrected = uncorrected;
  device.health = uncorrected == 0 ? model::Health::kOk : model::Health::kDegraded;
  device.health_reasons.clear();
  if (uncorrected != 0) device.health_reasons.emplace_back("ecc_uncorrected");
}

}  // namespace

model::Device cpu_device(const Roots& roots, const model::Host& host) {
  model::Device device;
  model::set_all_absent(device.readings, model::Absence::kNotSupported);
  device.kind = model::DeviceKind::kCpu;
  device.name = host.cpu_model.empty() ? "CPU" : host.cpu_model;
  device.vendor_name =
      parse_cpu_model(slurp(roots.proc + "/cpuinfo", 4096).value_or("")).vendor_name;
  if (host.numa_nodes == 1 && read_line(roots.sys + "/devices/system/node/online") == "0")
    device.numa_node = 0;
  device.memory_unified = true;
  device.readings.utilization_percent = model::Absence::kNeedsTwoReadings;
  read_cpu_state(roots, host, device);
  return device;
}

void read_cpu_state(const Roots& roots, const model::Host& host, model::Device& device) {
  const model::CpuBudget& cpu = host.cpu;
  device.local_cpus = cpu.affinity;
  const std::uint64_t total = cpu.memory_limit_bytes.value_or(cpu.memory_total_bytes);
  if (total != 0) device.readings.memory_total_bytes = total;
  if (total != 0 && cpu.memory_available_bytes)
    device.readings.memory_used_bytes = total - std::min(total, *cpu.memory_available_bytes);
  device.readings.temperature_celsius = temperature(roots);
  read_memory_errors(roots, device);
}

}  // namespace berth::system
