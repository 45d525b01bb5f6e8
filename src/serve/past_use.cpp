#include "serve/past_use.hpp"

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text_parts.hpp"

namespace berth::serve {
namespace {
using Json = nlohmann::json;
}  // namespace

PastUse::ByUser PastUse::left(std::int64_t now_unix_milliseconds,
                              std::chrono::milliseconds half_life) const {
  ByUser all;
  const Json record = Json::parse(record_, nullptr, false);
  if (!record.is_object() || !record.contains("at") || !record["at"].is_number_integer() ||
      !record.contains("ahead"))
    return all;
  const auto away = now_unix_milliseconds - json_value<std::int64_t>(record["at"]);
  const double part =
      std::exp2(-std::max(0.0, static_cast<double>(away)) / static_cast<double>(half_life.count()));
  for (const auto& [uid, seconds] : record["ahead"].items())
    if (const auto number = to_number(uid); number && seconds.is_number())
      all[static_cast<std::uint32_t>(*number)] = seconds.get<double>() * part;
  return all;
}

bool PastUse::keep(const ByUser& use, std::int64_t now_unix_milliseconds) {
  Json ahead = Json::object();
  for (const auto& [uid, seconds] : use)
    if (seconds >= 1) ahead[std::to_string(uid)] = std::floor(seconds);
  const Json before = Json::parse(record_, nullptr, false);
  if (before.is_object() && before.value("ahead", Json::object()) == ahead) return false;
  record_ = Json{{"at", now_unix_milliseconds}, {"ahead", ahead}}.dump();
  return true;
}

void PastUse::move_time(std::int64_t from, std::int64_t to, std::int64_t by) {
  Json record = Json::parse(record_, nullptr, false);
  if (!record.is_object()) return;
  const auto at = record.find("at");
  if (at == record.end() || !at->is_number_integer() || *at < from || *at > to) return;
  *at = at->get<std::int64_t>() + by;
  record_ = record.dump();
}

}  // namespace berth::serve
