#include <doctest/doctest.h>

#include <filesystem>

#include "doctor/facts/python.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/pyenv.hpp"
#include "doctor/rules/diagnose.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace python_choice_test {
namespace {

struct Machine {
  berth::system::TemporaryTree files;

  void program(const std::string& path, unsigned mode = 0755) {
    files.put(path.substr(1), "ELF");
    std::filesystem::permissions(files.path + path, std::filesystem::perms(mode));
  }
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(std::filesystem::path(files.path + path).parent_path());
    std::filesystem::create_symlink(target, files.path + path);
  }
};

}  // namespace

TEST_CASE("a program that is not a Python is recognised") {
  Machine machine;
  machine.program("/usr/bin/python3.11");
  machine.program("/usr/bin/ls");
  machine.program("/etc/passwd", 0644);
  machine.link("/venv/bin/python", "/usr/bin/python3.9");
  machine.link("/own/bin/interpreter", "/usr/bin/python3.11");
  const Tree tree(machine.files.path);
  const auto why = [&](const char* path) { return why_no_python(tree, path, false); };
  CHECK(why("/usr/bin/python3.11").empty());
  CHECK(why("/own/bin/interpreter").empty());
  CHECK(why("/usr/bin/ls") == "its name is not that of a Python interpreter");
  CHECK(why("/etc/passwd") == "it is not executable");
  CHECK(why("/usr/bin") == "it is a folder");
  CHECK(why("/none") == "it does not exist");
  CHECK(why("/venv/bin/python") == "it is a link to /usr/bin/python3.9, which does not exist");
  // A recorded environment may have packages without its interpreter; this is no error.
  machine.files.put("recorded/lib/x", "");
  CHECK(why_no_python(tree, "/recorded/bin/python", true).empty());
  CHECK_FALSE(why_no_python(tree, "/none/bin/python", true).empty());
}

TEST_CASE("a conda environment is found in the user's environment folders") {
  Machine machine;
  for (const char* prefix : {"data/envs/one", "big/two", "lab/three", "list/four",
                             "home/ada/miniconda3/envs/five", "home/ada/own/six"})
    machine.files.put(std::string(prefix) + "/conda-meta/history", "");
  machine.files.put(
      "home/ada/.condarc",
      "channels:\n  - /none\nenvs_dirs:\n  - \"/big\"  # mine\n- ~/own\npkgs_dirs: []\n");
  machine.files.put("etc/conda/.condarc", "envs_dirs: [/lab, /list]\n");
  const Tree tree(machine.files.path);
  const Fact<Environment> environment =
      Environment{{"HOME", "/home/ada"}, {"CONDA_ENVS_PATH", "/none:/data/envs"}};
  const auto found = [&](const char* name) { return conda_python(tree, environment, name); };
  CHECK(found("one") == "/data/envs/one/bin/python");
  CHECK(found("two") == "/big/two/bin/python");
  CHECK(found("three") == "/lab/three/bin/python");
  CHECK(found("four") == "/list/four/bin/python");
  CHECK(found("five") == "/home/ada/miniconda3/envs/five/bin/python");
  CHECK(found("six") == "/home/ada/own/six/bin/python");
  CHECK(found("none").empty());
  CHECK(conda_names(tree, environment).size() == 6);
}

