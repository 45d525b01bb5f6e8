// How systemd starts Ollama's server: with which variables and with which access to devices.
#include <algorithm>
#include <optional>

#include "base/text_parts.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/knowledge/config_lines.hpp"
#include "doctor/read/collectors.hpp"

namespace berth::doctor {
namespace {

/// A unit with its drop-in files. Later settings override earlier ones.
struct Unit {
  OllamaService service;
  std::vector<std::string> files;   // paths in EnvironmentFile=: "-/etc/default/ollama"
  std::vector<std::string> passed;  // variables in PassEnvironment=
};

/// Parses Environment="A=1" "B=2 3" C=4 in systemd's syntax.
void read_environment(std::string_view words, const std::string& file, OllamaService& service) {
  while (!(words = trim(words)).empty()) {
    const char quote = words.front() == '"' || words.front() == '\'' ? words.front() : ' ';
    if (quote != ' ') words.remove_prefix(1);
    const std::size_t end = std::min(words.find(quote), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos && equals > 0)
      service.variables[printable(word.substr(0, equals))] = {printable(word.substr(equals + 1)),
                                                              file};
  }
}

/// Reads the settings of a unit file. An empty value resets a setting.
void read_settings(const std::string& text, const std::string& file, Unit& unit) {
  for (const std::string& joined : joined_lines(text, false)) {
    const std::string_view line = joined;
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string_view key = line.substr(0, equals);
    const std::string_view words = trim(line.substr(std::min(equals + 1, line.size())));
    if (key == "Environment" && words.empty()) unit.service.variables.clear();
    if (key == "Environment") read_environment(words, file, unit.service);
    if (key == "EnvironmentFile" && words.empty()) unit.files.clear();
    if (key == "EnvironmentFile" && !words.empty()) unit.files.emplace_back(words);
    if (key == "PassEnvironment" && words.empty()) unit.passed.clear();
    if (key == "PassEnvironment")
      for (const std::string_view name : words_between_blanks(words))
        unit.passed.emplace_back(printable(name));
  }
}

/// Parses an environment file, which has one A=1 or A="1" per line.
void read_environment_file(const std::string& text, const std::string& file,
                           OllamaService& service) {
  for (const std::string& joined : joined_lines(text, false)) {
    const std::string_view row = joined;
    const std::size_t equals = row.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    std::string_view value = trim(row.substr(equals + 1));
    if (value.size() > 1 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0])
      value = value.substr(1, value.size() - 2);
    service.variables[printable(trim(row.substr(0, equals)))] = {printable(value), file};
  }
}

/// Adds the variables in the unit's environment files, which override those in the unit. Files that
/// do not belong to Ollama are not read, so their variables stay unknown.
Fact<OllamaService> with_borrowed(const Tree& tree, Unit unit) {
  std::optional<Unreadable> unknown;
  for (const std::string& named : unit.files) {
    const std::string path = named.substr(named.starts_with('-') ? 1 : 0);
    const auto text = is_ollamas_settings(path) && path.find_first_of("*?[%") == std::string::npos
                          ? tree.read(path)
                          : Fact<std::string>(Unreadable{path, 0});
    if (text.is_unreadable()) unknown = text.why();
    if (text) read_environment_file(*text, path, unit.service);
  }
  for (const std::string& name : unit.passed)
    unit.service.variables.try_emplace(name, OllamaService::Setting{"", unit.service.unit, true});
  Fact<OllamaService> service(std::move(unit.service));
  if (unknown) service.doubt(*unknown);
  return service;
}

/// The server's permissions according to the unit's files. For most settings, the last line counts.
/// For groups, all lines count.
struct UnitRights {
  std::string user, groups;
  OllamaService::Setting locked;
  bool allows_gpu = false;
};

void read_rights(const std::string& text, const std::string& file, UnitRights& rights) {
  for (const std::string& joined : joined_lines(text, false)) {
    const std::string_view line = joined;
    const std::string_view key = line.substr(0, line.find('='));
    const std::string value(trim(line.substr(std::min(key.size() + 1, line.size()))));
    const bool yes = value == "yes" || value == "true" || value == "on" || value == "1";
    if (key == "User") rights.user = printable(value);
    if (key == "SupplementaryGroups" || key == "Group") rights.groups += " " + value;
    if (key == "DeviceAllow") {
      for (const char* node : {"nvidia", "drm", "kfd", "/dev/dri"})
        rights.allows_gpu = rights.allows_gpu || value.find(node) != std::string::npos;
    }
    if ((key == "PrivateDevices" && yes) ||
        (key == "DevicePolicy" && (value == "closed" || value == "strict")))
      rights.locked = {printable(line), file};
    else if (key == "PrivateDevices" && rights.locked.value.starts_with("PrivateDevices"))
      rights.locked = {};
    else if (key == "DevicePolicy" && rights.locked.value.starts_with("DevicePolicy"))
      rights.locked = {};
  }
}

/// Whether the user is a member of the group render, by a line such as "render:x:992:ollama,ada" or
/// by a file of systemd for this membership.
bool is_in_groups(const Tree& tree, const std::string& user) {
  const auto services = tree.read("/etc/nsswitch.conf");
  if (services.is_unreadable() || asks_a_directory(services.value_or(""), "group"))
    return true;  // unknown
  for (const std::string folder : {"/etc/userdb/", "/run/userdb/", "/usr/lib/userdb/"})
    if (tree.exists(folder + user + ":render.membership")) return true;
  const auto text = tree.read("/etc/group", 1 << 20);
  const std::string all = text.value_or("");
  for (const std::string_view line : split(all, '\n')) {
    const auto words = split(line, ':');
    if (words.size() != 4 || words[0] != "render") continue;
    for (const std::string_view member : split(words[3], ','))
      if (trim(member) == user) return true;
    return false;
  }
  return true;  // the group is missing or unreadable, so membership is unknown
}

void judge_rights(const Tree& tree, const UnitRights& rights, OllamaService& service) {
  if (!rights.allows_gpu || rights.locked.value.starts_with("PrivateDevices"))
    service.locked = rights.locked;
  service.user = rights.user == "root" ? "" : rights.user;
  service.grouped = service.user.empty() || rights.groups.find("render") != std::string::npos ||
                    is_in_groups(tree, service.user);
}

}  // namespace

/// Reads the unit and the drop-in files that `systemctl edit` creates.
Fact<OllamaService> collect_ollama_service(const Tree& tree) {
  for (const char* folder :
       {"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}) {
    Unit unit;
    unit.service.unit = std::string(folder) + "/ollama.service";
    const auto text = tree.read(unit.service.unit);
    if (text.is_unreadable()) return text.why();
    if (!text) continue;
    UnitRights rights;
    read_settings(*text, unit.service.unit, unit);
    read_rights(*text, unit.service.unit, rights);
    const std::string more = "/etc/systemd/system/ollama.service.d";
    const auto names = tree.list(more, 50);
    if (names.is_unreadable()) return names.why();
    for (const std::string& name : names.value_or({})) {
      if (!name.ends_with(".conf")) continue;
      const auto added = tree.read(more + "/" + name);
      if (added.is_unreadable()) return added.why();
      read_settings(added.value_or(""), more + "/" + name, unit);
      read_rights(added.value_or(""), more + "/" + name, rights);
    }
    judge_rights(tree, rights, unit.service);
    return with_borrowed(tree, std::move(unit));
  }
  return {};
}

}  // namespace berth::doctor
