#include "output/diagnosis_parts.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "output/software.hpp"

namespace berth::output {
namespace {

using model::KnownMessage;
using model::Probed;

constexpr std::size_t kMostMessages = 5;
// The maximum number of variables that are listed as unset. `env -i` would unset all.
constexpr long kMostGone = 4;

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

/// What on this machine confirms or explains a known message; "" if nothing does.
std::string held_against(const KnownMessage& one) {
  if (!one.shown_by.empty()) return text("a finding above explains this: {}", joined(one.shown_by));
  if (!one.seen.empty()) return text("this applies here: {}", one.seen);
  if (one.rules.empty()) return "";
  if (!one.not_checked.empty())
    return text("it was not checked whether this applies here ({})", joined(one.not_checked));
  if (one.compared) return std::string(tr("no check on this machine confirms this cause"));
  if (one.rules.front().starts_with("SRC"))
    return std::string(tr("berth doctor FILE finds the line that causes it"));
  return std::string(tr("its cause was not checked here"));
}

std::string devices_of(const Probed& one) {
  std::string all;
  for (const Probed::Device& device : one.devices)
    if (device.ran)
      all += (all.empty() ? "GPU " : ", ") + std::to_string(device.index) +
             (device.name.empty() ? "" : " (" + device.name + ")");
  return all;
}

void add_probe(JsonWriter& json, const std::vector<Probed>& probe) {
  json.rows("probe", probe, [&](const Probed& one) {
    json.field("framework", one.framework);
    json.text_field("version", one.version);
    json.field("state", one.state);
    json.field("says", one.says);
    json.text_field("message", one.message);
    json.rows("devices", one.devices, [&](const Probed::Device& device) {
      json.field("index", device.index);
      json.text_field("name", device.name);
      json.field("ran", device.ran);
      json.text_field("message", device.message);
    });
  });
}

void add_error(JsonWriter& json, const std::vector<KnownMessage>& messages) {
  json.rows("error", messages, [&](const KnownMessage& one) {
    json.field("message", one.name);
    json.field("line", one.line);
    json.field("text", one.text);
    json.field("means", one.means);
    json.text_field("seen", one.seen);
    json.field("rules", one.rules);
    json.field("shown_by", one.shown_by);
    json.field("not_checked", one.not_checked);
    json.field("compared", one.compared);
  });
}

void add_command(JsonWriter& json, const model::CommandSeen& command) {
  json.key("command");
  json.open('{');
  json.field("program", command.program);
  json.text_field("python", command.python);
  json.key("environment");
  json.open('{');
  for (const auto& [name, value] : command.environment) json.field(printable(name), value);
  json.close('}');
  json.field("files", command.files);
  json.field("notes", command.notes);
  json.close('}');
}

}  // namespace

std::string command_text(const model::DiagnosisParts& parts, const Terminal& terminal) {
  if (!parts.command) return "";
  const model::CommandSeen& command = *parts.command;
  const std::string label = std::string(tr("program")) + "   ";
  const int column = display_width(label);
  std::string out =
      folded(label, command.python.empty() ? command.program : command.python, column, terminal);
  std::string set;
  const auto gone = std::count_if(command.environment.begin(), command.environment.end(),
                                  [](const auto& one) { return !one.second; });
  const auto say = [&](const std::string& words) { set += (set.empty() ? "" : "  ") + words; };
  for (const auto& [name, value] : command.environment) {
    if (name == "PATH" && value) continue;
    if (value)
      say(printable(name) + "=" + printable(*value));
    else if (gone <= kMostGone)
      say(text("without {}", printable(name)));
  }
  if (gone > kMostGone)
    say(text("{} of the current variables are unset", static_cast<long long>(gone)));
  if (!set.empty()) out += folded("", set, column, terminal);
  if (!command.files.empty()) out += folded("", joined(command.files), column, terminal);
  for (const std::string& note : command.notes) out += folded("", note, column, terminal);
  return out;
}

std::string python_text(const model::DiagnosisParts& parts, const Terminal& terminal) {
  if (!parts.python || (parts.command && parts.command->python.empty())) return "";
  const std::string label = std::string(tr("examined")) + "   ";
  const model::PythonSeen& seen = *parts.python;
  if (seen.path.empty())
    return seen.why.empty() ? "" : folded(label, seen.why, display_width(label), terminal);
  return folded(
      label,
      printable(seen.path) + (seen.version.empty() ? "" : " (" + printable(seen.version) + ")"),
      display_width(label), terminal);
}

std::string probe_text(const model::DiagnosisParts& parts, const Terminal& terminal) {
  if (!parts.probe) return "";
  const std::string label = std::string(tr("tried")) + "   ";
  const int column = display_width(label);
  if (parts.probe->empty())
    return folded(label, std::string(tr("the target has no GPU framework that could be tried")),
                  column, terminal);
  std::string out;
  for (const Probed& one : *parts.probe) {
    std::string line =
        one.framework + (one.version.empty() ? "" : " " + one.version) + ": " + one.says;
    if (const std::string devices = devices_of(one); !devices.empty()) line += ": " + devices;
    if (!one.message.empty()) line += "; " + one.message;
    out += folded(out.empty() ? label : "", line, column, terminal);
  }
  return out;
}

std::string error_text(const model::DiagnosisParts& parts, const model::Diagnosis& diagnosis,
                       const Terminal& terminal) {
  if (!parts.error) return "";
  const std::string label = std::string(tr("the error")) + "   ";
  const int column = display_width(label);
  if (parts.error->empty())
    return folded(label,
                  std::string(tr("the text contains no error message that the doctor knows")),
                  column, terminal);
  const bool stands_first =
      std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                  [](const model::Finding& one) { return one.id == "ERR01"; });
  std::string out;
  std::size_t count = 0;
  for (const KnownMessage& one : *parts.error) {
    if (++count > kMostMessages) break;
    if (count == 1 && stands_first) {
      // The findings above already show this line of the text and its number.
      if (const std::string here = held_against(one); !here.empty())
        out += folded(label, here, column, terminal);
      continue;
    }
    out += folded(out.empty() ? label : "",
                  one.line > 0 ? text("line {}: {}", one.line, one.text)
                               : text("near the end of the text: {}", one.text),
                  column, terminal);
    const std::string here = held_against(one);
    out += folded("", text("it usually means: {}", one.means) + (here.empty() ? "" : "; " + here),
                  column, terminal);
  }
  return out;
}

void add_parts(JsonWriter& json, const model::DiagnosisParts& parts) {
  if (parts.python && !parts.python->path.empty()) {
    json.key("python");
    json.open('{');
    json.field("path", printable(parts.python->path));
    json.text_field("version", printable(parts.python->version));
    json.close('}');
  } else {
    json.field("python", nullptr);
  }
  parts.command ? add_command(json, *parts.command) : json.field("command", nullptr);
  parts.probe ? add_probe(json, *parts.probe) : json.field("probe", nullptr);
  parts.error ? add_error(json, *parts.error) : json.field("error", nullptr);
  parts.software ? add_software(json, *parts.software) : json.field("inventory", nullptr);
}

}  // namespace berth::output
