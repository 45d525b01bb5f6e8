// Reads the settings of pip, uv and conda. Each program reads several files, and later files
// override earlier ones. The files are parsed line by line, only for the keys that matter.
#include "doctor/facts/package_index.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text_parts.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {
namespace {

std::string variable(const Fact<Environment>& environment, const char* name) {
  if (!environment) return "";
  const auto found = environment->find(name);
  return found == environment->end() ? "" : std::string(trim(found->second));
}

void add_all(std::string_view list, const std::string& from, std::vector<IndexAddress>& into) {
  std::string word;
  for (const char c : std::string(list) + " ") {
    if (c != ' ' && c != '\t' && c != '\n' && c != ',') {
      word += c;
    } else if (!word.empty()) {
      // For uv, an index can have a name: "name=https://…".
      const std::size_t equals = word.find('=');
      if (equals != std::string::npos && equals < word.find("://")) word.erase(0, equals + 1);
      if (into.size() < 20) into.push_back(index_address(word, from));
      word.clear();
    }
  }
}

std::string unquoted(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'')) {
    const std::size_t end = text.find(text.front(), 1);
    if (end != std::string_view::npos) return std::string(text.substr(1, end - 1));
  }
  return std::string(trim(text.substr(0, text.find(" #"))));
}

/// Calls `see` for each key of an INI or TOML text, with the section of the key. A value may
/// continue in indented lines, or up to a closing bracket.
template <typename See>
void each_setting(std::string_view text, See see) {
  std::string section, key, value;
  const auto finish = [&] {
    if (!key.empty()) see(section, key, value);
    key.clear();
  };
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view bare = trim(line);
    if (bare.empty() || bare.front() == '#' || bare.front() == ';') continue;
    const bool goes_on =
        line.front() == ' ' || line.front() == '\t' || bare.front() == ']' ||
        (value.find('[') != std::string::npos && value.find(']') == std::string::npos);
    if (!key.empty() && goes_on) {
      if (value.size() < 4096) value += " " + std::string(bare);
      continue;
    }
    finish();
    value.clear();
    if (bare.front() == '[') {
      section = std::string(bare);
      see(section, "", "");
      continue;
    }
    const std::size_t equals = bare.find_first_of("=:");
    if (equals == std::string_view::npos) continue;
    key = std::string(trim(bare.substr(0, equals)));
    std::replace(key.begin(), key.end(), '_', '-');
    value = std::string(trim(bare.substr(equals + 1)));
  }
  finish();
}

bool is_true(std::string_view word) {
  return word == "1" || word == "true" || word == "True" || word == "yes" || word == "on";
}

void read_pip_file(const Tree& tree, const std::string& path, PackageIndex& index) {
  const auto text = tree.read(path);
  if (!text) {
    if (text.is_unreadable()) index.main = text.why();
    return;
  }
  // pip's [install] section overrides its [global] section, even if [install] comes first in the
  // file.
  for (const char* wanted : {"[global]", "[install]"})
    each_setting(*text,
                 [&](const std::string& section, const std::string& key, const std::string& value) {
                   if (section != wanted) return;
                   if (key == "index-url") index.main = index_address(value, path);
                   if (key == "extra-index-url") {
                     index.extra.clear();
                     add_all(value, path, index.extra);
                   }
                   if (key == "no-index") index.no_index = is_true(value);
                 });
}

std::vector<std::string> config_folders(const Fact<Environment>& environment) {
  std::vector<std::string> folders;
  const std::string dirs = variable(environment, "XDG_CONFIG_DIRS");
  for (const std::string_view one : split(dirs, ':'))
    if (one.starts_with('/')) folders.insert(folders.begin(), std::string(one));
  if (folders.empty()) folders.emplace_back("/etc/xdg");
  return folders;
}

std::string user_folder(const Fact<Environment>& environment) {
  const std::string xdg = variable(environment, "XDG_CONFIG_HOME");
  return xdg.empty() ? variable(environment, "HOME") + "/.config" : xdg;
}

PackageIndex read_pip(const Tree& tree, const Fact<Environment>& environment,
                      const std::string& prefix) {
  PackageIndex index;
  const std::string named = variable(environment, "PIP_CONFIG_FILE");
  if (named != "/dev/null") {
    std::vector<std::string> files;
    for (const std::string& folder : config_folders(environment))
      files.push_back(folder + "/pip/pip.conf");
    files.emplace_back("/etc/pip.conf");
    if (const std::string home = variable(environment, "HOME"); !home.empty())
      files.push_back(home + "/.pip/pip.conf");
    files.push_back(user_folder(environment) + "/pip/pip.conf");
    if (!prefix.empty()) files.push_back(prefix + "/pip.conf");
    if (named.starts_with('/')) files.push_back(named);
    for (const std::string& file : files) read_pip_file(tree, file, index);
  }
  if (const std::string url = variable(environment, "PIP_INDEX_URL"); !url.empty())
    index.main = index_address(url, "PIP_INDEX_URL");
  if (const std::string more = variable(environment, "PIP_EXTRA_INDEX_URL"); !more.empty()) {
    index.extra.clear();
    add_all(more, "PIP_EXTRA_INDEX_URL", index.extra);
  }
  if (const std::string word = variable(environment, "PIP_NO_INDEX"); !word.empty())
    index.no_index = is_true(word);
  return index;
}

