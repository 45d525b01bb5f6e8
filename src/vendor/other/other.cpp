#include "vendor/other/other.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "vendor/sysfs/sysfs_device.hpp"

namespace berth::other {
namespace {

struct Known {
  std::uint16_t vendor, device;
  std::string_view name;
};

// The PCI ids of TPUs come from JAX (jax/_src/hardware_utils.py) and gVisor (pkg/abi/tpu/tpu.go).
constexpr std::uint16_t kGoogle = 0x1ae0;
constexpr std::array<Known, 6> kTpus = {{
    {kGoogle, 0x0027, "TPU v2/v3"},
    {kGoogle, 0x0056, "TPU v4 lite"},
    {kGoogle, 0x005e, "TPU v4"},
    {kGoogle, 0x0062, "TPU v5p"},
    {kGoogle, 0x0063, "TPU v5e"},
    {kGoogle, 0x006f, "TPU v6e"},
}};

// A vendor that makes only accelerators: all of its display and processing devices in pci.ids are
// accelerators.
struct Maker {
  std::uint16_t vendor;
  std::string_view name;
};
constexpr std::array<Maker, 18> kMakers = {{
    {0x1d95, "Graphcore"},
    {0x1da3, "Habana"},
    {0x1de0, "Groq"},
    {0x1e0d, "SambaNova"},
    {0x1e36, "Enflame"},
    {0x1e38, "Blaize"},
    {0x1e3e, "Iluvatar CoreX"},
    {0x1e52, "Tenstorrent"},
    {0x1e60, "Hailo"},
    {0x1ec6, "Vastai"},
    {0x1ed2, "FuriosaAI"},
    {0x1ed5, "Moore Threads"},
    {0x1eff, "Rebellions"},
    {0x1f82, "d-Matrix"},
    {0x209f, "Mobilint"},
    {0x4c54, "Lisuan"},
    {0x9999, "MetaX"},
    {0xcabc, "Cambricon"},
}};

// Accelerators of vendors that also make other products, by vendor and device id. Sources: pci.ids
// (Hygon, Amazon, Baidu; NPUs: 1022, 8086); Huawei's Ascend driver, xsmem_modprobe_adapt.c (19e5);
// Linux drivers/accel/qaic (17cb).
constexpr std::array<Known, 26> kAccelerators = {{
    {0x1022, 0x1502, "AMD"},           {0x1022, 0x17f0, "AMD"},
    {0x17cb, 0xa100, "Qualcomm"},      {0x19e5, 0xd100, "Huawei Ascend"},
    {0x19e5, 0xd105, "Huawei Ascend"}, {0x19e5, 0xd500, "Huawei Ascend"},
    {0x19e5, 0xd501, "Huawei Ascend"}, {0x19e5, 0xd801, "Huawei Ascend"},
    {0x19e5, 0xd802, "Huawei Ascend"}, {0x19e5, 0xd803, "Huawei Ascend"},
    {0x19e5, 0xd804, "Huawei Ascend"}, {0x19e5, 0xd806, "Huawei Ascend"},
    {0x19e5, 0xd807, "Huawei Ascend"}, {0x1d0f, 0x7064, "AWS"},
    {0x1d0f, 0x7164, "AWS"},           {0x1d0f, 0x7264, "AWS"},
    {0x1d0f, 0x7364, "AWS"},           {0x1d0f, 0x7564, "AWS"},
    {0x1d0f, 0x7565, "AWS"},           {0x1d22, 0x3684, "Baidu"},
    {0x1d22, 0x3685, "Baidu"},         {0x1d94, 0x6211, "Hygon"},
    {0x8086, 0x643e, "Intel"},         {0x8086, 0x7d1d, "Intel"},
    {0x8086, 0xad1d, "Intel"},         {0x8086, 0xb03e, "Intel"},
}};

/// Returns the maker of an accelerator; "" if Berth does not know the device.
std::string_view maker_of(const model::PciDevice& pci) {
  for (const Known& known : kAccelerators)
    if (known.vendor == pci.vendor && known.device == pci.device) return known.name;
  for (const Maker& maker : kMakers)
    if (maker.vendor == pci.vendor) return maker.name;
  return {};
}

std::optional<std::string_view> tpu_name(const model::PciDevice& pci) {
  for (const Known& known : kTpus)
    if (known.vendor == pci.vendor && known.device == pci.device) return known.name;
  return std::nullopt;
}

/// Returns N for a name "accelN"; nullopt for other names.
std::optional<std::uint32_t> accel_number(std::string_view name) {
  if (!name.starts_with("accel")) return std::nullopt;
  const auto number = to_number(name.substr(5));
  if (!number || *number < 0 || *number > 4096) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

/// Returns N of the device's node /dev/accelN. A link in /sys/class/accel leads from N to the
/// device.
std::optional<std::uint32_t> node_of(const Roots& roots, const std::string& address) {
  const std::string folder = roots.sys + "/class/accel";
  for (const std::string& name : list_folder(folder)) {
    const auto number = accel_number(name);
    if (number && link_name(fmt::format("{}/{}/device", folder, name)) == address) return number;
  }
  return std::nullopt;
}

model::Device new_tpu() {
  model::Device device;
  device.kind = model::DeviceKind::kTpu;
  device.vendor = model::Vendor::kGoogle;
  device.vendor_name = "Google";
  device.name = "Google TPU";
  // No interface reports which processes use a TPU.
  device.processes_unknown = model::Absence::kNotSupported;
  device.note = text("no interface shows which processes use a TPU");
  return device;
}

}  // namespace

std::vector<model::Device> read_tpus(const Roots& roots, const std::vector<model::PciDevice>& pci) {
  std::vector<model::Device> devices;
  for (const model::PciDevice& chip : pci) {
    const auto name = tpu_name(chip);
    if (!name) continue;
    model::Device device = new_tpu();
    const model::Device on_bus = sysfs::device_from(chip);
    device.pci_address = on_bus.pci_address;
    device.pci_path = on_bus.pci_path;
    device.pci_id = on_bus.pci_id;
    device.kernel_driver = on_bus.kernel_driver;
    device.numa_node = on_bus.numa_node;
    device.local_cpus = on_bus.local_cpus;
    device.readings = on_bus.readings;
    device.health = on_bus.health;
    device.name = "Google " + std::string(*name);
    device.minor_number = node_of(roots, chip.address);
    devices.push_back(std::move(device));
  }
  if (!devices.empty()) return devices;
  // Nodes accelN directly in /dev belong to the TPU driver. The kernel's accel class has its nodes
  // in the folder /dev/accel/.
  for (const std::string& name : list_folder(roots.dev)) {
    const auto number = accel_number(name);
    if (!number) continue;
    model::Device device = new_tpu();
    model::set_all_absent(device.readings, model::Absence::kNotSupported);
    device.minor_number = *number;
    device.note =
        text("only the device node is known: {}", "/dev/" + printable(name)) + "; " + device.note;
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<model::Device> read_unmanaged(const std::vector<model::PciDevice>& pci) {
  std::vector<model::Device> devices;
  for (const model::PciDevice& card : pci) {
    const std::string_view maker = maker_of(card);
    if (maker.empty()) continue;
    model::Device device = sysfs::device_from(card);
    device.kind = model::DeviceKind::kAccelerator;
    device.vendor_name = maker;
    device.name = card.name.empty() ? fmt::format("{} {:04x}", maker, card.device)
                                    : fmt::format("{} {}", maker, card.name);
    device.managed = false;
    device.note = text("Berth lists this device, but does not manage it");
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace berth::other
