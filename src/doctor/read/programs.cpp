// Programs beside Python whose ways to compute are files that lie beside them.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "doctor/config_lines.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/read/place.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostNames = 2000;

/// Of llama.cpp, whisper.cpp and stable-diffusion.cpp.
constexpr auto kPrograms =
    std::to_array<const char*>({"llama-server", "llama-cli", "llama-bench", "whisper-server",
                                "whisper-cli", "sd-server", "sd-cli"});

void add_ggml(const Tree& tree, const std::string& folder, GgmlProgram& found) {
  for (const std::string& name : tree.list(folder, kMostNames).value_or({})) {
    if (!name.starts_with("libggml") || name.find(".so") == std::string::npos) continue;
    if (found.folder.empty()) found.folder = folder;
    found.libraries.push_back(name);
  }
}

/// Beside the program, in the lib next to it, and where Homebrew and Debian have ggml as a package
/// of its own.
GgmlProgram look_around(const Tree& tree, const std::string& program) {
  GgmlProgram found;
  found.program = program;
  const std::string real = tree.resolve(program).value_or(program);
  for (const std::string& prefix : {parent(parent(real)), parent(parent(program))})
    for (const char* part : {"/lib", "/libexec", "/lib/llama.cpp", "/lib64", "/opt/ggml/libexec",
                             "/opt/ggml/lib", "/lib/x86_64-linux-gnu/ggml/backends0",
                             "/lib/x86_64-linux-gnu/ggml/backends", "/lib/x86_64-linux-gnu"})
      if (prefix != "/usr" || std::string_view(part) != "/libexec")
        add_ggml(tree, prefix + part, found);
  add_ggml(tree, parent(real), found);
  const std::string cellar = parent(parent(program)) + "/Cellar/ggml";
  for (const std::string& version : tree.list(cellar, 20).value_or({}))
    for (const char* part : {"/libexec", "/lib"})
      add_ggml(tree, cellar + "/" + version + part, found);
  return found;
}

}  // namespace

namespace {

/// The folder of its libraries, where ollama itself and distributions that build it otherwise put
/// it: Fedora has /usr/lib64, Debian's kind its processor's. "" none of them.
Fact<std::string> ollama_folder(const Tree& tree, const std::string& prefix) {
  for (const char* part :
       {"/lib/ollama", "/lib64/ollama", "/libexec/ollama", "/lib/x86_64-linux-gnu/ollama",
        "/lib/aarch64-linux-gnu/ollama", "/share/ollama/lib"}) {
    const auto node = tree.node(prefix + part);
    if (node.is_unreadable()) return node.why();
    if (node) return prefix + part;
  }
  return {};
}

}  // namespace

/// Where its own installer and distributions' packages put it.
Fact<OllamaFiles> collect_ollama(const Tree& tree) {
  for (const char* program : {"/usr/local/bin/ollama", "/usr/bin/ollama"}) {
    const auto node = tree.node(program);
    if (node.is_unreadable()) return node.why();
    if (!node) continue;
    OllamaFiles files;
    files.program = program;
    const std::string real = tree.resolve(program).value_or(program);
    if (const auto file = tree.node(real)) files.size = file->size;
    const auto folder = ollama_folder(tree, parent(parent(real)));
    if (folder.is_unreadable()) return folder.why();
    files.folder = folder.value_or(parent(parent(real)) + "/lib/ollama");
    const auto names = tree.list(files.folder, 500);
    if (names.is_unreadable()) return names.why();
    files.libraries = names.value_or({});
    // From 0.4 to 0.5.7 each way to compute was a program in a folder of its own.
    const auto runners = tree.list(files.folder + "/runners", 100);
    if (runners.is_unreadable()) return runners.why();
    for (const std::string& name : runners.value_or({}))
      files.libraries.push_back("runners/" + name);
    return files;
  }
  return {};
}

namespace {

/// A unit with what is added to it; what stands later counts.
struct Unit {
  OllamaService service;
  std::vector<std::string> files;   // EnvironmentFile=: "-/etc/default/ollama"
  std::vector<std::string> passed;  // PassEnvironment=
};

/// Environment="A=1" "B=2 3" C=4, as systemd reads it.
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

/// An empty one of each takes all back.
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

/// A=1, or A="1", a row each.
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

/// With what the files say that it names: that counts before what the unit itself sets. Of those
/// that are not Ollama's own nobody needs to know more than that they are there.
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

}  // namespace

namespace {

/// What systemd is told of the server's rights; the last line counts, and groups add up.
struct UnitRights {
  std::string user, devices, groups;
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

/// Whether groups have members beside those of /etc/group: of a directory (sss, ldap), say.
bool has_other_groups(const Tree& tree) {
  const auto text = tree.read("/etc/nsswitch.conf");
  if (text.is_unreadable()) return true;
  const std::string all = text.value_or("");
  for (const std::string_view row : split(all, '\n')) {
    const std::string_view line = trim(row.substr(0, row.find('#')));
    if (!line.starts_with("group:")) continue;
    for (const std::string_view one : split(line.substr(line.find(':') + 1), ' ')) {
      const std::string_view word = trim(one);
      // "[SUCCESS=merge]"; what systemd adds are files of its own, asked below.
      if (!word.empty() && word.front() != '[' && word.find('=') == std::string_view::npos &&
          word != "files" && word != "compat" && word != "systemd")
        return true;
    }
  }
  return false;
}

/// "render:x:992:ollama,ada"; systemd's own way is a file for each member.
bool is_in_groups(const Tree& tree, const std::string& user) {
  if (has_other_groups(tree)) return true;  // nobody can tell
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
  return true;  // there is no such group, or nobody could look
}

void judge_rights(const Tree& tree, const UnitRights& rights, OllamaService& service) {
  if (!rights.allows_gpu || rights.locked.value.starts_with("PrivateDevices"))
    service.locked = rights.locked;
  service.user = rights.user == "root" ? "" : rights.user;
  service.grouped = service.user.empty() || rights.groups.find("render") != std::string::npos ||
                    is_in_groups(tree, service.user);
}

}  // namespace

/// The unit, and the files that `systemctl edit` adds to it.
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

Fact<GgmlProgram> collect_ggml(const Tree& tree, const ProcessFacts& process) {
  const auto path = process.variable("PATH");
  if (path.is_unreadable()) return path.why();
  const std::string folders = path.value_or("");
  for (const std::string_view folder : split(folders, ':'))
    for (const char* name : kPrograms) {
      const std::string program = std::string(folder) + "/" + name;
      if (!folder.starts_with('/') || !tree.exists(program)) continue;
      GgmlProgram found = look_around(tree, program);
      if (!found.libraries.empty()) return found;
    }
  return {};
}

}  // namespace berth::doctor