/// Adds the strings in quotes of a TOML list.
void add_quoted(std::string_view list, const std::string& from, std::vector<IndexAddress>& into) {
  std::size_t at = 0;
  while ((at = list.find_first_of("\"'", at)) != std::string_view::npos) {
    const std::size_t end = list.find(list[at], at + 1);
    if (end == std::string_view::npos) return;
    if (into.size() < 20) into.push_back(index_address(list.substr(at + 1, end - at - 1), from));
    at = end + 1;
  }
}

/// An [[index]] section of uv's file.
struct UvIndex {
  std::string url;
  bool is_default = false, only_where_named = false;
};

void add_uv_index(const UvIndex& one, const std::string& path, PackageIndex& index) {
  if (one.url.empty() || one.only_where_named) return;
  if (one.is_default)
    index.main = index_address(one.url, path);
  else if (index.extra.size() < 20)
    index.extra.push_back(index_address(one.url, path));
}

void read_uv_file(const Tree& tree, const std::string& path, PackageIndex& index) {
  const auto text = tree.read(path);
  if (!text) {
    if (text.is_unreadable()) index.main = text.why();
    return;
  }
  UvIndex open;
  const auto finish = [&] { add_uv_index(std::exchange(open, {}), path, index); };
  each_setting(*text,
               [&](const std::string& section, const std::string& key, const std::string& value) {
                 if (key.empty()) return finish();
                 if (section == "[[index]]") {
                   if (key == "url") open.url = unquoted(value);
                   if (key == "default") open.is_default = value.starts_with("true");
                   if (key == "explicit") open.only_where_named = value.starts_with("true");
                   return;
                 }
                 if (!section.empty() && section != "[pip]") return;
                 if (key == "index-url") index.main = index_address(unquoted(value), path);
                 if (key == "extra-index-url") add_quoted(value, path, index.extra);
                 if (key == "no-index") index.no_index = value.starts_with("true");
               });
  finish();
}

PackageIndex read_uv(const Tree& tree, const Fact<Environment>& environment) {
  PackageIndex index;
  if (!is_true(variable(environment, "UV_NO_CONFIG"))) {
    const std::string named = variable(environment, "UV_CONFIG_FILE");
    if (named.starts_with('/')) {
      read_uv_file(tree, named, index);
    } else {
      for (const std::string& folder : config_folders(environment))
        read_uv_file(tree, folder + "/uv/uv.toml", index);
      read_uv_file(tree, "/etc/uv/uv.toml", index);
      read_uv_file(tree, user_folder(environment) + "/uv/uv.toml", index);
      // The project's uv.toml is in the working directory, or in the nearest parent that has one.
      std::string folder = variable(environment, "PWD");
      while (folder.size() > 1 && folder.front() == '/' && !tree.exists(folder + "/uv.toml"))
        folder.erase(folder.rfind('/'));
      if (folder.size() > 1) read_uv_file(tree, folder + "/uv.toml", index);
    }
  }
  for (const char* name : {"UV_INDEX_URL", "UV_DEFAULT_INDEX"})
    if (const std::string url = variable(environment, name); !url.empty()) {
      std::vector<IndexAddress> one;
      add_all(url, name, one);
      index.main = one.front();
    }
  for (const char* name : {"UV_EXTRA_INDEX_URL", "UV_INDEX"})
    if (const std::string more = variable(environment, name); !more.empty())
      add_all(more, name, index.extra);
  if (is_true(variable(environment, "UV_NO_INDEX"))) index.no_index = true;
  return index;
}

/// The channels after "channels:", either in lines "  - name" or in a list in brackets.
std::vector<std::string> channels_in(std::string_view text) {
  std::vector<std::string> channels;
  bool inside = false;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view bare = trim(line);
    if (bare.empty() || bare.front() == '#') continue;
    if (bare.starts_with("channels:") && line.front() == 'c') {
      inside = true;
      const std::string_view rest = trim(bare.substr(9));
      if (!rest.starts_with('[')) continue;
      for (const std::string_view one : split(rest.substr(1, rest.find(']') - 1), ','))
        if (!trim(one).empty()) channels.push_back(index_address(unquoted(one), "").url);
      inside = false;
    } else if (inside && bare.front() == '-') {
      if (channels.size() < 20) channels.push_back(index_address(unquoted(bare.substr(1)), "").url);
    } else {
      inside = false;
    }
  }
  return channels;
}

