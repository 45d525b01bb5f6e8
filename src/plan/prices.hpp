// Prices of rented and bought GPUs: data/prices.toml, or a file of the user's own.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::plan {

/// The source of a price, and the date of the price.
struct PriceSource {
  std::string as_of;  // "2026-07-20" or "2026-07"; empty: unknown
  std::string url;
};

/// An instance of a cloud. Prices are for one hour of the whole instance; absent: unknown.
struct Instance {
  std::string provider, name, region;
  std::string gpu;  // the GPU's name in the catalogue
  double gpus = 1;
  std::optional<double> on_demand, reserved, spot;
  PriceSource source;
};

struct Card {
  std::string gpu;
  double price = 0;
  PriceSource source;
};

struct Prices {
  std::string currency;  // "USD", "CNY", …
  std::vector<Instance> cloud;
  std::vector<Card> cards;
};

/// A price that is older than this is marked as old.
inline constexpr int kOldPriceDays = 90;

[[nodiscard]] Prices known_prices();
/// Fails with kInvalidArgument (E0602 to E0606 of TomlTable; E0977: an unknown GPU).
[[nodiscard]] Result<Prices> read_prices(std::string_view document, const std::string& origin);
/// Days from the date to `today`, or nullopt if the date is unknown. A date without a day, such as
/// "2026-07", means the first day of the month.
[[nodiscard]] std::optional<int> age_days(std::string_view as_of, std::chrono::sys_days today);

/// How an instance is rented. The provider may stop spot instances at any time.
enum class Terms { kOnDemand, kReserved, kSpot };
[[nodiscard]] std::optional<double> price_of(const Instance& instance, Terms terms);

/// The cheapest way to rent `gpus` GPUs of this kind. Only whole instances can be rented.
struct Rent {
  const Instance* instance = nullptr;
  double instances = 1;
  double per_hour = 0;  // price of all rented instances
};
[[nodiscard]] std::optional<Rent> cheapest(const Prices& prices, std::string_view gpu, double gpus,
                                           Terms terms);
[[nodiscard]] const Card* card_of(const Prices& prices, std::string_view gpu);

/// The costs of buying compared with renting for a number of months. If the price of electric power
/// is not known, its cost is 0.
struct Purchase {
  double price = 0;            // price of all cards
  double power_per_month = 0;  // power of all cards
};
/// The number of months after which buying costs less than renting. nullopt: renting always costs
/// less.
[[nodiscard]] std::optional<double> break_even_months(const Purchase& purchase,
                                                      double rent_per_month);

}  // namespace berth::plan
