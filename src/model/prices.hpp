// What using a GPU costs, in any currency: the prices that a user or an administrator set.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::model {

/// nullopt: no price is set.
struct UsagePrices {
  std::optional<double> gpu_hour;  // price of holding a device for an hour
  std::optional<double> kwh;       // price of energy
  std::string currency = {};       // "EUR"; "": not named
  [[nodiscard]] bool any() const { return gpu_hour || kwh; }
};

/// nullopt: no price is set, or the price of energy is set and the energy is not known.
[[nodiscard]] std::optional<double> cost_of(double held_seconds,
                                            std::optional<double> energy_joules,
                                            const UsagePrices& prices);

/// Reads the text of prices.toml: `gpu_hour`, `kwh`, `currency` (docs/watch.md). Fails as
/// TomlTable::read.
[[nodiscard]] Result<UsagePrices> parse_usage_prices(std::string_view document,
                                                     const std::string& origin);

}  // namespace berth::model
