#include "plan/catalogue.hpp"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json.hpp"
#include "base/spelling.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/names.hpp"

// berth_embed() in CMake generates these symbols.
extern "C" {
extern const char berth_plan_models[];
extern const char berth_plan_models_end[];
}

namespace berth::plan {
namespace {

using Json = nlohmann::json;
constexpr double kMostParams = 1e14;

const Json& models() {
  static const Json document = Json::parse(berth_plan_models, berth_plan_models_end);
  return document.at("model_zoo").at("model");
}

}  // namespace

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  for (const std::string_view maker : {"nvidia", "geforce"})
    if (out.size() > maker.size() && out.starts_with(maker)) out.erase(0, maker.size());
  return out;
}

namespace {

std::string without_owner(std::string_view name) {
  return std::string(name.substr(name.rfind('/') + 1));
}

Model model_in(const Json& row) {
  const auto number = [&](const char* key) { return row.value(key, 0.0); };
  const std::string mlp = row.value("mlp", "");
  Model model;
  model.name = row.at("name").get<std::string>();
  model.params = row.contains("params") ? number("params") : number("params_approx");
  model.layers = number("layers");
  model.hidden = number("hidden");
  model.kv_width = number("kv_heads") * number("head_dim");
  model.experts_per_token = row.value("experts_per_token", 1.0);
  model.intermediate =
      row.contains("moe_intermediate") ? number("moe_intermediate") : number("intermediate");
  model.vocab = number("vocab");
  model.gated = mlp.starts_with("LLaMA") || mlp == "GemmaMLP" || mlp == "SwiGLU";
  model.rms_norm = row.value("norm", "") == "RMSNorm";
  model.tied = row.value("tie_embeddings", false);
  model.kept_per_image = number("kept_per_image");
  model.largest_per_image = number("largest_per_image");
  model.workspace_per_image = number("workspace_per_image");
  model.workspace = number("workspace");
  model.frozen_params = number("frozen_params");
  model.image_size = row.value("input", "");
  model.decoder = row.value("kind", "") == "decoder";
  return model;
}

}  // namespace

std::string near_names(std::string_view word, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  const std::string wanted = plain(word);
  for (const std::string& name : names)
    if (wanted.size() >= 2 && found.size() < 3 && plain(name).find(wanted) != std::string::npos &&
        std::find(found.begin(), found.end(), name) == found.end())
      found.push_back(name);
  if (const std::string near = nearest(word, names); found.empty() && !near.empty())
    found.push_back(near);
  // If no name is similar, suggest the name with the smallest edit distance.
  if (found.empty() && !names.empty() && word.size() < 100) {
    const auto least =
        std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
          return edit_distance(wanted, plain(a)) < edit_distance(wanted, plain(b));
        });
    found.push_back(*least);
  }
  std::string out;
  for (const std::string& name : found) out += (out.empty() ? "" : ", ") + name;
  return out;
}

namespace {

bool is_alias(const Json& row, const std::string& bare) {
  const auto aliases = row.find("aliases");
  return aliases != row.end() &&
         std::any_of(aliases->begin(), aliases->end(),
                     [&](const Json& one) { return plain(one.get<std::string>()) == bare; });
}

}  // namespace

Result<Model> find_model(std::string_view name) {
  const std::string wanted = plain(name), bare = plain(without_owner(name));
  // An exact match is tried first, because "opt-1.3b" and "opt-13b" are equal without separators.
  for (const Json& row : models()) {
    const std::string known = without_owner(row.at("name").get<std::string>());
    if (strcasecmp(known.c_str(), without_owner(name).c_str()) == 0) return model_in(row);
  }
  std::vector<std::string> names;
  for (const Json& row : models()) {
    names.push_back(row.at("name").get<std::string>());
    const std::string& known = names.back();
    const bool is_it = plain(known) == wanted || plain(without_owner(known)) == bare ||
                       plain(without_owner(row.value("hf_id", known))) == bare ||
                       (known.ends_with("-hf") && plain(known) == bare + "hf") ||
                       is_alias(row, bare);
    if (!is_it || wanted.empty()) continue;
    return model_in(row);
  }
  const std::string near = near_names(name, names);
  return Error{ErrorCode::kNotFound, "E0970",
               text("no model '{}' in the catalogue; similar: {}", printable(name), near),
               "berth plan fit " + near.substr(0, near.find(',')) + "\nberth plan fit --params 7B"};
}

Model model_of_size(double params) {
  Model nearest_model;
  double least = INFINITY;
  for (const Json& row : models()) {
    Model model = model_in(row);
    // Skip mixture-of-experts models, because their shapes differ from those of dense models of the
    // same size.
    if (!model.decoder || model.layers <= 0 || row.contains("experts")) continue;
    const double far = std::abs(std::log(params / model.params));
    if (far < least) least = far, nearest_model = model;
  }
  // The number of parameters grows with layers × width². Scaling both by the cube root gives the
  // wanted number.
  const double scale = std::cbrt(params / nearest_model.params);
  nearest_model.shape_from = nearest_model.name;
  nearest_model.name = "";
  nearest_model.params = params;
  for (double* size : {&nearest_model.layers, &nearest_model.hidden, &nearest_model.kv_width,
                       &nearest_model.intermediate})
    *size *= scale;
  return nearest_model;
}

Model with_layers(Model model, double layers) {
  const double ratio = layers / model.layers;
  model.layers = layers;
  if (!model.shape_from.empty()) {
    // The parameters of a layer grow with the square of its width.
    for (double* size : {&model.hidden, &model.kv_width, &model.intermediate})
      *size /= std::sqrt(ratio);
    return model;
  }
  const double embedding = (model.tied ? 1 : 2) * model.vocab * model.hidden;
  const double in_layers = std::max(0.0, model.params - embedding);
  const double params = model.params - in_layers * (1 - ratio);
  model.stored_bytes *= params / model.params;
  model.params = params;
  return model;
}

Result<double> parse_params(std::string_view given) {
  const auto bad = [&] {
    return Error{
        ErrorCode::kInvalidArgument, "E0973",
        text("'{}' is not a number of parameters between 100K and 100T, such as 7B or 350M",
             printable(given)),
        "berth plan fit --params 7B"};
  };
  double number = 0;
  const auto [end, problem] = std::from_chars(given.data(), given.data() + given.size(), number);
  if (problem != std::errc()) return bad();
  const std::string_view unit(end, static_cast<std::size_t>(given.data() + given.size() - end));
  if (unit == "K" || unit == "k")
    number *= 1e3;
  else if (unit == "M" || unit == "m")
    number *= 1e6;
  else if (unit == "B" || unit == "b")
    number *= 1e9;
  else if (unit == "T" || unit == "t")
    number *= 1e12;
  else if (!unit.empty())
    return bad();
  if (!(number >= 1e5 && number <= kMostParams)) return bad();
  return number;
}

}  // namespace berth::plan
