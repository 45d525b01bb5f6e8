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

/// Everything known from the bus: address, ids, NUMA node, local CPUs, link, driver. All other
/// readings are absent as "not supported". For a suspended device, these readings and its health
/// are "asleep".
[[nodiscard]] model::Device device_from(const model::PciDevice& pci);

/// "…/bus/pci/devices/0000:03:00.0"
[[nodiscard]] std::string folder_of(const Roots& roots, const std::string& pci_address);

/// The file as an integer, or the reason why it could not be read. A negative number is "failed".
[[nodiscard]] model::Reading<std::uint64_t> number(const std::string& path);
/// Like number(), then multiplied and divided. To read microwatts of hwmon as milliwatts: (path, 1,
/// 1000).
[[nodiscard]] model::Reading<std::uint64_t> scaled(const std::string& path, std::uint64_t times,
                                                   std::uint64_t by);
/// A temperature from a file in thousandths of a degree, as in hwmon; it may be negative.
[[nodiscard]] model::Reading<double> celsius(const std::string& path);
/// A percentage. Values outside 0 … 100 are "failed".
[[nodiscard]] model::Reading<double> percent(const std::string& path);

/// `first` if it has a value, else `second`. If both are absent: the reason of `first`, or of
/// `second` if the former is "not supported".
template <typename T>
[[nodiscard]] model::Reading<T> either(model::Reading<T> first, model::Reading<T> second) {
  if (first || (!second && first.why != model::Absence::kNotSupported)) return first;
  return second;
}

/// The device's hwmon folder ("…/hwmon/hwmon3"); "" if it has none.
[[nodiscard]] std::string hwmon_of(const std::string& device_folder);
/// The path of the file `…_input` whose file `…_label` has this text ("temp", "edge"); "" if there
/// is none.
[[nodiscard]] std::string sensor_labelled(const std::string& hwmon, std::string_view kind,
                                          std::string_view label);
/// The N of "renderDN" in the device's drm folder.
[[nodiscard]] std::optional<std::uint32_t> render_minor(const std::string& device_folder);

/// Marks a card as not managed if it has no known driver or is passed through to a virtual machine,
/// and explains it in `note`. Returns whether the card was marked.
bool mark_without_driver(model::Device& device, const std::vector<std::string_view>& drivers);

}  // namespace berth::sysfs
