// probe.json of a bundle.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/bundle_json.hpp"

namespace berth::doctor {
namespace {

using nlohmann::json;

constexpr int kStates = static_cast<int>(ProbeState::kNotReached) + 1;

std::string word(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

/// False where the row is none.
bool fill(const json& row, ProbeAnswer& answer) {
  if (!row.is_object()) return false;
  answer.framework = word(row, "framework");
  answer.version = word(row, "version");
  answer.message = word(row, "message");
  const std::string state = word(row, "state");
  bool known = false;
  for (int i = 0; i < kStates; ++i)
    if (state == name(static_cast<ProbeState>(i))) {
      answer.state = static_cast<ProbeState>(i);
      known = true;
    }
  const json devices = row.value("devices", json::array());
  if (!known || answer.framework.empty() || !devices.is_array() || devices.size() > 64)
    return false;
  for (const json& one : devices) {
    if (!one.is_object() || !one.contains("index") || !one["index"].is_number_unsigned() ||
        one["index"] > 1000 || !one.contains("ran") || !one["ran"].is_boolean())
      return false;
    answer.devices.push_back(
        {one["index"].get<int>(), word(one, "name"), one["ran"].get<bool>(), word(one, "message")});
  }
  return true;
}

}  // namespace

Result<ProbeFacts> probe_from_json(std::string_view document, const std::string& origin) {
  const auto malformed = [&](std::string_view what) {
    return Error{ErrorCode::kInvalidArgument, "E0802",
                 text("{}: cannot read this file of the bundle: {}", origin, what),
                 "berth help doctor"};
  };
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= 8; };
  const json object = json::parse(document, shallow, false);
  if (!object.is_object()) return malformed(tr("no JSON object"));
  const auto rows = object.find("answers");
  if (rows == object.end() || !rows->is_array() || rows->size() > 64) return malformed("answers");
  std::vector<ProbeAnswer> answers(rows->size());
  for (std::size_t i = 0; i < rows->size(); ++i)
    if (!fill((*rows)[i], answers[i])) return malformed("answers");
  return ProbeFacts(std::move(answers));
}

std::string probe_to_json(const std::vector<ProbeAnswer>& answers) {
  json rows = json::array();
  for (const ProbeAnswer& answer : answers) {
    json devices = json::array();
    for (const ProbedDevice& one : answer.devices)
      devices.push_back(
          {{"index", one.index}, {"name", one.name}, {"ran", one.ran}, {"message", one.message}});
    rows.push_back({{"framework", answer.framework},
                    {"version", answer.version},
                    {"state", name(answer.state)},
                    {"message", answer.message},
                    {"devices", std::move(devices)}});
  }
  return json{{"answers", std::move(rows)}}.dump(1, ' ', true, json::error_handler_t::replace) +
         "\n";
}

}  // namespace berth::doctor
