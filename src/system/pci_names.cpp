#include "system/pci_names.hpp"

#include <array>

#include "base/file.hpp"

// The symbol names that berth_embed() in CMake generates.
extern "C" {
extern const unsigned char berth_pci_names[];
extern const unsigned char berth_pci_names_end[];
extern const unsigned char berth_amdgpu_names[];
extern const unsigned char berth_amdgpu_names_end[];
}

namespace berth::system {
namespace {
constexpr std::size_t kKeyLength = 8;

std::array<char, kKeyLength> key_of(std::uint16_t vendor, std::uint16_t device) {
  std::array<char, kKeyLength> key{};
  std::uint32_t id = std::uint32_t{vendor} << 16 | device;
  for (std::size_t i = kKeyLength; i-- > 0; id >>= 4) key[i] = "0123456789abcdef"[id & 15];
  return key;
}

std::string_view bytes(const unsigned char* begin, const unsigned char* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}
}  // namespace

std::optional<std::string> name_in_table(std::string_view table, std::uint16_t vendor,
                                         std::uint16_t device) {
  const auto digits = key_of(vendor, device);
  const std::string_view key(digits.data(), digits.size());
  // Binary search in the text. Each step picks the middle, then goes back to the start of that
  // line.
  while (!table.empty()) {
    const std::size_t middle = table.size() / 2;
    const std::size_t before = middle == 0 ? std::string_view::npos : table.rfind('\n', middle - 1);
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    const std::size_t end = std::min(table.find('\n', start), table.size());
    const std::string_view line = table.substr(start, end - start);
    const int order = key.compare(line.substr(0, kKeyLength));
    if (order == 0 && line.size() > kKeyLength + 1) return std::string(line.substr(kKeyLength + 1));
    if (order == 0) return std::nullopt;
    table = order < 0 ? table.substr(0, start) : table.substr(std::min(end + 1, table.size()));
  }
  return std::nullopt;
}

std::optional<std::string> pci_name(std::uint16_t vendor, std::uint16_t device,
                                    std::optional<std::uint8_t> revision) {
  // The files begin with comment lines (licence and source). '#' sorts before all digits, so all
  // lines are in ascending order.
  if (vendor == 0x1002 && revision) {
    auto name = name_in_table(bytes(berth_amdgpu_names, berth_amdgpu_names_end), device, *revision);
    if (name) return name;
  }
  return name_in_table(bytes(berth_pci_names, berth_pci_names_end), vendor, device);
}

}  // namespace berth::system
