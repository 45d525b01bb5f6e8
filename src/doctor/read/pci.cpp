// Reads the PCI bus from sysfs. The configuration space of a sleeping GPU is never read, because
// that would wake the GPU.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/text_parts.hpp"
#include "doctor/facts/machine.hpp"
#include "doctor/read/collectors.hpp"
#include "model/cpu_list.hpp"

namespace berth::doctor {
namespace {

constexpr const char* kBus = "/sys/bus/pci/devices/";

std::uint32_t hexadecimal(const Fact<std::string>& text) {
  return text ? static_cast<std::uint32_t>(to_number(*text).value_or(0)) : 0;
}

template <typename T>
Fact<T> valued(const std::optional<T>& value) {
  return value ? Fact<T>(*value) : Fact<T>();
}

/// The number in a line; absent if the line has no number.
Fact<int> number(const Fact<std::string>& line) {
  if (line.is_unreadable()) return line.why();
  if (!line) return {};
  const auto value = to_number(*line);
  return value ? Fact<int>(static_cast<int>(*value)) : Fact<int>();
}

/// The number in a line such as "16.0 GT/s PCIe".
Fact<double> speed(const Fact<std::string>& line) {
  if (line.is_unreadable()) return line.why();
  double value = 0;
  if (!line || std::from_chars(line->data(), line->data() + line->size(), value).ec != std::errc())
    return {};
  return value;
}

PciLink read_link(const Tree& tree, const std::string& folder) {
  return {number(tree.line(folder + "/current_link_width")),
          number(tree.line(folder + "/max_link_width")),
          speed(tree.line(folder + "/current_link_speed")),
          speed(tree.line(folder + "/max_link_speed"))};
}

void read_bars(const Tree& tree, const std::string& folder, PciFunction& one) {
  const auto text = tree.read(folder + "/resource");
  if (text.is_unreadable()) one.bar_starts = one.bar_sizes = text.why();
  if (!text) return;
  std::vector<std::uint64_t> starts, sizes;
  for (const std::string_view line : split(*text, '\n')) {
    std::uint64_t start = 0, end = 0;
    const auto words = split(line, ' ');
    if (words.size() < 3 || words[0].size() < 3 || words[1].size() < 3) continue;
    std::from_chars(words[0].data() + 2, words[0].data() + words[0].size(), start, 16);
    std::from_chars(words[1].data() + 2, words[1].data() + words[1].size(), end, 16);
    starts.push_back(start);
    sizes.push_back(end > start ? end - start + 1 : 0);
  }
  one.bar_starts = std::move(starts);
  one.bar_sizes = std::move(sizes);
}

Fact<AerCounts> read_errors(const Tree& tree, const std::string& folder) {
  AerCounts counts;
  for (const char* file : {"/aer_dev_fatal", "/aer_dev_nonfatal", "/aer_dev_correctable"}) {
    const auto text = tree.read(folder + file);
    if (text.is_unreadable()) return text.why();
    if (!text) return {};
    const bool correctable = std::string_view(file).ends_with("correctable");
    for (const std::string_view line : split(*text, '\n')) {
      const auto blank = line.find(' ');
      if (blank == std::string_view::npos || line.starts_with("TOTAL_")) continue;
      // During bus enumeration, probing for a missing device causes these errors, even on healthy
      // machines.
      if (!correctable && (line.starts_with("UnsupReq") || line.starts_with("ACSViol"))) continue;
      const auto value = to_number(trim(line.substr(blank)));
      if (value && *value > 0)
        (correctable ? counts.correctable : counts.uncorrectable) +=
            static_cast<std::uint64_t>(*value);
    }
  }
  return counts;
}

Fact<bool> read_aspm(const Tree& tree, const std::string& folder) {
  bool any = false, known = false;
  for (const char* file : {"/link/l0s_aspm", "/link/l1_aspm"}) {
    const auto line = tree.line(folder + file);
    if (line.is_unreadable()) return line.why();
    known = known || line;
    any = any || line.value_or("0") == "1";
  }
  return known ? Fact<bool>(any) : Fact<bool>();
}

/// Reads ids and class. If they cannot be read, it is unknown whether the function is a GPU.
Fact<PciFunction> read_identity(const Tree& tree, const std::string& address) {
  return tree.watched([&]() -> Fact<PciFunction> {
    PciFunction one;
    one.address = address;
    one.vendor = hexadecimal(tree.line(kBus + address + "/vendor"));
    one.device = hexadecimal(tree.line(kBus + address + "/device"));
    one.class_code = hexadecimal(tree.line(kBus + address + "/class"));
    return one;
  });
}

/// Whether the bridge's ACS settings redirect requests between two devices below the bridge to the
/// root complex.
Fact<bool> redirects(const Tree& tree, const std::string& folder) {
  const auto config = tree.read(folder + "/config", 4096);
  if (config.is_unreadable()) return config.why();
  if (!config) return {};
  if (config->size() <= 256)
    return Unreadable{folder + "/config",
                      EPERM};  // users other than root can only read the first part of the file
  const auto word = [&](std::size_t at) -> std::uint32_t {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4 && at + i < config->size(); ++i)
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>((*config)[at + i])) << 8 * i;
    return value;
  };
  std::size_t at = 0x100;
  for (int hops = 0; hops < 64 && at >= 0x100; ++hops) {
    const std::uint32_t head = word(at);
    constexpr std::uint32_t kAcs = 0x0d, kRequest = 1U << 2, kCompletion = 1U << 3;
    if ((head & 0xffff) == kAcs) return ((word(at + 4) >> 16) & (kRequest | kCompletion)) != 0;
    at = head >> 20;
  }
  return false;
}