CondaChannels read_conda(const Tree& tree, const Fact<Environment>& environment,
                         const PythonFacts& python) {
  CondaChannels found;
  if (const std::string list = variable(environment, "CONDA_CHANNELS"); !list.empty()) {
    for (const std::string_view one : split(list, ','))
      if (!trim(one).empty()) found.channels.push_back(index_address(one, "").url);
    found.from = "CONDA_CHANNELS";
    return found;
  }
  const std::string home = variable(environment, "HOME"),
                    root = variable(environment, "CONDA_ROOT");
  std::vector<std::string> files{"/etc/conda/.condarc", "/etc/conda/condarc",
                                 "/var/lib/conda/.condarc", "/var/lib/conda/condarc"};
  if (!root.empty()) files.insert(files.end(), {root + "/.condarc", root + "/condarc"});
  files.push_back(user_folder(environment) + "/conda/.condarc");
  files.push_back(user_folder(environment) + "/conda/condarc");
  if (!home.empty())
    files.insert(files.end(), {home + "/.conda/.condarc", home + "/.conda/condarc",
                               home + "/.condarc", home + "/.mambarc"});
  if (python.is_conda) files.push_back(python.prefix + "/.condarc");
  if (const std::string named = variable(environment, "CONDARC"); named.starts_with('/'))
    files.push_back(named);
  for (const std::string& file : files)
    if (auto channels = channels_in(tree.read(file).value_or("")); !channels.empty()) {
      found.channels = std::move(channels);
      found.from = file;
    }
  return found;
}

/// Whether the address is one of PyTorch's indices: ".../whl", ".../whl/cu121",
/// ".../whl/nightly/cpu".
bool is_of_torch(const std::string& url) {
  const std::string tag = url.substr(url.rfind('/') + 1);
  const auto numbered = [&](std::string_view name) {
    return tag.starts_with(name) && tag.find_first_of("0123456789") == name.size();
  };
  return tag == "whl" || tag == "cpu" || tag == "xpu" || numbered("cu") || numbered("rocm");
}

bool is_public(const std::string& url) {
  return url.find("://pypi.org/") != std::string::npos ||
         url.find("://pypi.python.org/") != std::string::npos;
}

}  // namespace

IndexAddress index_address(std::string_view text, const std::string& from) {
  IndexAddress out{std::string(trim(text)), from};
  const std::size_t host = out.url.find("://");
  if (host == std::string::npos) return out;
  const std::size_t end = out.url.find_first_of("/?#", host + 3);
  const std::size_t at = out.url.rfind('@', end);
  if (at != std::string::npos && at > host) {
    out.url.erase(host + 3, at + 1 - (host + 3));
    out.has_secret = true;
  }
  // conda's addresses have a token in the path. A query string may also contain a token.
  if (const std::size_t token = out.url.find("/t/", host); token != std::string::npos) {
    const std::size_t after = out.url.find('/', token + 3);
    out.url.erase(token, after == std::string::npos ? after : after - token);
    out.has_secret = true;
  }
  if (const std::size_t query = out.url.find_first_of("?#"); query != std::string::npos) {
    out.url.erase(query);
    out.has_secret = true;
  }
  while (out.url.ends_with('/')) out.url.pop_back();
  return out;
}

bool PackageIndex::is_mirror() const {
  if (no_index || main.is_unreadable()) return true;
  // An index from the option --index replaces all others, even if it is PyPI: perhaps the user
  // cannot reach PyTorch's own index.
  return main && (!is_public(main->url) || main->from == "--index");
}

bool PackageIndex::has_torch_alone() const {
  return main && is_of_torch(main->url) &&
         std::all_of(extra.begin(), extra.end(),
                     [](const IndexAddress& one) { return is_of_torch(one.url); });
}

std::string PackageIndex::all_of_torch() const {
  return has_torch_alone() && main->url.ends_with("/whl") ? main->url : "";
}

std::vector<std::string> PackageIndex::tags() const {
  std::vector<std::string> tags;
  const auto add = [&](const IndexAddress& one) {
    // Skip indices of nightly builds, because they contain no releases.
    if (one.url.find("/nightly/") == std::string::npos)
      tags.push_back(one.url.substr(one.url.rfind('/') + 1));
  };
  if (main) add(*main);
  for (const IndexAddress& one : extra) add(one);
  return tags;
}

std::string PackageIndex::named() const {
  if (main) return printable(main->url);
  return main.is_unreadable() ? main.why().where : "--no-index";
}

const PackageIndex& PackageSources::of(const PythonFacts& python) const {
  return python.has_uv && !python.is_externally_managed ? uv : pip;
}

PackageSources collect_package_sources(const Tree& tree, const Fact<Environment>& environment,
                                       const PythonFacts& python) {
  PackageSources sources;
  sources.pip = read_pip(tree, environment, python.prefix == "/usr" ? "" : python.prefix);
  sources.uv = read_uv(tree, environment);
  sources.conda = read_conda(tree, environment, python);
  return sources;
}

}  // namespace berth::doctor
