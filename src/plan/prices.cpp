#include "plan/prices.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/toml_table.hpp"
#include "plan/catalogue.hpp"

// berth_embed() in CMake generates these symbols.
extern "C" {
extern const char berth_plan_prices[];
extern const char berth_plan_prices_end[];
}

namespace berth::plan {
namespace {

constexpr double kMostPrice = 1e9;
constexpr std::size_t kMostUrl = 400;

/// ISO 4217 codes of currencies. Codes that are not for payments, such as XAU, are left out.
constexpr std::string_view kCurrencies =
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN "
    "BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL "
    "GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF "
    "KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN "
    "MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD "
    "SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH "
    "UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG";

bool is_currency(std::string_view code) {
  return code.size() == 3 && code.find(' ') == std::string_view::npos &&
         kCurrencies.find(code) != std::string_view::npos;
}

struct NamedSource {
  std::string name;
  PriceSource source;
};

void read_price(TomlTable& table, const char* key, std::optional<double>& into) {
  if (!table.has(key)) return;
  double price = 0;
  table.real(key, price, 0, kMostPrice);
  into = price;
}

/// The source of a row's prices: one of the file's named sources. If the row names none, only the
/// row's own date.
PriceSource source_in(TomlTable& row, const std::vector<NamedSource>& known) {
  std::string name;
  PriceSource own;
  row.string("source", name);
  row.string("as_of", own.as_of);
  if (name.empty()) return own;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const NamedSource& one) { return one.name == name; });
  if (found != known.end()) return found->source;
  row.check(text("source: there is no [[source]] named '{}'", printable(name)));
  return own;
}

Status use_catalogue_name(std::string& name, const std::string& origin) {
  auto gpu = find_gpu(name);
  if (!gpu)
    return Error{ErrorCode::kInvalidArgument, "E0977",
                 printable(origin) + ": " + gpu.error().message, gpu.error().hint};
  name = gpu->name;
  return Done{};
}

bool number_at(std::string_view text, int& into) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), into);
  return problem == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<Prices> read_prices(std::string_view document, const std::string& origin) {
  Prices prices;
  const auto status = TomlTable::read(document, origin, "docs/plan.md", [&](TomlTable& file) {
    std::vector<NamedSource> sources;
    file.string("currency", prices.currency, true, 3);
    if (!is_currency(prices.currency))
      file.check(text("currency: write a code of ISO 4217, such as USD or CNY"));
    file.tables("source", [&](TomlTable& row) {
      NamedSource& one = sources.emplace_back();
      row.string("name", one.name, true);
      row.string("as_of", one.source.as_of);
      row.string("url", one.source.url, false, kMostUrl);
    });
    file.tables("cloud", [&](TomlTable& row) {
      Instance& one = prices.cloud.emplace_back();
      std::int64_t gpus = 1;
      row.string("provider", one.provider, true);
      row.string("instance", one.name, true);
      row.string("region", one.region);
      row.string("gpu", one.gpu, true);
      row.number("gpus", gpus, 1, 1024, true);
      read_price(row, "on_demand", one.on_demand);
      read_price(row, "reserved", one.reserved);
      read_price(row, "spot", one.spot);
      one.gpus = static_cast<double>(gpus);
      one.source = source_in(row, sources);
    });
    file.tables("card", [&](TomlTable& row) {
      Card& one = prices.cards.emplace_back();
      row.string("gpu", one.gpu, true);
      row.real("price", one.price, 0, kMostPrice);
      one.source = source_in(row, sources);
    });
  });
  if (!status) return status.error();
  for (Instance& one : prices.cloud)
    if (auto named = use_catalogue_name(one.gpu, origin); !named) return named.error();
  for (Card& one : prices.cards)
    if (auto named = use_catalogue_name(one.gpu, origin); !named) return named.error();
  return prices;
}

Prices known_prices() {
  auto prices = read_prices({berth_plan_prices, berth_plan_prices_end}, "data/prices.toml");
  return prices ? std::move(*prices) : Prices{};  // a test checks that the built-in file is valid
}

std::optional<int> age_days(std::string_view as_of, std::chrono::sys_days today) {
  using namespace std::chrono;
  int y = 0, m = 0, d = 1;
  if (as_of.size() != 7 && as_of.size() != 10) return std::nullopt;
  if (!number_at(as_of.substr(0, 4), y) || !number_at(as_of.substr(5, 2), m)) return std::nullopt;
  if (as_of.size() == 10 && !number_at(as_of.substr(8, 2), d)) return std::nullopt;
  const year_month_day date{year{y}, month{static_cast<unsigned>(m)},
                            day{static_cast<unsigned>(d)}};
  if (m < 1 || d < 1 || !date.ok()) return std::nullopt;
  return static_cast<int>((today - sys_days(date)).count());
}

std::optional<double> price_of(const Instance& instance, Terms terms) {
  switch (terms) {
    case Terms::kReserved:
      return instance.reserved;
    case Terms::kSpot:
      return instance.spot;
    default:
      return instance.on_demand;
  }
}

std::optional<Rent> cheapest(const Prices& prices, std::string_view gpu, double gpus, Terms terms) {
  std::optional<Rent> best;
  for (const Instance& one : prices.cloud) {
    const auto price = price_of(one, terms);
    if (one.gpu != gpu || !price) continue;
    const double instances = std::ceil(gpus / one.gpus);
    if (!best || instances * *price < best->per_hour)
      best = Rent{&one, instances, instances * *price};
  }
  return best;
}

const Card* card_of(const Prices& prices, std::string_view gpu) {
  for (const Card& card : prices.cards)
    if (card.gpu == gpu) return &card;
  return nullptr;
}

std::optional<double> break_even_months(const Purchase& purchase, double rent_per_month) {
  const double saved = rent_per_month - purchase.power_per_month;
  if (!(saved > 0)) return std::nullopt;
  return purchase.price / saved;
}

}  // namespace berth::plan
