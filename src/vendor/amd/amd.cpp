#include "vendor/amd/amd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "vendor/amd/text.hpp"
#include "vendor/sysfs/sysfs_device.hpp"

namespace berth::amd {
namespace {
using model::Absence;
using model::Reading;

constexpr std::uint64_t kMegahertz = 1'000'000;

struct Topology {
  std::vector<KfdNode> gpus;  // in the order of kfd, which is also the order of ROCm's numbers
};

Topology read_topology(const Roots& roots) {
  Topology topology;
  const std::string folder = roots.sys + "/class/kfd/kfd/topology/nodes";
  std::vector<std::int64_t> numbers;
  for (const std::string& name : list_folder(folder)) {
    const auto number = to_number(name);
    if (number && *number >= 0) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());  // needed because list_folder() sorts "10" before "2"
  for (const std::int64_t number : numbers) {
    const auto text = slurp(folder + "/" + std::to_string(number) + "/properties");
    if (!text) continue;
    const KfdNode node = parse_kfd_properties(*text);
    if (node.simd_count != 0) topology.gpus.push_back(node);
  }
  return topology;
}

void take_topology(const Topology& topology, model::Device& device) {
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) {
    const KfdNode& node = topology.gpus[i];
    if (pci_address_of(node) != device.pci_address) continue;
    device.vendor_index = static_cast<std::uint32_t>(i);
    device.architecture = architecture_of(node.gfx_target_version);
    if (node.unique_id != 0) device.uuid = fmt::format("GPU-{:016x}", node.unique_id);
    // A node with CPU cores is an integrated GPU: older kernels show the CPU and its graphics as
    // one node.
    device.memory_unified = node.cpu_cores_count != 0;
    return;  // all partitions of a card have the same address; use the first
  }
}

/// Returns the uuid in the form that ROCm's visibility variables accept: "GPU-" and sixteen
/// hexadecimal digits.
std::string uuid_from(const std::string& unique_id) {
  const bool hexadecimal = unique_id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (unique_id.size() != 16 || !hexadecimal) return {};
  return "GPU-" + unique_id;
}

std::string name_of(const model::PciDevice& pci, const std::string& product_name) {
  const std::string& known = product_name.empty() ? pci.name : product_name;
  if (known.empty()) return fmt::format("AMD GPU {:04x}", pci.device);
  return known.starts_with("AMD ") ? known : "AMD " + known;
}

/// Whether the GPU is integrated graphics. Its hwmon has the northbridge voltage, which only APUs
/// have according to the driver's documentation. This includes MI300A, whose whole memory is
/// shared.
bool is_integrated(const std::string& hwmon, const model::PciDevice& pci) {
  constexpr std::uint16_t kMi300a = 0x74a0;
  return pci.device == kMi300a || !sysfs::sensor_labelled(hwmon, "in", "vddnb").empty();
}

Reading<std::uint64_t> sum(const Reading<std::uint64_t>& a, const Reading<std::uint64_t>& b) {
  if (!a || !b) return a ? b.why : a.why;
  return *a + *b;
}

void read_memory(const std::string& folder, model::Device& device) {
  auto total = sysfs::number(folder + "/mem_info_vram_total");
  auto used = sysfs::number(folder + "/mem_info_vram_used");
  if (device.memory_unified) {
    // Add the host memory that the GPU may use. Only little memory is reserved for integrated
    // graphics at boot, so programs mostly use host memory.
    total = sum(total, sysfs::number(folder + "/mem_info_gtt_total"));
    used = sum(used, sysfs::number(folder + "/mem_info_gtt_used"));
  }
  if (total && used && *used > *total) used = Absence::kFailed;
  device.readings.memory_total_bytes = total;
  device.readings.memory_used_bytes = used;
}

void read_temperature(const std::string& hwmon, model::Device& device) {
  std::string sensor = sysfs::sensor_labelled(hwmon, "temp", "edge");
  if (sensor.empty()) sensor = sysfs::sensor_labelled(hwmon, "temp", "junction");
  if (sensor.empty()) sensor = hwmon + "/temp1_input";
  device.readings.temperature_celsius = sysfs::celsius(sensor);
  const auto& temperature = device.readings.temperature_celsius;
  const std::string stem = sensor.substr(0, sensor.size() - std::string_view("_input").size());
  const auto critical = sysfs::celsius(stem + "_crit");
  if (!temperature || !critical) return;
  if (*temperature < *critical) {
    device.health = model::Health::kOk;
    return;
  }
  device.health = model::Health::kDegraded;
  device.health_reasons.emplace_back("temperature_critical");
}

void read_power(const std::string& hwmon, model::Device& device) {
  device.readings.power_milliwatts =
      sysfs::either(sysfs::scaled(hwmon + "/power1_average", 1, 1000),
                    sysfs::scaled(hwmon + "/power1_input", 1, 1000).over(0));
}

void read_utilization(const std::string& folder, model::Device& device) {
  device.readings.utilization_percent = sysfs::percent(folder + "/gpu_busy_percent");
}

void read_hwmon(const std::string& hwmon, model::Device& device) {
  if (hwmon.empty()) return;
  model::DeviceReadings& readings = device.readings;
  read_temperature(hwmon, device);
  read_power(hwmon, device);
  readings.power_limit_milliwatts = sysfs::scaled(hwmon + "/power1_cap", 1, 1000);
  const auto fan = sysfs::number(hwmon + "/pwm1");  // 0 … 255
  if (!fan) readings.fan_percent = fan.why;
  if (fan && *fan <= 255) readings.fan_percent = std::round(static_cast<double>(*fan) / 2.55);
  readings.clock_graphics_mhz = sysfs::scaled(hwmon + "/freq1_input", 1, kMegahertz);
  readings.clock_memory_mhz = sysfs::scaled(hwmon + "/freq2_input", 1, kMegahertz);
}

void read_clocks(const std::string& folder, model::Device& device) {
  const auto take = [&](const char* file, Reading<std::uint64_t>& now,
                        Reading<std::uint64_t>& highest) {
    int problem = 0;
    const auto text = slurp(folder + file, 8192, &problem);
    if (!text) {
      highest = model::absence_of(problem);
      return;
    }
    const ClockLevels levels = parse_clock_levels(*text);
    if (levels.highest_mhz) highest = *levels.highest_mhz;
    if (!now && levels.current_mhz) now = *levels.current_mhz;
  };
  model::DeviceReadings& readings = device.readings;
  take("/pp_dpm_sclk", readings.clock_graphics_mhz, readings.clock_graphics_max_mhz);
  take("/pp_dpm_mclk", readings.clock_memory_mhz, readings.clock_memory_max_mhz);
}

/// Reads the speed of the PCIe link from the driver. For many cards, the PCI bus reports the link
/// between the card's chip and its on-board switch, which always runs at full speed.
void read_link(const std::string& folder, model::Device& device) {
  const LinkLevel link = parse_link_levels(slurp(folder + "/pp_dpm_pcie", 4096).value_or(""));
  const auto generation = link.gts ? model::pcie_generation(*link.gts) : std::nullopt;
  if (generation) device.readings.pcie_generation = static_cast<std::uint64_t>(*generation);
  if (link.width) device.readings.pcie_width = *link.width;
}

void read_errors(const std::string& folder, model::Device& device) {
  int problem = 0;
  const auto text = slurp(folder + "/ras/umc_err_count", 4096, &problem);
  if (!text) {
    device.readings.ecc_corrected = model::absence_of(problem);
    device.readings.ecc_uncorrected = model::absence_of(problem);
    return;
  }
  const ErrorCounts counts = parse_error_counts(*text);
  if (counts.corrected) device.readings.ecc_corrected = *counts.corrected;
  if (!counts.uncorrected) return;
  device.readings.ecc_uncorrected = *counts.uncorrected;
  if (*counts.uncorrected == 0) {
    if (device.health == model::Health::kNotChecked) device.health = model::Health::kOk;
    return;
  }
  device.health = model::Health::kDegraded;
  device.health_reasons.emplace_back("ecc_uncorrected");
}

void note_partitions(const std::string& folder, const Topology& topology, model::Device& device) {
  const std::string mode = printable(read_line(folder + "/current_compute_partition").value_or(""));
  if (mode.empty() || mode == "SPX" || mode == "UNKNOWN") return;
  const auto count = std::count_if(
      topology.gpus.begin(), topology.gpus.end(),
      [&](const KfdNode& node) { return pci_address_of(node) == device.pci_address; });
  device.note = text_n("compute partition mode {0}: ROCm sees {1} device",
                       "compute partition mode {0}: ROCm sees {1} devices", count, mode, count);
}

void read_awake(const std::string& folder, const Topology& topology, const model::PciDevice& pci,
                model::Device& device) {
  const std::string hwmon = sysfs::hwmon_of(folder);
  device.memory_unified = device.memory_unified || is_integrated(hwmon, pci);
  const std::string uuid = uuid_from(read_line(folder + "/unique_id").value_or(""));
  if (!uuid.empty()) device.uuid = uuid;
  device.name = name_of(pci, printable(read_line(folder + "/product_name").value_or("")));
  read_memory(folder, device);
  read_utilization(folder, device);
  device.readings.memory_utilization_percent = sysfs::percent(folder + "/mem_busy_percent");
  read_hwmon(hwmon, device);
  read_clocks(folder, device);
  read_link(folder, device);
  read_errors(folder, device);
  note_partitions(folder, topology, device);
}

}  // namespace

