#include "serve/notices.hpp"

#include <algorithm>

#include "base/json.hpp"

namespace berth::serve {

using Json = nlohmann::json;

void Notices::add(std::int64_t at, std::string id, std::string sentence, std::string hint) {
  constexpr std::size_t kMost = 10;
  Json kept = Json::parse(record_, nullptr, false);
  if (!kept.is_array()) kept = Json::array();
  std::erase_if(kept.get_ref<Json::array_t&>(), [&](const Json& one) {
    return one.is_object() && one.contains("message") && one["message"] == sentence;
  });
  kept.push_back({{"at", at},
                  {"id", std::move(id)},
                  {"message", std::move(sentence)},
                  {"hint", std::move(hint)}});
  if (kept.size() > kMost) kept.erase(kept.begin());
  record_ = kept.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Error> Notices::of_last_day(std::int64_t now) const {
  constexpr std::int64_t kDay = 24LL * 3600 * 1000;
  std::vector<Error> all;
  const Json kept = Json::parse(record_, nullptr, false);
  for (const Json& one : kept) try {
      if (one.at("at").get<std::int64_t>() < now - kDay) continue;
      all.push_back({ErrorCode::kUnavailable, one.at("id").get<std::string>(),
                     one.at("message").get<std::string>(), one.at("hint").get<std::string>()});
    } catch (const Json::exception&) {
      continue;
    }
  return all;
}

}  // namespace berth::serve
