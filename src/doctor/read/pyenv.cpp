#include "doctor/read/pyenv.hpp"

#include <algorithm>
#include <vector>

#include "base/text_parts.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/place.hpp"

namespace berth::doctor {
namespace {

using Names = std::vector<std::string>;

/// The version names in a version file; "#" starts a comment.
Names versions_in(std::string_view text) {
  Names names;
  for (const std::string_view line : split(text, '\n')) {
    std::string words(line.substr(0, line.find('#')));
    std::replace_if(
        words.begin(), words.end(), [](char c) { return c == '\t' || c == '\r' || c == ':'; }, ' ');
    for (const std::string_view word : split(words, ' '))
      if (!word.empty() && word.find('/') == std::string_view::npos) names.emplace_back(word);
  }
  return names;
}

Names chosen_versions(const Tree& tree, const Fact<Environment>& environment,
                      const std::string& root) {
  if (const std::string own = variable(environment, "PYENV_VERSION"); !own.empty())
    return versions_in(own);
  std::string folder = variable(environment, "PYENV_DIR");
  if (folder.empty()) folder = variable(environment, "PWD");
  for (int up = 0; up < 64 && folder.starts_with('/'); ++up, folder = parent(folder)) {
    const std::string file = (folder == "/" ? "" : folder) + "/.python-version";
    if (Names names = versions_in(tree.read(file, 4096).value_or("")); !names.empty()) return names;
    if (folder == "/") break;
  }
  return versions_in(tree.read(root + "/version", 4096).value_or(""));
}

/// The newest installed version that `name` abbreviates: "3.12.1" for "3.12" or "python-3.12";
/// empty if there is none.
std::string installed(const Tree& tree, const std::string& root, std::string name) {
  if (tree.exists(root + "/versions/" + name)) return name;
  if (name.starts_with("python-")) return installed(tree, root, name.substr(7));
  std::string best;
  for (const std::string& one : tree.list(root + "/versions").value_or({}))
    if (one.starts_with(name + ".") && (best.empty() || compare_versions(best, one) < 0))
      best = one;
  return best;
}

}  // namespace

std::string behind_shim(const Tree& tree, const Fact<Environment>& environment,
                        const std::string& path) {
  const std::string folder = parent(path);
  if (!folder.ends_with("/shims")) return path;
  const std::string root = parent(folder), program = path.substr(path.rfind('/') + 1);
  if (!tree.exists(root + "/versions")) return path;
  Names chosen = chosen_versions(tree, environment, root);
  if (chosen.empty()) chosen.emplace_back("system");
  for (const std::string& name : chosen) {
    if (name == "system") {
      const std::string search = variable(environment, "PATH");
      for (const std::string_view other : split(search, ':'))
        if (std::string file = std::string(other) + "/" + program;
            other.starts_with('/') && other != folder && tree.exists(file))
          return file;
      continue;
    }
    const std::string prefix = root + "/versions/" + installed(tree, root, name);
    if (prefix.ends_with('/')) continue;
    // A recorded machine may have packages but no interpreter, so a missing bin folder does not
    // matter.
    if (tree.exists(prefix + "/bin/" + program) || tree.node(prefix + "/bin").is_absent())
      return prefix + "/bin/" + program;
  }
  return "";
}

std::string version_behind_shim(const Tree& tree, const std::string& shim) {
  const std::string versions = parent(parent(shim)) + "/versions/";
  const std::string program = "/bin/" + shim.substr(shim.rfind('/') + 1);
  std::string best;
  for (const std::string& one : tree.list(versions).value_or({}))
    if (tree.exists(versions + one + program) && (best.empty() || compare_versions(best, one) < 0))
      best = one;
  return best;
}

}  // namespace berth::doctor
