#include "cli/setup_request.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/place.hpp"
#include "doctor/read/process.hpp"
#include "doctor/read/pyenv.hpp"

namespace berth::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExample = "berth setup torch";

Error wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, "E0840", std::move(message), kExample};
}

bool is_version(const std::string& word) {
  return doctor::version_of(word).size() > 1 && word.size() <= 20 &&
         word.find_first_not_of("0123456789.") == std::string::npos;
}

/// Parses the framework operands. "torch 2.7 jax" means two frameworks, because a version belongs
/// to the word before it.
Result<std::vector<AskedFramework>> read_frameworks(const std::vector<std::string>& words) {
  std::vector<AskedFramework> asked;
  for (const std::string& word : words) {
    if (const auto framework = doctor::framework_of(word)) {
      if (std::any_of(asked.begin(), asked.end(),
                      [&](const AskedFramework& one) { return one.framework == *framework; }))
        return wrong(text("{} is given twice", word));
      asked.push_back({*framework, ""});
      continue;
    }
    const bool begins_with_digit = word[0] >= '0' && word[0] <= '9';
    if (asked.empty() || (!begins_with_digit && !asked.back().version.empty()))
      return wrong(text("'{}' is not one of {}", printable(word), doctor::framework_words()));
    if (!is_version(word)) {
      if (begins_with_digit)
        return wrong(text("'{}' is not a version such as {}", printable(word), "2.7"));
      return wrong(text("'{}' is neither a version nor one of {}", printable(word),
                        doctor::framework_words()));
    }
    if (!asked.back().version.empty())
      return wrong(text("{} can have only one version", doctor::word_of(asked.back().framework)));
    asked.back().version = word;
  }
  return asked;
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  std::string folder = fs::absolute(path, ignored).lexically_normal().string();
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

/// Finds a program in PATH; "" if it is not found.
std::string in_path(const std::string& word) {
  if (word.find('/') != std::string::npos) return absolute(word);
  const doctor::Tree tree("/");
  const std::string path = doctor::variable(doctor::own_environment(), "PATH");
  for (const std::string_view folder : split(path, ':'))
    if (const std::string file = std::string(folder) + "/" + word;
        folder.starts_with('/') && tree.exists(file))
      return file;
  return "";
}

/// Finds a Python of this version in PATH; "" if there is none. pyenv's shim works only for the
/// selected version, so the result is the program that the shim would start.
std::string python_of_version(const std::string& version) {
  const doctor::Tree tree("/");
  const auto environment = doctor::own_environment();
  const std::string path = doctor::variable(environment, "PATH"), name = "/python" + version;
  for (const std::string_view folder : split(path, ':')) {
    const std::string file = std::string(folder) + name;
    if (!folder.starts_with('/') || !tree.exists(file)) continue;
    if (std::string real = doctor::behind_shim(tree, environment, file); !real.empty()) return real;
    if (const std::string other = doctor::version_behind_shim(tree, file); !other.empty())
      return fs::path(folder).parent_path().string() + "/versions/" + other + "/bin" + name;
  }
  return "";
}

/// Why `path` cannot be used as an interpreter; "" if it can be used.
std::string why_not_usable(const doctor::Tree& tree, const std::string& path) {
  if (doctor::behind_shim(tree, doctor::own_environment(), path).empty())
    return text("no Python version that pyenv selects here has this program");
  return doctor::why_no_python(tree, path, false);
}

Error not_installed(const char* option, const char* program, std::string hint) {
  return {ErrorCode::kInvalidArgument, "E0849",
          text("{} needs {}, which is not in PATH", option, program), std::move(hint)};
}

/// The first folder in which conda creates environments; "" if it is unknown.
std::string conda_folder(const std::string& program) {
  std::string answer;
  if (run_for_output({program, "info", "--json"}, answer) != 0) return "";
  const auto document = nlohmann::json::parse(answer, nullptr, false);
  if (!document.is_object()) return "";
  // conda and mamba print the first key, micromamba the second.
  for (const char* key : {"envs_dirs", "envs directories"})
    if (const auto found = document.find(key); found != document.end() && found->is_array())
      for (const auto& one : *found)
        if (one.is_string() && one.get<std::string>().starts_with('/'))
          return one.get<std::string>();
  return "";
}

Status use_conda(const Arguments& given, SetupRequest& request) {
  request.installer = Installer::kConda;
  const auto variables = doctor::own_environment();
  for (const char* name : {"CONDA_EXE", "MAMBA_EXE"})
    if (const std::string program = doctor::variable(variables, name);
        request.program.empty() && program.starts_with('/') && doctor::Tree("/").exists(program))
      request.program = program;
  for (const char* name : {"conda", "mamba", "micromamba"})
    if (request.program.empty()) request.program = in_path(name);
  if (request.program.empty())
    return not_installed("--conda", "conda",
                         command_with(given, request.frameworks, {"--conda"}) + " --venv DIR");
  const std::string name = *given.value("--conda");
  if (name.find('/') != std::string::npos) {
    request.folder = absolute(name);
    return Done{};
  }
  if (name.starts_with('.') || name.find_first_of(" :#") != std::string::npos)
    return wrong(text("'{}' is not the name of an environment", printable(name)));
  const std::string python = doctor::conda_python(doctor::Tree("/"), variables, name);
  const std::string folder = python.empty() ? conda_folder(request.program) : "";
  if (python.empty() && folder.empty())
    return Error{ErrorCode::kInvalidArgument, "E0849",
                 text("{} does not say where its environments are", request.program),
                 request.program + " info"};
  request.folder =
      python.empty() ? folder + "/" + name : fs::path(python).parent_path().parent_path().string();
  return Done{};
}

Status check_options(const Arguments& given) {
  for (const char* option : {"--venv", "--conda", "--python", "--index", "--torch-index"})
    if (const auto value = given.value(option)) {
      if (value->empty()) return wrong(text("{} is empty", option));
      if (value->starts_with("-"))
        return wrong(text("{} needs a value before {}", option, printable(*value)));
    }
  constexpr auto kPairs =
      std::to_array<std::pair<const char*, const char*>>({{"--cpu", "--gpu"},
                                                          {"--cpu", "--driver"},
                                                          {"--cpu", "--compute-capability"},
                                                          {"--venv", "--conda"},
                                                          {"--uv", "--conda"},
                                                          {"--check", "--upgrade"},
                                                          {"--check", "--format"},
                                                          {"--check", "--dry-run"},
                                                          {"--upgrade", "--format"}});
  for (const auto& [one, other] : kPairs)
    if (given.has(one) && given.has(other)) return contradiction(one, other);
  return Done{};
}

/// Reads --python, which takes a path, a name in PATH, or a version.
Status read_python(const Arguments& given, SetupRequest& request) {
  const auto word = given.value("--python");
  if (!word) return Done{};
  const bool makes_its_own = request.installer != Installer::kPip || request.format;
  if (is_version(*word)) {
    request.python_version = doctor::beginning(*word);
    if (makes_its_own) return Done{};
  }
  request.python = request.python_version.empty() ? in_path(*word) : python_of_version(*word);
  const doctor::Tree tree("/");
  std::string why = request.python.empty() ? text("there is no Python {} in PATH", printable(*word))
                                           : why_not_usable(tree, request.python);
  if (why.empty()) return Done{};
  if (!request.python.empty()) why = printable(request.python) + ": " + why;
  return Error{ErrorCode::kInvalidArgument, "E0846", std::move(why),
               command_with(given, request.frameworks, {"--python"}) + " --python python3"};
}

}  // namespace

