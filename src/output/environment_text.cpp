#include "output/environment_text.hpp"

#include <algorithm>
#include <vector>

#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text_parts.hpp"

namespace berth::output {
namespace {

using model::Device;
using model::Setting;

bool plain(std::string_view text, std::string_view also) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != std::string_view::npos;
  });
}

bool is_name(std::string_view text) {
  return plain(text, "_") && !(text[0] >= '0' && text[0] <= '9');
}

/// The value in single quotes with backslashes where needed, as python-dotenv and similar readers
/// expect it.
std::string dotenv_value(const std::string& value) {
  if (plain(value, "_-.,:/*+@%")) return value;
  std::string out = "'";
  for (const char c : value) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

const Device* find(const model::Snapshot& snapshot, int index) {
  for (const Device& device : snapshot.devices)
    if (device.index == index) return &device;
  return nullptr;
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

}  // namespace

std::string environment_shell(const model::Environment& environment) {
  std::string out;
  for (const Setting& one : environment.settings) {
    if (!is_name(one.name)) continue;
    if (one.action == Setting::Action::kSet)
      out += "export " + one.name + "=" + shell_word(one.value) + "\n";
    if (one.action == Setting::Action::kUnset) out += "unset " + one.name + "\n";
  }
  return out;
}

std::string environment_dotenv(const model::Environment& environment) {
  std::string out;
  for (const Setting& one : environment.settings) {
    if (!is_name(one.name)) continue;
    if (one.action == Setting::Action::kUnset)
      out += "# " + one.name + " must not be set\n";
    else
      out += one.name + "=" + dotenv_value(one.value) + "\n";
  }
  return out;
}

std::string environment_container(const std::vector<std::string>& words) {
  return join(words) + "\n";
}

std::string kubernetes_job(const model::Request& request) {
  std::string limits;
  if (request.has_limits())
    limits += "              berth.dev/gpu-share: 1\n";
  else if (request.gpus.value_or(1) > 0)
    limits += fmt::format("              berth.dev/gpu: {}\n", request.gpus.value_or(1));
  if (request.cpus) limits += fmt::format("              cpu: {}\n", *request.cpus);
  std::string job =
      "apiVersion: batch/v1\n"
      "kind: Job\n"
      "metadata:\n"
      "  generateName: berth-\n"
      "spec:\n"
      "  backoffLimit: 0\n"
      "  template:\n"
      "    spec:\n"
      "      restartPolicy: Never\n"
      "      containers:\n"
      "        - name: main\n"
      "          image: IMAGE\n"
      "          command: [\"python\", \"train.py\"]\n";
  if (!limits.empty()) job += "          resources:\n            limits:\n" + limits;
  return job;
}

std::string environment_json(const model::Environment& environment,
                             const model::Placement& placement, const model::Snapshot& snapshot) {
  using Json = nlohmann::ordered_json;
  const auto nullable = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  const auto action = [](Setting::Action what) {
    return what == Setting::Action::kSet     ? "set"
           : what == Setting::Action::kUnset ? "unset"
                                             : "keep";
  };
  Json devices = Json::array();
  for (std::size_t i = 0; i < placement.devices.size(); ++i) {
    const Device* device = find(snapshot, placement.devices[i]);
    if (device == nullptr) continue;
    const std::string part = i < placement.partitions.size() ? placement.partitions[i] : "";
    devices.push_back({{"device", device->index},
                       {"vendor", model::name(device->vendor)},
                       {"name", nullable(device->name)},
                       {"uuid", nullable(device->uuid)},
                       {"partition_uuid", nullable(part)}});
  }
  Json settings = Json::array();
  for (const Setting& one : environment.settings)
    settings.push_back(
        {{"action", action(one.action)},
         {"name", one.name},
         {"value", one.action == Setting::Action::kUnset ? Json(nullptr) : Json(one.value)},
         {"why", one.why}});
  const Json document{{"schema", 1},
                      {"devices", devices},
                      {"settings", settings},
                      {"cpus", nullable(environment.cpus)},
                      {"threads", environment.threads},
                      {"reasons", placement.reasons},
                      {"notes", environment.notes}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace berth::output
