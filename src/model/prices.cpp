#include "model/prices.hpp"

#include "base/toml_table.hpp"

namespace berth::model {

std::optional<double> cost_of(double held_seconds, std::optional<double> energy_joules,
                              const UsagePrices& prices) {
  constexpr double kHour = 3600, kKilowattHour = 3.6e6;
  // A device that is switched on draws power. So an energy of 0 means that the driver does not
  // report energy.
  const bool has_energy = energy_joules && *energy_joules > 0;
  if (!prices.any() || (prices.kwh && !has_energy)) return std::nullopt;
  return held_seconds / kHour * prices.gpu_hour.value_or(0) +
         energy_joules.value_or(0) / kKilowattHour * prices.kwh.value_or(0);
}

Result<UsagePrices> parse_usage_prices(std::string_view document, const std::string& origin) {
  constexpr double kMost = 1e6;
  UsagePrices prices;
  const auto read = [&](TomlTable& top) {
    const auto price = [&](const char* key, std::optional<double>& into) {
      if (!top.has(key)) return;
      top.real(key, into.emplace(0), 0, kMost);
    };
    price("gpu_hour", prices.gpu_hour);
    price("kwh", prices.kwh);
    top.string("currency", prices.currency);
  };
  if (auto done = TomlTable::read(document, origin, "docs/watch.md", read); !done)
    return std::move(done).error();
  return prices;
}

}  // namespace berth::model