Result<SetupRequest> read_setup_request(const Context& context) {
  const Arguments& given = context.arguments;
  if (auto fit = check_options(given); !fit) return fit.error();
  SetupRequest request;
  request.is_upgrade = given.has("--upgrade");
  request.is_check = given.has("--check");
  request.is_dry = given.has("--dry-run");
  request.format = given.value("--format");
  auto frameworks = read_frameworks(given.positional);
  if (!frameworks) return std::move(frameworks).error();
  request.frameworks = *std::move(frameworks);
  if (request.frameworks.empty() && !request.is_check)
    return wrong(text("which framework? {}", doctor::framework_words()));
  request.folder = absolute(given.value("--venv").value_or(".venv"));
  if (given.has("--conda"))
    if (auto fit = use_conda(given, request); !fit) return fit.error();
  if (given.has("--uv")) {
    request.installer = Installer::kUv;
    request.program = in_path("uv");
    if (request.program.empty()) return not_installed("--uv", "uv", "pip install uv");
  }
  if (auto fit = read_python(given, request); !fit) return fit.error();
  if (request.is_check && given.has("--python")) {
    request.folder = fs::path(request.python).parent_path().parent_path().string();
  } else if (request.is_check || request.is_upgrade) {
    request.python = request.folder + "/bin/python";
    if (const std::string why = doctor::why_no_python(doctor::Tree("/"), request.python, false);
        !why.empty())
      return Error{
          ErrorCode::kInvalidArgument, "E0848",
          text("{} is not a Python environment", printable(request.folder)) + "\n  " + why,
          command_with(given, request.frameworks, {"--check", "--upgrade", "--conda", "--venv"}) +
              " --venv DIR"};
  }
  return request;
}

Result<doctor::Facts> facts_for_setup(const Context& context, const SetupRequest& request) {
  doctor::Sources sources = doctor::this_machine(doctor::Depth::kLive);
  if (!request.python.empty()) sources.python = request.python;
  doctor::Facts facts = doctor::collect(sources);
  const bool makes_its_own = request.installer != Installer::kPip || request.format;
  if (!facts.python.interpreter && !makes_its_own)
    return Error{ErrorCode::kInvalidArgument, "E0846",
                 text("there is no Python to create the environment with"),
                 command_with(context.arguments, request.frameworks, {}) + " --python PATH"};
  if (!request.python_version.empty()) facts.python.version = request.python_version;
  // Use the installer that the user requested, even if the original Python is managed by another
  // one.
  facts.python.has_uv = request.installer == Installer::kUv;
  facts.python.is_externally_managed = false;
  if (const auto url = context.arguments.value("--index")) {
    facts.packages.pip = {};
    facts.packages.pip.main = doctor::index_address(*url, "--index");
    facts.packages.uv = facts.packages.pip;
  }
  return facts;
}

bool has_python(const std::string& version) {
  return !python_of_version(version).empty();
}

std::string command_with(const Arguments& given, const std::vector<AskedFramework>& frameworks,
                         std::initializer_list<std::string_view> without) {
  std::string command = "berth setup";
  for (const AskedFramework& one : frameworks) {
    command += std::string(" ") + doctor::word_of(one.framework);
    if (!one.version.empty()) command += " " + one.version;
  }
  if (frameworks.empty()) command += " torch";
  for (const std::string_view option :
       {"--check", "--upgrade", "--dry-run", "--uv", "--conda", "--venv", "--python", "--index",
        "--torch-index", "--format", "--driver", "--gpu", "--compute-capability", "--cpu"}) {
    if (std::find(without.begin(), without.end(), option) != without.end()) continue;
    for (const std::string& value : given.values(option)) {
      command += " " + std::string(option);
      if (value.empty()) continue;
      command +=
          " " + shell_word(printable(
                    option.ends_with("index") ? doctor::index_address(value, "").url : value));
    }
  }
  return command;
}

}  // namespace berth::cli
