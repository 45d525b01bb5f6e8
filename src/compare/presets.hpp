// Named settings of frameworks for `berth compare --preset`, from data/presets.toml.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::compare {

struct Preset {
  std::string name;
  std::string says;       // what the preset changes; translated with tr()
  std::string statement;  // a Python statement to run after `import torch`; "" if there is none
  std::vector<std::pair<std::string, std::string>> variables;
};

[[nodiscard]] const std::vector<Preset>& presets();
/// The preset with this name; nullptr if there is none.
[[nodiscard]] const Preset* find_preset(std::string_view name);

}  // namespace berth::compare
