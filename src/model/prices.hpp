// The cost of using a GPU, with prices in any currency that a user or an administrator has set.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::model {

/// nullopt means that this price is not set.
struct UsagePrices {
  std::optional<double> gpu_hour;  // price for one hour of holding a device
  std::optional<double> kwh;       // price for one kilowatt-hour
  std::string currency = {};       // such as "EUR"; "" if it is not set
  [[nodiscard]] bool any() const { return gpu_hour || kwh; }
};

/// The cost of holding a device and of its energy. nullopt if no price is set, or if energy has a
/// price and the energy is not known.
[[nodiscard]] std::optional<double> cost_of(double held_seconds,
                                            std::optional<double> energy_joules,
                                            const UsagePrices& prices);

/// Parses prices.toml with `gpu_hour`, `kwh` and `currency` (docs/watch.md). Fails with the errors
/// of TomlTable::read().
[[nodiscard]] Result<UsagePrices> parse_usage_prices(std::string_view document,
                                                     const std::string& origin);

}  // namespace berth::model
