// The checksum of a journal record. It detects records that a disk or memory has corrupted.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/fnv1a.hpp"

namespace berth::broker {

/// FNV-1a: changing one byte always changes the sum. `kind` is the record's table; `key` is the
/// record's number in decimal, or its name. Because the sum includes them, a record that is stored
/// in the wrong place does not match its checksum.
[[nodiscard]] constexpr std::int64_t record_sum(std::string_view kind, std::string_view key,
                                                std::int64_t revision, std::string_view bytes) {
  Fnv1a sum;
  const auto add_all = [&sum](std::string_view all) {
    sum.add(all);
    sum.add(std::uint8_t{0});
  };
  add_all(kind);
  add_all(key);
  for (unsigned shift = 0; shift < 64; shift += 8)
    sum.add(static_cast<std::uint8_t>(static_cast<std::uint64_t>(revision) >> shift));
  add_all(bytes);
  return static_cast<std::int64_t>(sum.sum());
}

}  // namespace berth::broker
