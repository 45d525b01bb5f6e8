// Shared by the readers of AMD, Intel and other devices: creates a device from its PCI data, and
// turns sysfs files into readings. If the kernel refuses to read a file, the reading is absent,
// with this reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::sysfs {

/// Makes a device from what the bus reports: address, ids, NUMA node, local CPUs, link, driver. All
/// other readings are absent as "not supported". For a suspended device, these readings and its
/// health are "asleep".
[[nodiscard]] model::Device device_from(const model::PciDevice& pci);

/// Returns the device's folder: "…/bus/pci/devices/0000:03:00.0".
[[nodiscard]] std::string folder_of(const Roots& roots, const std::string& pci_address);

/// Reads a file as an integer. If the file cannot be read, the reading has the reason. A negative
/// number is "failed".
[[nodiscard]] model::Reading<std::uint64_t> number(const std::string& path);
/// Reads a number, multiplies it by `times` and divides it by `by`. For example, (path, 1, 1000)
/// converts microwatts of hwmon to milliwatts.
[[nodiscard]] model::Reading<std::uint64_t> scaled(const std::string& path, std::uint64_t times,
                                                   std::uint64_t by);
/// Reads a temperature from a file in thousandths of a degree, the unit of hwmon. It may be
/// negative.
[[nodiscard]] model::Reading<double> celsius(const std::string& path);
/// Reads a percentage. A value outside 0 … 100 is "failed".
[[nodiscard]] model::Reading<double> percent(const std::string& path);

/// Returns the first reading that has a value. If both are absent, the reason is that of `first`.
/// If that is "not supported", it is the reason of `second`.
template <typename T>
[[nodiscard]] model::Reading<T> either(model::Reading<T> first, model::Reading<T> second) {
  if (first || (!second && first.why != model::Absence::kNotSupported)) return first;
  return second;
}

/// The device's hwmon folder ("…/hwmon/hwmon3"); "" if it has none.
[[nodiscard]] std::string hwmon_of(const std::string& device_folder);
/// Returns the path of the sensor whose label is given: of the file `…_input` next to the file
/// `…_label` with this text ("temp", "edge"). "" if there is none.
[[nodiscard]] std::string sensor_labelled(const std::string& hwmon, std::string_view kind,
                                          std::string_view label);
/// Returns N of the device's render node "renderDN".
[[nodiscard]] std::optional<std::uint32_t> render_minor(const std::string& device_folder);

/// If a card has no known driver, or is passed through to a virtual machine: marks it as not
/// managed, explains this in `note`, and returns true.
bool mark_without_driver(model::Device& device, const std::vector<std::string_view>& drivers);

}  // namespace berth::sysfs
