#include "vendor/sysfs/sysfs_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.hpp"

namespace berth::sysfs {
namespace {

model::Reading<std::uint64_t> unsigned_reading(std::optional<int> value) {
  if (value && *value >= 0) return static_cast<std::uint64_t>(*value);
  return model::Absence::kNotSupported;
}

std::optional<int> generation(std::optional<double> gts) {
  return gts ? model::pcie_generation(*gts) : std::nullopt;
}

/// Reads a file that contains one signed number.
model::Reading<std::int64_t> signed_number(const std::string& path) {
  int problem = 0;
  const auto text = slurp(path, 64, &problem);
  if (!text) return model::absence_of(problem);
  const auto value = to_number(trim(*text));
  if (!value) return model::Absence::kFailed;
  return *value;
}

}  // namespace

model::Device device_from(const model::PciDevice& pci) {
  model::Device device;
  model::set_all_absent(device.readings,
                        pci.suspended ? model::Absence::kAsleep : model::Absence::kNotSupported);
  if (pci.suspended) device.health = model::Health::kAsleep;
  device.pci_address = pci.address;
  device.pci_path = pci.path;
  device.pci_id = pci.id();
  device.kernel_driver = pci.driver;
  device.numa_node = pci.numa_node;
  device.local_cpus = pci.local_cpus;
  if (pci.suspended) return device;
  model::DeviceReadings& readings = device.readings;
  readings.pcie_generation = unsigned_reading(generation(pci.link_speed_gts));
  readings.pcie_generation_max = unsigned_reading(generation(pci.link_speed_max_gts));
  readings.pcie_width = unsigned_reading(pci.link_width);
  readings.pcie_width_max = unsigned_reading(pci.link_width_max);
  return device;
}

std::string folder_of(const Roots& roots, const std::string& pci_address) {
  return roots.sys + "/bus/pci/devices/" + pci_address;
}

model::Reading<std::uint64_t> number(const std::string& path) {
  return scaled(path, 1, 1);
}

model::Reading<std::uint64_t> scaled(const std::string& path, std::uint64_t times,
                                     std::uint64_t by) {
  const auto value = signed_number(path);
  if (!value) return value.why;
  if (*value < 0) return model::Absence::kFailed;
  const auto positive = static_cast<std::uint64_t>(*value);
  if (positive > std::numeric_limits<std::uint64_t>::max() / times) return model::Absence::kFailed;
  return positive * times / by;
}

model::Reading<double> celsius(const std::string& path) {
  const auto value = signed_number(path);
  if (!value) return value.why;
  if (*value < -273'150 || *value > 1'000'000) return model::Absence::kFailed;
  return static_cast<double>(*value) / 1000;
}

model::Reading<double> percent(const std::string& path) {
  const auto value = signed_number(path);
  if (!value) return value.why;
  if (*value < 0 || *value > 100) return model::Absence::kFailed;
  return static_cast<double>(*value);
}

std::string hwmon_of(const std::string& device_folder) {
  for (const std::string& name : list_folder(device_folder + "/hwmon"))
    if (name.starts_with("hwmon")) return fmt::format("{}/hwmon/{}", device_folder, name);
  return {};
}

std::string sensor_labelled(const std::string& hwmon, std::string_view kind,
                            std::string_view label) {
  if (hwmon.empty()) return {};
  for (int i = 0; i < 8; ++i) {
    const std::string sensor = hwmon + "/" + std::string(kind) + std::to_string(i);
    if (read_line(sensor + "_label") == label) return sensor + "_input";
  }
  return {};
}

std::optional<std::uint32_t> render_minor(const std::string& device_folder) {
  constexpr std::string_view kPrefix = "renderD";
  for (const std::string& name : list_folder(device_folder + "/drm")) {
    if (!name.starts_with(kPrefix)) continue;
    const auto minor = to_number(std::string_view(name).substr(kPrefix.size()));
    if (minor && *minor >= 0 && *minor < (1 << 20)) return static_cast<std::uint32_t>(*minor);
  }
  return std::nullopt;
}

bool mark_without_driver(model::Device& device, const std::vector<std::string_view>& drivers) {
  if (std::find(drivers.begin(), drivers.end(), device.kernel_driver) != drivers.end())
    return false;
  device.managed = false;
  if (device.kernel_driver.empty())
    device.note = text("no kernel driver is bound to the device, so no program can use it");
  else if (device.kernel_driver == "vfio-pci")
    device.note = text("the device is reserved for a virtual machine (vfio-pci)");
  else
    device.note =
        text("the device's kernel driver is {}, which Berth cannot query", device.kernel_driver);
  return true;
}

}  // namespace berth::sysfs
