#include "output/environment_text.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/shell_word.hpp"
#include "base/text_parts.hpp"

namespace berth::output {
namespace {

using model::Device;
using model::Setting;
using model::Vendor;

bool plain(std::string_view text, std::string_view also) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != std::string_view::npos;
  });
}

bool is_name(std::string_view text) {
  return plain(text, "_") && !(text[0] >= '0' && text[0] <= '9');
}

/// The value in single quotes, with backslashes where needed, as python-dotenv and similar readers
/// expect.
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

std::vector<const Device*> devices_of(const model::Placement& placement,
                                      const model::Snapshot& snapshot) {
  std::vector<const Device*> out;
  for (const int index : placement.devices)
    if (const Device* device = find(snapshot, index)) out.push_back(device);
  return out;
}

const Setting* setting(const model::Environment& environment, std::string_view name) {
  for (const Setting& one : environment.settings)
    if (one.name == name && one.action != Setting::Action::kUnset) return &one;
  return nullptr;
}

/// Whether the variable selects devices of the host. In a container these have other numbers, so
/// such a variable makes no sense there.
bool selects(const std::string& name) {
  static constexpr std::array<std::string_view, 9> kNames{
      "CUDA_VISIBLE_DEVICES",          "CUDA_DEVICE_ORDER",  "ROCR_VISIBLE_DEVICES",
      "HIP_VISIBLE_DEVICES",           "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
      "ZE_ENABLE_PCI_ID_DEVICE_ORDER", "TPU_VISIBLE_CHIPS",  "ONEAPI_DEVICE_SELECTOR"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

/// Adds device nodes: /dev/kfd is for all AMD GPUs, a render node for one. If the number of a
/// device is unknown, adds all nodes.
void add_nodes(std::vector<std::string>& words, const std::vector<const Device*>& devices) {
  const auto add = [&](const std::string& node) {
    if (std::find(words.begin(), words.end(), node) != words.end()) return;
    words.emplace_back("--device");
    words.push_back(node);
  };
  for (const Device* device : devices) {
    if (device->vendor == Vendor::kAmd) add("/dev/kfd");
    if (device->vendor == Vendor::kAmd || device->vendor == Vendor::kIntel)
      add(device->minor_number ? "/dev/dri/renderD" + std::to_string(*device->minor_number)
                               : "/dev/dri");
    if (device->vendor == Vendor::kGoogle)
      add("/dev/accel" +
          std::to_string(device->minor_number.value_or(device->vendor_index.value_or(0))));
  }
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

std::string environment_container(const model::Environment& environment,
                                  const model::Placement& placement,
                                  const model::Snapshot& snapshot, ContainerTool tool) {
  std::vector<std::string> words;
  const auto devices = devices_of(placement, snapshot);
  const Setting* cuda = setting(environment, "CUDA_VISIBLE_DEVICES");
  const bool nvidia = std::any_of(devices.begin(), devices.end(),
                                  [](const Device* d) { return d->vendor == Vendor::kNvidia; });
  if (nvidia && cuda != nullptr && tool == ContainerTool::kDocker) {
    // Docker parses the value as CSV; without quotes the comma would start another field.
    words = {"--gpus", "\"device=" + cuda->value + "\""};
  } else if (nvidia && cuda != nullptr) {
    for (const std::string_view one : split(cuda->value, ','))
      words.insert(words.end(), {"--device", "nvidia.com/gpu=" + std::string(one)});
  }
  add_nodes(words, devices);
  if (!environment.cpus.empty()) words.insert(words.end(), {"--cpuset-cpus", environment.cpus});
  for (const Setting& one : environment.settings) {
    const bool hides = devices.empty() && selects(one.name);
    if (one.action == Setting::Action::kUnset || (selects(one.name) && !hides)) continue;
    words.insert(words.end(), {"-e", one.name + "=" + one.value});
  }
  // Images from NVIDIA request all GPUs. NVIDIA's runtime grants this if it is the default, so it
  // must be turned off.
  if (devices.empty()) words.insert(words.end(), {"-e", "NVIDIA_VISIBLE_DEVICES=void"});
  return join(words) + "\n";
}

std::string kubernetes_job(const model::Request& request) {
  std::string limits;
  if (request.memory_bytes || request.share_permille)
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
