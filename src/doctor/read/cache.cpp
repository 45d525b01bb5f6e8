#include "doctor/read/cache.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

namespace berth::doctor {
namespace {

constexpr std::string_view kOldMagic = "ld.so-1.7.0", kNewMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kHeader = 48, kEntry = 24, kOldHeader = 16, kOldEntry = 12;

std::optional<std::uint32_t> word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  if (at > bytes.size() || bytes.size() - at < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string text_at(std::string_view bytes, std::size_t at) {
  if (at >= bytes.size()) return "";
  const std::string_view rest = bytes.substr(at, 4096);
  const auto end = rest.find('\0');
  return end == std::string_view::npos ? "" : std::string(rest.substr(0, end));
}

/// The part of the file in the newer format. It starts at offset 0, or at the next multiple of 8
/// after a table in the old format.
std::string_view new_part(std::string_view bytes) {
  if (!bytes.starts_with(kOldMagic)) return bytes;
  const auto count = word_at(bytes, kOldMagic.size() + 1);
  if (!count) return {};
  const std::uint64_t end = kOldHeader + std::uint64_t{*count} * kOldEntry;
  const std::uint64_t start = (end + 7) / 8 * 8;
  return start < bytes.size() ? bytes.substr(static_cast<std::size_t>(start)) : std::string_view();
}

/// Whether the flags are those of libc6 (3) for x86-64 (0x0300) or AArch64 (0x0a00).
bool is_ours(std::uint32_t flags) {
  return flags == 0x0303 || flags == 0x0a03;
}

}  // namespace

LoaderCache parse_loader_cache(std::string_view bytes) {
  LoaderCache cache;
  const std::string_view table = new_part(bytes);
  if (!table.starts_with(kNewMagic)) return cache;
  const std::uint32_t count = word_at(table, kNewMagic.size()).value_or(0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = kHeader + std::size_t{i} * kEntry;
    const auto flags = word_at(table, at);
    const auto name = word_at(table, at + 4);
    const auto file = word_at(table, at + 8);
    // Upper half of hwcap. It is not 0 for variants that need a newer CPU.
    const auto special = word_at(table, at + 20);
    if (!flags || !name || !file || !special) break;
    // Skip libraries for other architectures, and variants for newer CPUs: the target's CPU is
    // unknown.
    if (!is_ours(*flags) || *special != 0) continue;
    std::string key = text_at(table, *name);
    std::string value = text_at(table, *file);
    if (!key.empty() && !value.empty()) cache[std::move(key)].push_back(std::move(value));
  }
  return cache;
}

}  // namespace berth::doctor
