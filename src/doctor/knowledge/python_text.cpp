#include "doctor/knowledge/python_text.hpp"

#include <algorithm>

#include "base/text_parts.hpp"
#include "doctor/knowledge/version.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostNeeds = 500;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// The text in the first pair of quotes; absent if there is none, as in None.
Fact<std::string> quoted(std::string_view text) {
  const std::size_t open = text.find_first_of("'\"");
  if (open == std::string_view::npos) return {};
  const std::size_t close = text.find(text[open], open + 1);
  if (close == std::string_view::npos || close == open + 1) return {};
  return printable(text.substr(open + 1, close - open - 1));
}

}  // namespace

VenvConfig parse_venv_config(std::string_view text) {
  VenvConfig config;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, equals));
    const std::string_view value = trim(line.substr(equals + 1));
    if (key == "home") config.home = value;
    if (key == "version" || key == "version_info") config.version = printable(value);
    if (key == "uv") config.by_uv = true;
    if (key == "include-system-site-packages")
      config.system_packages = normal_name(value) == "true";
  }
  return config;
}

Metadata parse_metadata(std::string_view text) {
  Metadata out;
  for (std::string_view line : split(text, '\n')) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) break;  // the description follows the empty line
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "Name" && out.name.empty()) out.name = normal_name(value);
    if (key == "Version" && out.version.empty()) out.version = printable(value);
    if (key == "Requires-Dist" && out.needs.size() < kMostNeeds)
      out.needs.push_back(printable(value));
  }
  return out;
}

TorchBuild parse_torch_version(std::string_view text) {
  TorchBuild build;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    // The line is "cuda: Optional[str] = '12.4'", or "cuda = '12.4'" in older releases.
    const std::string_view name = trim(line.substr(0, std::min(line.find(':'), equals)));
    const Fact<std::string> value = quoted(line.substr(equals + 1));
    if (name == "__version__" && value) build.version = *value;
    if (name == "cuda") build.cuda = value;
    if (name == "hip") build.hip = value;
    if (name == "xpu") build.xpu = value;
  }
  return build;
}

std::string normal_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool separates = c == '-' || c == '_' || c == '.';
    if (separates && !out.empty() && out.back() == '-') continue;
    out += separates ? '-' : lower(c);
  }
  return printable(out);
}

std::pair<std::string, std::string> parse_info_name(std::string_view file) {
  for (const std::string_view end : {".dist-info", ".egg-info"}) {
    if (!file.ends_with(end)) continue;
    file.remove_suffix(end.size());
    for (std::size_t dash = file.find('-'); dash != std::string_view::npos;
         dash = file.find('-', dash + 1)) {
      if (dash + 1 >= file.size() || file[dash + 1] < '0' || file[dash + 1] > '9') continue;
      std::string_view version = file.substr(dash + 1);
      if (const std::size_t python = version.find("-py"); python != std::string_view::npos)
        version = version.substr(0, python);
      return {normal_name(file.substr(0, dash)), printable(version)};
    }
    return {normal_name(file), ""};
  }
  return {};
}

std::vector<std::string> parse_pth(std::string_view text) {
  std::vector<std::string> folders;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty() || line.front() == '#' || line.starts_with("import ") ||
        line.starts_with("import\t") || line.find('\0') != std::string_view::npos)
      continue;
    if (folders.size() < 100) folders.emplace_back(line);
  }
  return folders;
}

Requirement parse_requirement(std::string_view text) {
  Requirement out;
  const std::size_t semicolon = text.find(';');
  if (semicolon != std::string_view::npos) out.marker = trim(text.substr(semicolon + 1));
  text = trim(text.substr(0, semicolon));
  std::size_t end = 0;
  while (end < text.size() && is_word(text[end])) ++end;
  out.name = normal_name(text.substr(0, end));
  // The version range of "numba[cuda] (<2)" is "<2". Skip the extra and the brackets.
  std::string_view range = trim(text.substr(end));
  if (range.starts_with('['))
    range = trim(range.substr(std::min(range.find(']'), range.size() - 1) + 1));
  for (const char c : range)
    if (c != '(' && c != ')' && c != ' ') out.range += c;
  const std::size_t equals = text.find("==");
  if (equals == std::string_view::npos || text.find(',') != std::string_view::npos) return out;
  std::string_view pin = trim(text.substr(equals + 2));
  while (!pin.empty() && (pin.front() == '=' || pin.front() == ' ')) pin.remove_prefix(1);
  end = 0;
  while (end < pin.size() && (is_word(pin[end]) || pin[end] == '+' || pin[end] == '*')) ++end;
  out.exact = pin.substr(0, end);
  return out;
}

bool allows(std::string_view range, std::string_view version) {
  const Version has = version_of(version);
  if (has.empty()) return true;
  const auto one = [&](std::string_view condition) {
    const std::size_t at = condition.find_first_not_of("<>=!~");
    if (at == std::string_view::npos || at == 0) return true;
    const std::string_view how = condition.substr(0, at);
    std::string_view what = condition.substr(at);
    const bool all = what.ends_with(".*");
    if (all) what.remove_suffix(2);
    const Version wanted = version_of(what);
    if (wanted.empty()) return true;
    // "==2.*" and "~=2.1" compare only the first `parts` parts of the versions.
    const auto begins = [&](std::size_t parts) {
      return compare(
                 Version(has.begin(),
                         has.begin() + static_cast<std::ptrdiff_t>(std::min(parts, has.size()))),
                 Version(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(parts))) == 0;
    };
    const int order = compare_versions(version, what);
    if (how == "<") return order < 0;
    if (how == "<=") return order <= 0;
    if (how == ">") return order > 0;
    if (how == ">=") return order >= 0;
    if (how == "~=") return order >= 0 && wanted.size() > 1 && begins(wanted.size() - 1);
    if (how == "==") return all ? begins(wanted.size()) : order == 0;
    if (how == "!=") return all ? !begins(wanted.size()) : order != 0;
    return true;
  };
  const auto conditions = split(range, ',');
  return std::all_of(conditions.begin(), conditions.end(), one);
}

}  // namespace berth::doctor
