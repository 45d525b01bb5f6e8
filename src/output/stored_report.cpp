// The stored report of a queued job. It is written when the job ends, and read by `berth report`.
#include <array>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "output/report.hpp"

namespace berth::output {
namespace {

using Json = nlohmann::ordered_json;

struct Spoken {
  const char* key;
  Language language;
};
constexpr std::array<Spoken, 2> kLanguages{
    {{"en", Language::kEnglish}, {"zh_CN", Language::kChinese}}};

/// The stored report as JSON; null if it is not a JSON object or is nested too deeply. The job's
/// user can write the file, and printing it recurses once per level.
Json parsed(const std::string& stored) {
  constexpr int kMostDepth = 32;
  bool is_shallow = true;
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    is_shallow = is_shallow && depth <= kMostDepth;
    return is_shallow;
  };
  Json json = Json::parse(stored, shallow, false);
  return is_shallow && json.is_object() ? json : Json();
}

}  // namespace

std::string stored_report(const std::function<model::Report()>& make) {
  const Language before = language();
  Json out{{"schema", 1}, {"report", nullptr}, {"text", Json::object()}};
  for (const Spoken& one : kLanguages) {
    set_language(one.language);
    const model::Report report = make();
    if (one.language == Language::kEnglish) out["report"] = Json::parse(report_json(report));
    out["text"][one.key] = finding_text(report, Terminal());
  }
  set_language(before);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sound_report(const std::string& stored, const std::optional<model::Outcome>& outcome) {
  Json json = parsed(stored);
  if (!json.is_object() || !json.contains("report") || !json["report"].is_object()) return "";
  if (outcome) json["report"]["outcome"] = Json::parse(outcome_json(*outcome));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string stored_report_text(const std::string& stored) {
  const Json json = parsed(stored);
  if (!json.is_object()) return "";
  for (const Spoken& one : kLanguages) {
    if (one.language != language()) continue;
    const auto found = json.find("text");
    if (found == json.end() || !found->is_object() || !found->contains(one.key)) return "";
    const Json& said = (*found)[one.key];
    const std::string all = said.is_string() ? said.get<std::string>() : "";
    std::string out;
    for (const std::string_view line : split(all, '\n'))
      if (!line.empty()) out += printable(line) + "\n";
    return out;
  }
  return "";
}

}  // namespace berth::output