std::vector<model::Device> read_devices(const Roots& roots,
                                        const std::vector<model::PciDevice>& pci) {
  std::vector<model::Device> devices;
  Topology topology;
  for (const model::PciDevice& card : pci) {
    const std::uint32_t base_class = card.class_code >> 16;
    if (card.vendor != 0x1002 || (base_class != 0x03 && base_class != 0x12)) continue;
    if (devices.empty()) topology = read_topology(roots);
    model::Device device = sysfs::device_from(card);
    device.kind = model::DeviceKind::kGpu;
    device.vendor = model::Vendor::kAmd;
    device.vendor_name = "AMD";
    device.name = name_of(card, "");
    const std::string folder = sysfs::folder_of(roots, card.address);
    if (!sysfs::mark_without_driver(device, {"amdgpu"})) {
      take_topology(topology, device);
      device.minor_number = sysfs::render_minor(folder);
      // Read no other file of a suspended card. Old kernels would wake the card, and new kernels
      // refuse.
      if (!card.suspended) read_awake(folder, topology, card, device);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

void read_load(const Roots& roots, model::Device& device) {
  const std::string folder = sysfs::folder_of(roots, device.pci_address);
  read_utilization(folder, device);
  const std::string hwmon = sysfs::hwmon_of(folder);
  if (!hwmon.empty()) read_power(hwmon, device);
}

}  // namespace berth::amd
