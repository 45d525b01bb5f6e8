#include "doctor/read/command_python.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "doctor/read/command.hpp"
#include "doctor/tree/tree.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using Words = std::vector<std::string>;

namespace command_python_test {
namespace {

struct Machine {
  berth::system::TemporaryTree files;
  Environment environment{{"PATH", "/usr/bin"}, {"PYTHONPATH", "/mine"}};

  Machine() {
    for (const char* program : {"python3", "srun", "test", "bash", "berth", "mpirun"})
      add(std::string("/usr/bin/") + program,
          "\x7f"
          "ELF");
    for (const char* file : {"/usr/lib/python3.11/os.py", "/usr/lib/python3.11/timeit.py",
                             "/usr/lib/python3/dist-packages/torch/utils/bench.py",
                             "/work/train.py", "/work/run.sh", "/work/pack/__main__.py"})
      add(file, "import torch\n");
    std::filesystem::permissions(files.path + "/work/train.py", std::filesystem::perms(0644));
    add("/work/start.sh", "cd /elsewhere\npython3 nothing.py\n");
  }
  void add(const std::string& path, const std::string& bytes) {
    files.put(path.substr(1), bytes);
    std::filesystem::permissions(files.path + path, std::filesystem::perms(0755));
  }
  berth::Result<CommandTarget> resolve(const Words& words) {
    return resolve_command(Tree(files.path), environment, "/work", words);
  }
};

}  // namespace

TEST_CASE("Python's options are read letter by letter, and values belong to their letter") {
  const auto seen = [](Words words) {
    words.insert(words.begin(), "python3");
    return parse_python_words(words);
  };
  PythonWords words = seen({"-Wignore::UserWarning", "-X", "dev", "-u", "a.py", "-s"});
  CHECK_FALSE(words.no_user_packages);
  CHECK(words.script == "a.py");
  CHECK_FALSE(seen({"-Werror::ImportWarning", "a.py"}).ignores_environment);
  CHECK(seen({"-uE", "a.py"}).ignores_environment);
  CHECK(seen({"-I", "a.py"}).no_user_packages);
  CHECK(seen({"-sm", "torch.distributed.run", "--nproc-per-node", "2", "b.py"}).script == "b.py");
  CHECK(seen({"-mtimeit", "x.py"}).module == "timeit");
  CHECK(seen({"-mtimeit", "x.py"}).script.empty());
  CHECK(seen({"-c", "1", "x.py"}).script.empty());
  CHECK(seen({"-"}).script.empty());
  CHECK(seen({"--check-hash-based-pycs", "never", "x.py"}).script == "x.py");
}

TEST_CASE("a missing script or module is an error with a hint") {
  Machine machine;
  CHECK(machine.resolve({"python3", "train.py"}));
  CHECK(machine.resolve({"python3", "pack"}));
  CHECK(machine.resolve({"python3", "-m", "timeit"}));
  CHECK(machine.resolve({"python3", "-m", "torch.utils.bench"}));
  CHECK(machine.resolve({"python3", "-m", "pack"}));
  CHECK(machine.resolve({"python3", "trian.py"}).error().id == "E0822");
  // the folder has no __main__.py
  CHECK(machine.resolve({"python3", "/work"}).error().id == "E0822");
  CHECK(machine.resolve({"python3", "-m", "torch.utils.none"}).error().id == "E0822");
  CHECK(machine.resolve({"python3", "-m", "nosuch"}).error().hint ==
        "/usr/bin/python3 -m pip install nosuch");
  const auto error = machine.resolve({"./train.py"}).error();
  CHECK(error.id == "E0823");
  CHECK(error.hint == "berth doctor -- python ./train.py");
}

TEST_CASE("a module that a custom import finder may provide is not called missing") {
  Machine machine;
  machine.files.put("usr/lib/python3/dist-packages/__editable___mine_finder.py", "");
  CHECK(machine.resolve({"python3", "-m", "mine"}));
}

TEST_CASE("if folder or words are uncertain, a missing file is only a note") {
  Machine machine;
  const auto target = machine.resolve({"bash", "start.sh"});
  REQUIRE(target);
  CHECK(target->python == "/usr/bin/python3");
  REQUIRE(target->notes.size() == 1);
  CHECK(target->notes[0] == "there is no file nothing.py for /usr/bin/python3");
}

TEST_CASE("an option's value is neither a command nor a script") {
  Machine machine;
  for (const Words& words : std::initializer_list<Words>{
           {"srun", "-p", "test", "python3", "train.py"},
           {"srun", "--partition", "test", "-n", "1", "python3", "train.py"},
           {"mpirun", "-x", "test", "-np", "2", "python3", "train.py"},
           {"berth", "run", "--name", "test", "python3", "train.py"}}) {
    const auto target = machine.resolve(words);
    REQUIRE(target);
    CHECK(target->program == "/usr/bin/python3");
    CHECK(target->files == Words{"/work/train.py"});
  }
  machine.add("/work/run.sh", "python3 train.py\n");
  for (const Words& words :
       std::initializer_list<Words>{{"bash", "-o", "pipefail", "run.sh"},
                                    {"bash", "-euo", "pipefail", "run.sh"},
                                    {"bash", "+o", "posix", "run.sh"},
                                    {"bash", "--rcfile", "x", "run.sh"},
                                    {"bash", "-eo", "pipefail", "-c", "python3 train.py"}}) {
    const auto target = machine.resolve(words);
    REQUIRE(target);
    CHECK(target->python == "/usr/bin/python3");
  }
}

}  // namespace command_python_test