TEST_CASE("pyenv's shim resolves to the version selected for its folder") {
  Machine machine;
  for (const char* program : {"python", "python3", "python3.11"})
    machine.program(std::string("/p/versions/3.11.7/bin/") + program);
  for (const char* program : {"python", "python3", "python3.12"})
    machine.program(std::string("/p/versions/3.12.10/bin/") + program);
  machine.program("/p/versions/3.12.9/bin/python3.12");
  for (const char* program : {"python3", "python3.11", "python3.12", "python3.6"})
    machine.program(std::string("/p/shims/") + program);
  machine.program("/usr/bin/python3");
  machine.files.put("p/version", "3.11.7\n");
  machine.files.put("work/.python-version", "# ours\n3.12\n");
  machine.files.put("work/deep/x", "");
  const Tree tree(machine.files.path);
  const auto real = [&](const char* shim, Environment variables) {
    return behind_shim(tree, Fact<Environment>(std::move(variables)),
                       std::string("/p/shims/") + shim);
  };
  CHECK(real("python3", {}) == "/p/versions/3.11.7/bin/python3");
  CHECK(real("python3", {{"PWD", "/work/deep"}}) == "/p/versions/3.12.10/bin/python3");
  CHECK(real("python3", {{"PYENV_VERSION", "3.11.7"}, {"PWD", "/work"}}) ==
        "/p/versions/3.11.7/bin/python3");
  CHECK(real("python3.11", {{"PYENV_VERSION", "3.12.10:3.11.7"}}) ==
        "/p/versions/3.11.7/bin/python3.11");
  CHECK(real("python3", {{"PYENV_VERSION", "system"}, {"PATH", "/p/shims:/usr/bin"}}) ==
        "/usr/bin/python3");
  CHECK(real("python3.12", {}).empty());
  CHECK(version_behind_shim(tree, "/p/shims/python3.12") == "3.12.10");
  CHECK(version_behind_shim(tree, "/p/shims/python3.6").empty());
  CHECK(behind_shim(tree, Environment{}, "/usr/bin/python3") == "/usr/bin/python3");
}

TEST_CASE("a missing active environment is a finding, an existing one is not") {
  Machine machine;
  machine.program("/usr/bin/python3.11");
  machine.link("/venv/bin/python", "python3");
  machine.link("/venv/bin/python3", "/usr/bin/python3.9");
  machine.link("/well/bin/python", "/usr/bin/python3.11");
  const Tree tree(machine.files.path);
  const auto found = [&](const char* name, const char* value) {
    const Fact<Environment> environment = Environment{{name, value}};
    Facts facts;
    facts.process.environment = environment;
    facts.python.lost_environment = collect_lost_environment(tree, environment, false);
    const auto findings = diagnose(facts, Knowledge{}, {"ENV23"}).findings;
    return findings.empty() ? "" : findings[0].title;
  };
  CHECK(found("VIRTUAL_ENV", "/well").empty());
  CHECK(found("PATH", "/none").empty());
  CHECK(found("VIRTUAL_ENV", "/none") == "VIRTUAL_ENV names a missing environment: /none");
  CHECK(found("CONDA_PREFIX", "/none").starts_with("CONDA_PREFIX"));
  CHECK(found("VIRTUAL_ENV", "/venv") ==
        "the Python of /venv is missing: /usr/bin/python3.9 does not exist");
}

TEST_CASE("no fix for a lost environment deletes a folder's contents") {
  Machine machine;
  machine.link("/venv/bin/python", "/usr/bin/python3.9");
  const Tree tree(machine.files.path);
  const auto commands = [&](const char* value) {
    const Fact<Environment> environment = Environment{{"VIRTUAL_ENV", value}};
    Facts facts;
    facts.process.environment = environment;
    facts.python.lost_environment = collect_lost_environment(tree, environment, false);
    const auto findings = diagnose(facts, Knowledge{}, {"ENV23"}).findings;
    std::string all;
    for (const auto& step : findings.at(0).fix) all += step.command + "; ";
    return all;
  };
  CHECK(commands("/venv") == "unset VIRTUAL_ENV; python3 -m venv /venv-new; ");
  CHECK(commands("/none") == "unset VIRTUAL_ENV; python3 -m venv /none; ");
}

TEST_CASE("a Python's release is found from the files beside it") {
  Machine machine;
  machine.program("/usr/bin/python3.11");
  machine.files.put("usr/lib/python3.11/os.py", "");
  const Tree tree(machine.files.path);
  CHECK(collect_python(tree, Environment{}, "/usr/bin/python3.11").release == "3.11");
  machine.files.put("usr/include/python3.11/patchlevel.h", "#define PY_VERSION \"3.11.2\"\n");
  CHECK(collect_python(tree, Environment{}, "/usr/bin/python3.11").release == "3.11.2");
  machine.files.put("venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.4\n");
  machine.link("/venv/bin/python", "/usr/bin/python3.11");
  CHECK(collect_python(tree, Environment{}, "/venv/bin/python").release == "3.11.4");
}

}  // namespace python_choice_test
