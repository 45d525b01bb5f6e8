#include "bench/results.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"

namespace berth::bench {
namespace {

using Json = nlohmann::json;
constexpr double kLargestSize = 1ULL << 40;

std::optional<double> number_in(const Json& row, const char* key, double most) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return value >= 0 && value <= most ? std::optional(value) : std::nullopt;
}

std::string key_of(std::string_view uuid, std::string_view address, std::string_view name) {
  return std::string(!uuid.empty() ? uuid : !address.empty() ? address : name);
}
std::string key_of(std::string_view device, std::string_view case_key) {
  return fmt::format("{}\n{}", device, case_key);
}
std::string key_of(const Json& row) {
  return key_of(
      key_of(json_text(row, "uuid"), json_text(row, "pci_address"), json_text(row, "name")),
      json_text(row, "case"));
}

/// The list of results in a document; nullptr if the document is not from `berth bench --json`.
Json* results_in(Json& document) {
  if (!document.is_object() || document.value("schema", Json()) != 1) return nullptr;
  const auto results = document.find("results");
  return results != document.end() && results->is_array() ? &*results : nullptr;
}

/// How much slower `now` is, in percent; nullopt if the difference is within the usual variation of
/// measurements.
std::optional<double> slower_percent(const EarlierResult& now, double rate, double spread) {
  if (rate <= 0) return std::nullopt;
  const double change = 100 * (1 - now.rate() / rate);
  if (change <= std::max({kSlowerPercent, now.spread_percent, spread})) return std::nullopt;
  return change;
}

struct Twins {
  // Median rate and largest spread of the other devices that have the same name. The rate is 0 if
  // there are no such devices.
  double rate = 0, spread_percent = 0;
};

Twins twins_of(const std::string& key, const EarlierResult& now, const EarlierResults& latest) {
  std::vector<double> rates;
  Twins out;
  for (const auto& [other, result] : latest) {
    if (other == key || result.name != now.name || result.case_key != now.case_key) continue;
    rates.push_back(result.rate());
    out.spread_percent = std::max(out.spread_percent, result.spread_percent);
  }
  if (rates.empty()) return out;
  std::sort(rates.begin(), rates.end());
  out.rate = (rates[rates.size() / 2] + rates[(rates.size() - 1) / 2]) / 2;
  return out;
}

}  // namespace

std::string device_key(const model::Device& device) {
  return key_of(device.uuid, device.pci_address, device.name);
}

std::string result_key(const model::Device& device, std::string_view case_key) {
  return key_of(device_key(device), case_key);
}

Result<EarlierResults> parse_results(std::string_view document, const std::string& file) {
  Json json = Json::parse(document, nullptr, false);
  const Json* const results = results_in(json);
  if (results == nullptr)
    return Error{ErrorCode::kInvalidArgument, "E1057",
                 text("{} has no results of `berth bench --save`", printable(file)),
                 "berth bench --save FILE"};
  EarlierResults earlier;
  for (const Json& row : *results) {
    if (!row.is_object()) continue;
    const auto seconds = number_in(row, "median_seconds", 1e6);
    if (!seconds || *seconds <= 0) continue;  // the case failed in the earlier run
    EarlierResult one;
    one.seconds = *seconds;
    one.name = json_text(row, "name");
    one.case_key = json_text(row, "case");
    one.spread_percent = number_in(row, "spread_percent", 1e6).value_or(0);
    one.size = static_cast<std::uint64_t>(number_in(row, "size", kLargestSize).value_or(0));
    one.unix_milliseconds =
        static_cast<std::int64_t>(1000 * number_in(row, "unix_seconds", 1e12).value_or(0));
    for (const char* rate : {"flop_per_second", "bytes_per_second"})
      if (const auto value = number_in(row, rate, 1e30)) one.work = *value * one.seconds;
    earlier[key_of(row)] = one;
  }
  return earlier;
}

std::string with_results_of(std::string_view newer, std::string_view older) {
  Json into = Json::parse(newer, nullptr, false), from = Json::parse(older, nullptr, false);
  Json* const rows = results_in(into);
  const Json* const old_rows = results_in(from);
  if (rows == nullptr || old_rows == nullptr) return std::string(newer);
  std::vector<std::string> known;
  for (const Json& row : *rows) known.push_back(key_of(row));
  for (const Json& row : *old_rows)
    if (row.is_object() && std::find(known.begin(), known.end(), key_of(row)) == known.end())
      rows->push_back(row);
  return into.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string kept_file(const std::string& state_folder) {
  return state_folder + "/bench/latest.json";
}
std::string kept_baseline_file(const std::string& state_folder) {
  return state_folder + "/bench/baseline.json";
}

Speed speed_of(std::string_view device_key, const EarlierResults& latest,
               const EarlierResults& baseline) {
  Speed out;
  for (const auto& [key, now] : latest) {
    if (key != key_of(device_key, now.case_key)) continue;
    const auto before = baseline.find(key);
    const Twins twins = twins_of(key, now, latest);
    out.is_compared = out.is_compared || before != baseline.end() || twins.rate > 0;
    if (before != baseline.end())
      if (const auto slower =
              slower_percent(now, before->second.rate(), before->second.spread_percent)) {
        out.slower.push_back(
            text("{} is {:.0f} % slower than in the baseline", printable(now.case_key), *slower));
        continue;
      }
    if (const auto slower = slower_percent(now, twins.rate, twins.spread_percent))
      out.slower.push_back(text("{} is {:.0f} % slower than on other devices of this model",
                                printable(now.case_key), *slower));
  }
  return out;
}

}  // namespace berth::bench
