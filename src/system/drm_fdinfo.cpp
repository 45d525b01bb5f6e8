#include "system/drm_fdinfo.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace berth::system {
namespace {

// The kernel writes about a dozen engines and regions. Names beyond this number are ignored.
constexpr std::size_t kMostNames = 64;
constexpr std::size_t kLongestName = 48;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  return a > kMost - b ? kMost : a + b;
}

/// An amount in bytes: 1048576 for "1024 KiB". The units are from drm-usage-stats.rst. An amount
/// without a unit is returned as it is: bytes, nanoseconds or cycles.
std::optional<std::uint64_t> amount_of(std::string_view text) {
  text = trim(text);
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc()) return std::nullopt;
  const std::string_view unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  unsigned shift = 0;
  if (unit == "KiB")
    shift = 10;
  else if (unit == "MiB")
    shift = 20;
  else if (unit == "GiB")
    shift = 30;
  else if (!unit.empty() && unit != "B" && unit != "ns")
    return std::nullopt;
  if (value > kMost >> shift) return std::nullopt;
  return value << shift;
}

/// Adds `amount` to the known amount with this name. With `replace`, overwrites the known amount,
/// because the new one comes from a preferred key.
void put(std::vector<DrmAmount>& amounts, std::string_view name, std::uint64_t amount,
         bool replace) {
  if (name.empty() || name.size() > kLongestName) return;
  for (DrmAmount& known : amounts) {
    if (known.name != name) continue;
    known.amount = replace ? amount : add(known.amount, amount);
    return;
  }
  if (amounts.size() < kMostNames) amounts.push_back({printable(name), amount});
}

bool has(const std::vector<DrmAmount>& amounts, std::string_view name) {
  return std::any_of(amounts.begin(), amounts.end(),
                     [&](const DrmAmount& one) { return one.name == name; });
}

/// A PCI address in lower case, "0000:03:00.0"; "" if it is invalid.
std::string address_of(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'F';
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
    if (!upper && !plain) return {};
    out += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const auto parts = split(out, ':');
  if (parts.size() != 3 || parts[0].size() < 4 || parts[0].size() > 8) return {};
  if (parts[1].size() != 2 || parts[2].size() != 4 || parts[2][2] != '.') return {};
  return out;
}

/// Collects the amounts by key. Prefers resident memory, then "drm-memory-" (its older name), then
/// the total.
struct Amounts {
  DrmFdinfo info;
  std::vector<DrmAmount> resident, old_name, total;

  void take(std::string_view key, std::string_view value) {
    struct Kind {
      std::string_view prefix;
      std::vector<DrmAmount>* target;
    };
    const std::array<Kind, 6> kinds = {{{"drm-total-cycles-", &info.total_cycles},
                                        {"drm-cycles-", &info.cycles},
                                        {"drm-resident-", &resident},
                                        {"drm-memory-", &old_name},
                                        {"drm-total-", &total},
                                        {"drm-engine-", &info.engine_ns}}};
    if (key.starts_with("drm-engine-capacity-")) return;
    for (const Kind& kind : kinds) {
      if (!key.starts_with(kind.prefix)) continue;
      const auto amount = amount_of(value);
      if (amount) put(*kind.target, key.substr(kind.prefix.size()), *amount, true);
      return;
    }
  }

  void settle_memory() {
    info.memory = std::move(resident);
    for (const std::vector<DrmAmount>* lesser : {&old_name, &total})
      for (const DrmAmount& one : *lesser)
        if (!has(info.memory, one.name)) put(info.memory, one.name, one.amount, true);
  }
};

bool is_device_memory(std::string_view region) {
  return region.starts_with("vram") || region.starts_with("local");
}

void add_to(std::optional<std::uint64_t>& sum, std::uint64_t amount) {
  sum = add(sum.value_or(0), amount);
}

}  // namespace

std::optional<DrmFdinfo> parse_drm_fdinfo(std::string_view text) {
  Amounts amounts;
  DrmFdinfo& info = amounts.info;
  for (const std::string_view line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !line.starts_with("drm-")) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "drm-driver")
      info.driver = printable(value.substr(0, kLongestName));
    else if (key == "drm-pdev")
      info.pci_address = address_of(value);
    else if (key == "drm-client-id")
      info.client_id = amount_of(value);
    else
      amounts.take(key, value);
  }
  if (info.driver.empty()) return std::nullopt;
  amounts.settle_memory();
  return info;
}

void add_fdinfo(DrmClient& client, const DrmFdinfo& info) {
  for (const DrmAmount& one : info.memory)
    add_to(is_device_memory(one.name) ? client.device_bytes : client.host_bytes, one.amount);
  for (const DrmAmount& one : info.engine_ns) put(client.engine_ns, one.name, one.amount, false);
  for (const DrmAmount& one : info.cycles) put(client.cycles, one.name, one.amount, false);
  // `total_cycles` is the device's clock, which is the same in every file of the client. So these
  // values are not added up.
  for (const DrmAmount& one : info.total_cycles)
    put(client.total_cycles, one.name, one.amount, true);
  for (const auto* engines : {&info.engine_ns, &info.cycles}) {
    for (const DrmAmount& one : *engines) {
      if (one.amount == 0) continue;
      client.compute = client.compute || one.name == "compute" || one.name == "ccs";
      client.graphics =
          client.graphics || one.name == "gfx" || one.name == "render" || one.name == "rcs";
    }
  }
}

std::uint64_t DrmClient::busy_ns() const {
  std::uint64_t sum = 0;
  for (const DrmAmount& one : engine_ns) sum = add(sum, one.amount);
  return sum;
}

}  // namespace berth::system
