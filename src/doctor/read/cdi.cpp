// Reads CDI specs in YAML or JSON, line by line: generators write each of the few relevant keys on
// its own line. A line is "key: value" with or without quotes. JSON is first split into lines at
// its punctuation.
#include <algorithm>

#include "base/text_parts.hpp"
#include "doctor/facts/container.hpp"
#include "doctor/read/collectors.hpp"

namespace berth::doctor {
namespace {

std::string_view unquoted(std::string_view text) {
  text = trim(text);
  while (!text.empty() && (text.front() == '"' || text.front() == '\'')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == '"' || text.back() == '\'')) text.remove_suffix(1);
  return text;
}

void take(const Tree& tree, std::string_view key, std::string_view value, bool& in_device,
          bool& at_uvm, CdiSpec& spec) {
  if (key == "kind") spec.kind = value;
  if (key == "cdiVersion") spec.version = value;
  // Environment variables and hooks also have a key `name`, but they come after the name of the
  // device.
  if (key == "devices") in_device = true;
  if (key == "name" && in_device &&
      std::find(spec.devices.begin(), spec.devices.end(), value) == spec.devices.end())
    spec.devices.emplace_back(value);
  if (key == "path") at_uvm = value == "/dev/nvidia-uvm";
  if (key == "major" && at_uvm)
    spec.uvm_major = static_cast<unsigned>(to_number(value).value_or(0));
  const bool host = key == "hostPath" || key == "path";
  if (!host || !value.starts_with('/')) return;
  // In a hook, `path` is a program of the host. In a device node, it is the device. Both must
  // exist.
  if (const auto at = value.find("libcuda.so."); at != std::string_view::npos && key == "hostPath")
    if (const auto version = value.substr(at + 11); version.find('.') != std::string_view::npos)
      spec.driver_version = version;
  const auto node = tree.node(std::string(value));
  if (node.is_absent() && spec.missing_paths.size() < 20) spec.missing_paths.emplace_back(value);
}

CdiSpec parse(const Tree& tree, const std::string& path, const std::string& text) {
  CdiSpec spec;
  spec.path = path;
  std::string lines = text;
  if (trim(text).starts_with('{'))
    std::replace_if(
        lines.begin(), lines.end(),
        [](char c) { return c == '{' || c == '}' || c == '[' || c == ']' || c == ','; }, '\n');
  bool in_device = false, at_uvm = false;
  for (std::string_view line : split(lines, '\n')) {
    line = trim(line);
    while (line.starts_with("- ")) line = trim(line.substr(2));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = unquoted(line.substr(0, colon));
    take(tree, key, unquoted(line.substr(colon + 1)), in_device, at_uvm, spec);
  }
  return spec;
}

}  // namespace

Fact<std::vector<CdiSpec>> collect_cdi(const Tree& tree) {
  std::vector<CdiSpec> specs;
  for (const std::string folder : {"/etc/cdi", "/var/run/cdi", "/run/cdi"}) {
    const auto names = tree.list(folder, 100);
    if (names.is_unreadable()) return names.why();
    for (const std::string& name : names.value_or({})) {
      if (!name.ends_with(".yaml") && !name.ends_with(".yml") && !name.ends_with(".json")) continue;
      const std::string path = folder + "/" + name;
      // /var/run is usually a link to /run, so the same specs are already in the list.
      const bool again = folder == "/run/cdi" &&
                         std::any_of(specs.begin(), specs.end(),
                                     [&](const CdiSpec& one) { return one.path == "/var" + path; });
      if (again) continue;
      const auto text = tree.read(path, 1 << 20);
      if (text.is_unreadable()) return text.why();
      if (text) specs.push_back(parse(tree, path, *text));
    }
  }
  return specs;
}

}  // namespace berth::doctor
