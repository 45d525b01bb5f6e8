// What the readers of AMD, Intel and other devices share: a device begun from its place on the PCI
// bus, and files of its sysfs folder turned into readings, with the kernel's refusal as the reason
// of absence.
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

/// Everything that the bus tells: address, ids, NUMA node, processors nearby, link, driver. Every
/// other reading is absent as "not supported", or as "asleep" for a suspended device, whose health
/// is then "asleep".
[[nodiscard]] model::Device device_from(const model::PciDevice& pci);

/// "…/bus/pci/devices/0000:03:00.0"
[[nodiscard]] std::string folder_of(const Roots& roots, const std::string& pci_address);

/// A whole number that is all of the file; the reason where there is none. Negative numbers are
/// nonsense here ("failed").
[[nodiscard]] model::Reading<std::uint64_t> number(const std::string& path);
/// The same, multiplied and divided: hwmon's microwatts to milliwatts is (path, 1, 1000).
[[nodiscard]] model::Reading<std::uint64_t> scaled(const std::string& path, std::uint64_t times,
                                                   std::uint64_t by);
/// Thousandths of a degree, as hwmon writes temperatures; may be negative.
[[nodiscard]] model::Reading<double> celsius(const std::string& path);
/// 0 … 100; anything else is "failed".
[[nodiscard]] model::Reading<double> percent(const std::string& path);

/// The value of `first`, else of `second`; without either the reason of `first`, unless that is
/// "not supported".
template <typename T>
[[nodiscard]] model::Reading<T> either(model::Reading<T> first, model::Reading<T> second) {
  if (first || (!second && first.why != model::Absence::kNotSupported)) return first;
  return second;
}

/// The device's hwmon folder ("…/hwmon/hwmon3"); "" where it has none.
[[nodiscard]] std::string hwmon_of(const std::string& device_folder);
/// The path of `…_input` whose `…_label` is this ("temp", "edge"); "" where there is none.
[[nodiscard]] std::string sensor_labelled(const std::string& hwmon, std::string_view kind,
                                          std::string_view label);
/// N of "renderDN" in the device's drm folder.
[[nodiscard]] std::optional<std::uint32_t> render_minor(const std::string& device_folder);

/// A card without a driver of its own, or one given to a virtual machine, is seen and not managed;
/// says so in `note`. True where that is so.
bool mark_without_driver(model::Device& device, const std::vector<std::string_view>& drivers);

}  // namespace berth::sysfs
