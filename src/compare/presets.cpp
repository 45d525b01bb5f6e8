#include "compare/presets.hpp"

#include "base/json.hpp"

// The start and the end of the embedded file. berth_embed() in CMake defines these symbols.
extern "C" {
extern const char berth_compare_presets[];
extern const char berth_compare_presets_end[];
}

namespace berth::compare {
namespace {

std::vector<Preset> read_presets() {
  const auto document = nlohmann::json::parse(berth_compare_presets, berth_compare_presets_end);
  std::vector<Preset> all;
  for (const auto& row : document.at("presets").at("preset")) {
    Preset& one = all.emplace_back();
    one.name = row.at("name").get<std::string>();
    one.says = row.at("short").get<std::string>();
    one.statement = row.value("torch", "");
    const auto variables = row.value("variables", nlohmann::json::object());
    for (const auto& [name, value] : variables.items())
      one.variables.emplace_back(name, value.get<std::string>());
  }
  return all;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = read_presets();
  return all;
}

const Preset* find_preset(std::string_view name) {
  for (const Preset& one : presets())
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace berth::compare
