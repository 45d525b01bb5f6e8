#include "serve/aside_record.hpp"

#include "base/json.hpp"

namespace berth::serve {
namespace {
using Json = nlohmann::json;
}  // namespace

std::string aside_record(const std::vector<model::AsideUnit>& aside) {
  Json out = Json::array();
  for (const model::AsideUnit& one : aside)
    out.push_back({one.unit, one.user, one.number, one.job, one.processes});
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<model::AsideUnit> aside_in(const std::string& record) try {
  std::vector<model::AsideUnit> all;
  for (const Json& one : Json::parse(record)) {
    model::AsideUnit& unit = all.emplace_back();
    one.at(0).get_to(unit.unit);
    one.at(1).get_to(unit.user);
    one.at(2).get_to(unit.number);
    one.at(3).get_to(unit.job);
    one.at(4).get_to(unit.processes);
    if (unit.processes.empty()) all.pop_back();
  }
  return all;
} catch (const Json::exception&) {
  return {};
}

}  // namespace berth::serve
