#include "vendor/amd/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text_parts.hpp"

namespace berth::amd {
namespace {

/// Removes an unsigned number from the front of `text` and returns it; nullopt if there is none.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<double> take_decimal(std::string_view& text) {
  double value = 0;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// Returns the text after the colon in a line "N: VALUE"; empty if the line has no colon.
std::string_view level(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  return trim(line.substr(colon + 1));
}

bool in_use(std::string_view line) {
  return trim(line).ends_with('*');
}

/// Converts text to a number; 0 if it is not a number. 64 bits, because unique_id needs all of
/// them.
std::uint64_t number_or_zero(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

ClockLevels parse_clock_levels(std::string_view text) {
  ClockLevels clocks;
  for (const std::string_view line : split(text, '\n')) {
    std::string_view rest = level(line);
    const auto mhz = take_number(rest);
    // A line may also be "S: 19Mhz *", which some boards write for a sleeping clock. The unit is
    // always "Mhz".
    if (!mhz || !trim(rest).starts_with("Mhz")) continue;
    if (in_use(line)) clocks.current_mhz = mhz;
    clocks.highest_mhz = std::max(clocks.highest_mhz.value_or(0), *mhz);
  }
  return clocks;
}

LinkLevel parse_link_levels(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    if (!in_use(line)) continue;
    LinkLevel link;
    std::string_view rest = level(line);
    link.gts = take_decimal(rest);
    if (!trim(rest).starts_with("GT/s")) return {};
    const auto x = rest.find(" x");
    if (x == std::string_view::npos) return link;
    rest.remove_prefix(x + 2);
    const auto width = take_number(rest);
    if (width && *width >= 1 && *width <= 32) link.width = width;
    return link;
  }
  return {};
}

ErrorCounts parse_error_counts(std::string_view text) {
  ErrorCounts counts;
  for (const std::string_view line : split(text, '\n')) {
    std::string_view rest = level(line);
    const auto value = take_number(rest);
    if (!value || !rest.empty()) continue;
    if (trim(line).starts_with("ue:")) counts.uncorrected = value;
    if (trim(line).starts_with("ce:")) counts.corrected = value;
  }
  return counts;
}

std::string architecture_of(std::uint64_t gfx_target_version) {
  if (gfx_target_version == 0 || gfx_target_version > 999'999) return {};
  // The compiler's names have one hexadecimal digit each for the minor version and the stepping.
  return fmt::format("gfx{}{:x}{:x}", gfx_target_version / 10'000, gfx_target_version / 100 % 100,
                     gfx_target_version % 100);
}

KfdNode parse_kfd_properties(std::string_view text) {
  KfdNode node;
  for (const std::string_view line : split(text, '\n')) {
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank);
    const std::uint64_t value = number_or_zero(trim(line.substr(blank + 1)));
    if (key == "simd_count") node.simd_count = value;
    if (key == "cpu_cores_count") node.cpu_cores_count = value;
    if (key == "gfx_target_version") node.gfx_target_version = value;
    if (key == "unique_id") node.unique_id = value;
    if (key == "domain") node.domain = value;
    if (key == "location_id") node.location_id = value;
    if (key == "drm_render_minor") node.drm_render_minor = value;
  }
  return node;
}

std::string pci_address_of(const KfdNode& node) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", node.domain, node.location_id >> 8 & 0xFF,
                     node.location_id >> 3 & 0x1F, node.location_id & 7);
}

}  // namespace berth::amd
