#include "system/pci.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "model/cpu_list.hpp"
#include "system/pci_names.hpp"

namespace berth::system {
namespace {

// Vendors whose accelerators may have a class other than 03 or 12 ("processor", "system
// peripheral", "unassigned"). vendor/other decides by exact id which devices are accelerators.
constexpr std::array<std::uint16_t, 16> kAcceleratorVendors = {
    0x1002,  // AMD
    0x1022,  // AMD (neural processors)
    0x10de,  // NVIDIA
    0x17cb,  // Qualcomm
    0x19e5,  // Huawei
    0x1ae0,  // Google
    0x1d0f,  // Amazon
    0x1d22,  // Baidu
    0x1d94,  // Hygon
    0x1da3,  // Habana
    0x1e36,  // Enflame
    0x1e3e,  // Iluvatar
    0x1e52,  // Tenstorrent
    0x1e60,  // Hailo
    0x1ed5,  // Moore Threads
    0xcabc,  // Cambricon
};

std::optional<std::uint32_t> hexadecimal(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::optional<std::uint16_t> identifier(std::string_view text) {
  const auto number = hexadecimal(text);
  if (!number || *number > 0xFFFF) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

/// Whether the name is a PCI address, "0000:81:00.0": a domain of four or more digits, bus, slot,
/// function.
bool is_address(std::string_view name) {
  const auto parts = split(name, ':');
  if (parts.size() != 3 || parts[0].size() < 4 || parts[1].size() != 2 || parts[2].size() != 4)
    return false;
  return hexadecimal(parts[0]) && hexadecimal(parts[1]) && hexadecimal(parts[2].substr(0, 2)) &&
         parts[2][2] == '.' && hexadecimal(parts[2].substr(3));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool pair_of_ids(std::string_view text, std::uint16_t& first, std::uint16_t& second) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const auto a = identifier(text.substr(0, colon));
  const auto b = identifier(text.substr(colon + 1));
  if (a) first = *a;
  if (b) second = *b;
  return a && b;
}

/// Reads the ids and the class, which decide whether a device matters. Servers have hundreds of
/// devices, so it reads only one file for each.
bool read_uevent(const std::string& folder, PciDevice& device) {
  const auto text = slurp(folder + "/uevent", 4096);
  if (!text) return false;
  bool has_class = false;
  bool has_id = false;
  for (const std::string_view line : split(*text, '\n')) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = trim(line.substr(equals + 1));
    if (key == "DRIVER") device.driver = printable(value);
    if (key == "PCI_ID") has_id = pair_of_ids(value, device.vendor, device.device);
    if (key == "PCI_SUBSYS_ID")
      static_cast<void>(pair_of_ids(value, device.subsystem_vendor, device.subsystem_device));
    if (key != "PCI_CLASS") continue;
    const auto code = hexadecimal(value);
    has_class = code.has_value();
    device.class_code = code.value_or(0);
  }
  return has_class && has_id;
}

/// Reads the same values as read_uevent() from separate files, because recorded and simulated trees
/// have no uevent.
bool read_single_files(const std::string& folder, PciDevice& device) {
  const auto hex = [&](const char* file) {
    const auto line = read_line(folder + file);
    return line ? hexadecimal(*line) : std::nullopt;
  };
  const auto id = [&](const char* file) -> std::optional<std::uint16_t> {
    const auto number = hex(file);
    if (!number || *number > 0xFFFF) return std::nullopt;
    return static_cast<std::uint16_t>(*number);
  };
  const auto class_code = hex("/class");
  const auto vendor = id("/vendor");
  const auto model = id("/device");
  if (!class_code || !vendor || !model) return false;
  device.class_code = *class_code;
  device.vendor = *vendor;
  device.device = *model;
  device.subsystem_vendor = id("/subsystem_vendor").value_or(0);
  device.subsystem_device = id("/subsystem_device").value_or(0);
  device.driver = printable(link_name(folder + "/driver").value_or(""));
  return true;
}

bool is_accelerator(const PciDevice& device) {
  const std::uint32_t base = device.class_code >> 16;
  if (base == 0x03 || base == 0x12) return true;
  // Hygon's K100_AI identifies itself as a bridge (pci.ids; class seen in gpustack/gpustack issue
  // 5170).
  if (device.id() == 0x1d946211) return true;
  // Classes of other devices that these vendors build: storage, network, sound, bridges, buses and
  // radio.
  constexpr std::array<std::uint32_t, 6> kOther = {0x01, 0x02, 0x04, 0x06, 0x0c, 0x0d};
  if (std::find(kOther.begin(), kOther.end(), base) != kOther.end()) return false;
  return std::find(kAcceleratorVendors.begin(), kAcceleratorVendors.end(), device.vendor) !=
         kAcceleratorVendors.end();
}

/// The link speed: 16.0 for "16.0 GT/s PCIe"; nullopt for "Unknown".
std::optional<double> link_speed(const std::string& path) {
  const auto line = read_line(path);
  if (!line) return std::nullopt;
  double speed = 0;
  const auto [end, problem] =
      std::from_chars(line->data(), line->data() + line->size(), speed, std::chars_format::fixed);
  const std::string_view rest(end, static_cast<std::size_t>(line->data() + line->size() - end));
  if (problem != std::errc() || !trim(rest).starts_with("GT/s") || !pcie_generation(speed))
    return std::nullopt;
  return speed;
}

std::optional<int> link_width(const std::string& path) {
  const auto number = read_number(path);
  // 0 means that there is no link, and 255 that the kernel does not know the width.
  if (!number || *number < 1 || *number > 32) return std::nullopt;
  return static_cast<int>(*number);
}

/// Whether the device is suspended. Reading the files does not wake the device, because the kernel
/// answers from memory.
bool sleeps(const std::string& folder) {
  const auto status = read_line(folder + "/power/runtime_status");
  if (status && (*status == "suspended" || *status == "suspending")) return true;
  return read_line(folder + "/power_state") == "D3cold";
}

/// The bridges above a device, from the target of the link `folder`:
/// "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0" → "pci0000:00/0000:00:01.0". "" if
/// `folder` is a plain folder, as in a recording.
std::string path_above(const std::string& folder) {
  constexpr std::size_t kLongest = 256;  // enough for 18 bridges; real machines have up to 6
  std::string target;
  if (const auto link = link_target(folder)) target = printable(*link);
  const auto begin = target.find("/pci");
  const auto end = target.rfind('/');
  if (begin == std::string::npos || end <= begin || end - begin > kLongest) return "";
  return target.substr(begin + 1, end - begin - 1);
}

void read_rest(const std::string& folder, PciDevice& device) {
  device.path = path_above(folder);
  device.suspended = sleeps(folder);
  const auto node = read_number(folder + "/numa_node");
  if (node && *node >= 0 && *node < 65536) device.numa_node = static_cast<int>(*node);
  const auto cpus = read_line(folder + "/local_cpulist");
  const auto list = cpus ? model::parse_cpu_list(*cpus) : std::nullopt;
  if (list) device.local_cpus = model::show_cpu_list(*list);
  const auto revision = device.vendor == 0x1002 ? read_number(folder + "/revision") : std::nullopt;
  if (revision && *revision >= 0 && *revision <= 0xFF)
    device.revision = static_cast<std::uint8_t>(*revision);
  device.name = pci_name(device.vendor, device.device, device.revision).value_or("");
  if (device.suspended)
    return;  // reading the state of the link from the device's registers would wake the device
  device.link_speed_gts = link_speed(folder + "/current_link_speed");
  device.link_speed_max_gts = link_speed(folder + "/max_link_speed");
  device.link_width = link_width(folder + "/current_link_width");
  device.link_width_max = link_width(folder + "/max_link_width");
}

}  // namespace

std::vector<PciDevice> scan_pci(const Roots& roots) {
  std::vector<PciDevice> devices;
  const std::string bus = roots.sys + "/bus/pci/devices";
  for (const std::string& name : list_folder(bus)) {
    if (!is_address(name)) continue;
    const std::string folder = fmt::format("{}/{}", bus, name);
    PciDevice device;
    device.address = lower(name);
    if (!read_uevent(folder, device)) {
      device = {};
      device.address = lower(name);
      if (!read_single_files(folder, device)) continue;
    }
    if (!is_accelerator(device)) continue;
    read_rest(folder, device);
    devices.push_back(std::move(device));
  }
  return devices;
}

bool is_suspended(const Roots& roots, const std::string& address) {
  return sleeps(fmt::format("{}/bus/pci/devices/{}", roots.sys, address));
}

}  // namespace berth::system
