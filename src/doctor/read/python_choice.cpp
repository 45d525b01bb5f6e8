// Finds the Python that the user means by a path, a folder or a name.
#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/place.hpp"

namespace berth::doctor {
namespace {

/// The installation folders of conda and its derivatives, which contain environments.
std::vector<std::string> conda_roots(const Fact<Environment>& environment) {
  const std::string home = variable(environment, "HOME");
  std::vector<std::string> roots{variable(environment, "MAMBA_ROOT_PREFIX")};
  if (const std::string conda = variable(environment, "CONDA_EXE"); !conda.empty())
    roots.push_back(parent(parent(conda)));
  for (const char* root :
       {"/miniconda3", "/anaconda3", "/miniforge3", "/mambaforge", "/micromamba"})
    roots.push_back(home + root);
  roots.emplace_back("/opt/conda");
  std::erase(roots, "");
  return roots;
}

/// The folder in a line of a list: "/data/envs" from "  - /data/envs # mine"; "" if it is not a
/// path.
std::string listed_folder(std::string_view word, const std::string& home) {
  word = trim(word.substr(0, word.find(" #")));
  if (word.starts_with("- ")) word = trim(word.substr(2));
  if (word.size() > 1 && (word[0] == '"' || word[0] == '\''))
    word = word.substr(1, word.find(word[0], 1) - 1);
  if (word.starts_with("~/")) return home + std::string(word.substr(1));
  return word.starts_with('/') ? std::string(word) : "";
}

/// The folders in envs_dirs of a .condarc, which is a list below the key or in brackets after it.
std::vector<std::string> envs_dirs(std::string_view settings, const std::string& home) {
  std::vector<std::string> folders;
  bool is_inside = false;
  for (const std::string_view line : split(settings, '\n')) {
    const bool is_item = trim(line).starts_with("- ");
    if (!line.empty() && line[0] != ' ' && line[0] != '#' && !is_item) {
      is_inside = line.starts_with("envs_dirs:") || line.starts_with("envs_path:");
      const auto open = line.find('['), close = line.rfind(']');
      if (!is_inside || open == std::string_view::npos || close == std::string_view::npos) continue;
      const std::string_view list = line.substr(open + 1, close - open - 1);
      for (const std::string_view word : split(list, ','))
        folders.push_back(listed_folder(word, home));
    } else if (is_inside && is_item) {
      folders.push_back(listed_folder(line, home));
    }
  }
  return folders;
}

/// The folders that contain environments: those that the user configured, and "envs" of each
/// installation.
std::vector<std::string> folders_of_environments(const Tree& tree,
                                                 const Fact<Environment>& environment) {
  const std::string home = variable(environment, "HOME");
  std::vector<std::string> folders;
  for (const char* name : {"CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"}) {
    const std::string list = variable(environment, name);
    for (const std::string_view one : split(list, ':')) folders.push_back(listed_folder(one, home));
  }
  const std::string own = variable(environment, "CONDARC");
  for (const std::string& file : {own, home + "/.condarc", home + "/.config/conda/.condarc",
                                  std::string("/etc/conda/.condarc")})
    if (file.starts_with('/'))
      for (const std::string& one : envs_dirs(tree.read(file).value_or(""), home))
        folders.push_back(one);
  for (const std::string& root : conda_roots(environment)) {
    for (const std::string& one : envs_dirs(tree.read(root + "/.condarc").value_or(""), home))
      folders.push_back(one);
    folders.push_back(root + "/envs");
  }
  if (!home.empty()) folders.push_back(home + "/.conda/envs");
  std::erase(folders, "");
  return folders;
}

}  // namespace

std::vector<std::string> conda_names(const Tree& tree, const Fact<Environment>& environment) {
  std::vector<std::string> names;
  for (const std::string& root : conda_roots(environment))
    if (tree.exists(root + "/conda-meta")) names.emplace_back("base");
  for (const std::string& folder : folders_of_environments(tree, environment))
    for (const std::string& name : tree.list(folder).value_or({})) names.push_back(name);
  return names;
}

std::string conda_python(const Tree& tree, const Fact<Environment>& environment,
                         const std::string& name) {
  std::vector<std::string> prefixes;
  if (name.find('/') != std::string::npos) prefixes.push_back(name);
  if (name == "base")
    for (const std::string& root : conda_roots(environment)) prefixes.push_back(root);
  for (const std::string& folder : folders_of_environments(tree, environment))
    prefixes.push_back(folder + "/" + name);
  const std::string home = variable(environment, "HOME");
  const std::string known = tree.read(home + "/.conda/environments.txt").value_or("");
  for (const std::string_view line : split(known, '\n'))
    if (trim(line).ends_with("/" + name)) prefixes.emplace_back(trim(line));
  for (const std::string& prefix : prefixes)
    if (tree.exists(prefix + "/conda-meta")) return prefix + "/bin/python";
  return "";
}

Fact<LostEnvironment> collect_lost_environment(const Tree& tree,
                                               const Fact<Environment>& environment,
                                               bool recorded) {
  return tree.watched([&]() -> Fact<LostEnvironment> {
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
      const std::string prefix = variable(environment, name);
      if (!prefix.starts_with('/')) continue;
      if (tree.node(prefix).is_absent()) return LostEnvironment{name, prefix, "", ""};
      const std::string program = prefix + "/bin/python";
      const auto link = tree.link(program);
      if (!recorded && link && tree.node(program).is_absent()) {
        // The chain of links is broken: "python" links to "python3", which links to where the
        // program was before.
        std::string at = program, next = *link;
        for (int step = 0; step < 8; ++step) {
          at = next.starts_with('/') ? next : parent(at) + "/" + next;
          const auto further = tree.link(at);
          if (!further) break;
          next = *further;
        }
        return LostEnvironment{name, prefix, program, at};
      }
      return {};
    }
    return {};
  });
}

std::string why_no_python(const Tree& tree, const std::string& path, bool recorded) {
  const auto node = tree.node(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  if (recorded)
    return node.is_absent() && !tree.exists(parent(parent(path)) + "/lib")
               ? text("it does not exist")
               : "";
  if (node.is_absent()) {
    const auto link = tree.link(path);
    return link ? text("it is a link to {}, which does not exist", printable(*link))
                : text("it does not exist");
  }
  if (!node) return "";
  if (node->type == NodeType::kFolder) return text("it is a folder");
  if (node->type != NodeType::kFile) return text("it is not a regular file");
  if ((node->mode & 0111) == 0) return text("it is not executable");
  const std::string real = tree.resolve(path).value_or(path);
  const std::string real_name = real.substr(real.rfind('/') + 1);
  for (const std::string& one : {name, real_name})
    if (one.starts_with("python") || one.starts_with("pypy")) return "";
  return text("its name is not that of a Python interpreter");
}

}  // namespace berth::doctor
