#include "doctor/read/command_environments.hpp"

#include <vector>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

std::string variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "" : path.substr(0, slash);
}

/// The nearest folder that contains `name`: `folder` or one of its parents; empty if there is none.
std::string folder_with(const Tree& tree, std::string folder, const std::string& name) {
  for (int up = 0; up < 64 && !folder.empty(); ++up, folder = parent(folder))
    if (tree.exists(folder + "/" + name)) return folder;
  return "";
}

/// The value of name = "…" in [project] or [tool.poetry]. The section that comes first counts.
std::string project_name(std::string_view toml) {
  for (const std::string_view line : split(toml, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || trim(line.substr(0, equals)) != "name") continue;
    const std::string_view value = trim(line.substr(equals + 1));
    if (value.size() > 2 && (value[0] == '"' || value[0] == '\''))
      return std::string(value.substr(1, value.find(value[0], 1) - 1));
  }
  return "";
}

/// The environment in `store` whose name is the project's name and a hash. "" if there is no such
/// environment, or several.
std::string in_store(const Tree& tree, const std::string& store, std::string name) {
  if (name.empty()) return "";
  std::string found;
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const std::string& one : tree.list(store).value_or({})) {
    std::string low = one;
    for (char& c : low)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!low.starts_with(name + "-") || !tree.exists(store + "/" + one + "/pyvenv.cfg")) continue;
    if (!found.empty()) return "";
    found = store + "/" + one;
  }
  return found;
}

std::string of_poetry(const Tree& tree, const Environment& environment,
                      const std::string& project) {
  std::string store = variable(environment, "POETRY_VIRTUALENVS_PATH");
  if (store.empty()) {
    std::string cache = variable(environment, "POETRY_CACHE_DIR");
    if (cache.empty()) cache = variable(environment, "HOME") + "/.cache/pypoetry";
    store = cache + "/virtualenvs";
  }
  const auto toml = tree.read(project + "/pyproject.toml", 1 << 18);
  return in_store(tree, store, project_name(toml.value_or("")));
}

std::string of_pipenv(const Tree& tree, const Environment& environment,
                      const std::string& project) {
  std::string store = variable(environment, "WORKON_HOME");
  if (store.empty()) store = variable(environment, "HOME") + "/.local/share/virtualenvs";
  return in_store(tree, store, project.substr(project.rfind('/') + 1));
}

ProjectEnvironment of_pixi(const Tree& tree, const std::string& folder) {
  const std::string project = folder_with(tree, folder, ".pixi");
  const std::string prefix = project + "/.pixi/envs/default";
  return {!project.empty() && tree.exists(prefix) ? prefix : "", true};
}

}  // namespace

ProjectEnvironment project_environment(const Tree& tree, const Environment& environment,
                                       const std::string& folder, const std::string& tool) {
  if (tool == "pixi") return of_pixi(tree, folder);
  if (tool == "uv --no-project") {
    const std::string active = variable(environment, "VIRTUAL_ENV");
    const std::string up = active.empty() ? folder_with(tree, folder, ".venv") : "";
    return {up.empty() ? active : up + "/.venv", false};
  }
  const std::string project =
      folder_with(tree, folder, tool == "pipenv" ? "Pipfile" : "pyproject.toml");
  std::string own = tool == "uv" ? variable(environment, "UV_PROJECT_ENVIRONMENT") : "";
  if (!own.empty() && !own.starts_with('/')) own = project + "/" + own;
  if (own.empty() && !project.empty()) own = project + "/.venv";
  if (!own.empty() && tree.exists(own + "/pyvenv.cfg")) return {own, false};
  if (tool == "pdm" && !project.empty()) {
    const auto python = tree.line(project + "/.pdm-python");
    if (python && python->find("/bin/") != std::string::npos)
      return {python->substr(0, python->rfind("/bin/")), false};
  }
  // In a project, only uv ignores the active environment. Outside a project, all tools use the
  // active one. Without an active one, uv uses the .venv in a parent folder.
  const std::string active = variable(environment, "VIRTUAL_ENV");
  const bool takes_active = tool != "uv" || project.empty();
  if (takes_active && !active.empty()) return {active, false};
  if (tool == "uv" && project.empty())
    if (const std::string up = folder_with(tree, folder, ".venv"); !up.empty())
      return {up + "/.venv", false};
  if (project.empty()) return {};
  if (tool == "poetry") return {of_poetry(tree, environment, project), false};
  if (tool == "pipenv") return {of_pipenv(tree, environment, project), false};
  return {};
}

}  // namespace berth::doctor