bool is_address(std::string_view name) {
  return name.size() >= 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

/// The bridges between a function and the root, nearest first, from the function's path in
/// /sys/devices.
std::vector<std::string> bridges_in(const std::string& real) {
  std::vector<std::string> above;
  for (const std::string_view part : split(real, '/'))
    if (is_address(part)) above.emplace(above.begin(), part);
  if (!above.empty()) above.erase(above.begin());
  return above;
}

void read_bridges(const Tree& tree, const std::vector<std::string>& above, PciFunction& one) {
  std::vector<std::string> redirecting;
  for (const std::string& bridge : above) {
    const auto answer = redirects(tree, kBus + bridge);
    if (answer.is_unreadable()) {
      one.redirecting_bridges = answer.why();
      return;
    }
    if (answer.value_or(false)) redirecting.push_back(bridge);
  }
  one.redirecting_bridges = std::move(redirecting);
}

/// Whether this bridge is part of a graphics card: AMD's larger cards have a switch between the
/// slot and the GPU. The switch has ATI's vendor id on Navi and later cards, and AMD's on Vega.
bool is_on_card(const Tree& tree, const std::string& bridge) {
  constexpr std::uint32_t kAti = 0x1002, kAmd = 0x1022, kVegaUp = 0x1470, kVegaDown = 0x1471;
  const auto vendor = hexadecimal(tree.line(bridge + "/vendor"));
  const auto device = hexadecimal(tree.line(bridge + "/device"));
  return vendor == kAti || (vendor == kAmd && (device == kVegaUp || device == kVegaDown));
}

void read_gpu(const Tree& tree, const std::string& folder, PciFunction& one) {
  one.runtime_status = tree.line(folder + "/power/runtime_status");
  one.power_state = tree.line(folder + "/power_state");
  if (!one.is_asleep()) {
    one.gone = tree.read(folder + "/config", 4).map([](const std::string& bytes) {
      return bytes.size() == 4 && bytes == "\xff\xff\xff\xff";
    });
  }
  read_bars(tree, folder, one);
  one.link = read_link(tree, folder);
  one.aspm = read_aspm(tree, folder);
  one.errors = read_errors(tree, folder);
  one.iommu = tree.line(folder + "/iommu_group/type");
  one.numa_node = number(tree.line(folder + "/numa_node"));
  const auto cpus = tree.line(folder + "/local_cpulist");
  if (cpus.is_unreadable()) one.near_cpus = cpus.why();
  if (cpus) one.near_cpus = valued(model::parse_cpu_list(*cpus));
  const auto real = tree.resolve(folder);
  if (real.is_unreadable()) one.redirecting_bridges = real.why();
  const auto above = bridges_in(real.value_or(""));
  if (above.empty()) return;
  const auto slot = std::find_if(above.begin(), above.end(), [&](const std::string& bridge) {
    return !is_on_card(tree, kBus + bridge);
  });
  one.port_address = slot == above.end() ? above.front() : *slot;
  one.port = read_link(tree, kBus + one.port_address);
  one.port_errors = read_errors(tree, kBus + one.port_address);
  read_bridges(tree, above, one);
}

}  // namespace

Fact<std::vector<PciFunction>> collect_pci(const Tree& tree) {
  constexpr std::uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;
  std::optional<Unreadable> doubt;
  auto all = tree.list("/sys/bus/pci/devices").map([&](const std::vector<std::string>& addresses) {
    std::vector<PciFunction> found;
    for (const std::string& address : addresses) {
      const std::string folder = kBus + address;
      const Fact<PciFunction> identity = read_identity(tree, address);
      if (!identity.is_whole()) doubt = identity.why();
      PciFunction one = *identity;
      one.driver = tree.link(folder + "/driver").map([](const std::string& target) {
        return target.substr(target.rfind('/') + 1);
      });
      if (one.is_gpu() && (one.vendor == kNvidia || one.vendor == kAmd))
        read_gpu(tree, folder, one);
      if (one.is_gpu() && one.vendor == kIntel) read_bars(tree, folder, one);
      found.push_back(std::move(one));
    }
    return found;
  });
  if (doubt) all.doubt(*doubt);
  return all;
}

}  // namespace berth::doctor
