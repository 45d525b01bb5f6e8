#include "doctor/read/command.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "doctor/read/command_words.hpp"
#include "doctor/tree/tree.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using Words = std::vector<std::string>;

namespace command_test {
namespace {

/// A small machine with several Pythons, tools and a project.
struct Machine {
  berth::system::TemporaryTree files;
  Environment environment{{"PATH", "/usr/bin:/bin"}, {"HOME", "/home/ada"}, {"KEPT", "1"}};

  Machine() {
    for (const char* program :
         {"env", "timeout", "nice", "uv", "poetry", "conda", "srun", "numactl", "mpirun"})
      add(std::string("/usr/bin/") + program,
          "\x7f"
          "ELF");
    for (const char* program : {"/usr/bin/python3", "/usr/bin/python", "/venv/bin/python",
                                "/bin/bash", "/opt/conda/envs/train/bin/python", "/work/a.out",
                                "/work/.venv/bin/python", "/outside/.venv/bin/python"})
      add(program,
          "\x7f"
          "ELF");
    add("/venv/bin/torchrun", "#!/venv/bin/python\nimport sys\n");
    add("/usr/bin/tool", "#!/usr/bin/env -S python3 -u\n");
    add("/opt/conda/envs/train/conda-meta/history", "");
    add("/work/pyproject.toml", "[project]\nname = \"x\"\n");
    add("/work/.venv/pyvenv.cfg", "home = /usr/bin\n");
    add("/work/train.py", "import torch\n");
    add("/work/job.sh",
        "#!/bin/bash\nmodule load cuda/12\nexport CUDA_VISIBLE_DEVICES=1 NAME=x\n"
        "source /venv/bin/activate\nif true; then\n  OMP_NUM_THREADS=4 python \"$1\" --lr 1\nfi\n");
  }

  void add(const std::string& path, const std::string& bytes) {
    files.put(path.substr(1), bytes);
    std::filesystem::permissions(files.path + path, std::filesystem::perms(0755));
  }

  berth::Result<CommandTarget> resolve(const Words& words, const std::string& folder = "/work") {
    return resolve_command(Tree(files.path), environment, folder, words);
  }
};

}  // namespace

TEST_CASE("a Python is found, with the script that it reads") {
  Machine machine;
  const auto target = machine.resolve({"python3", "-u", "-W", "ignore", "train.py", "--lr", "1"});
  REQUIRE(target);
  CHECK(target->python == "/usr/bin/python3");
  CHECK(target->files == Words{"/work/train.py"});
  CHECK(machine.resolve({"python3", "-c", "train.py"})->files.empty());
}

TEST_CASE("wrappers before a program are followed") {
  Machine machine;
  const auto target =
      machine.resolve({"env", "-u", "KEPT", "CUDA_VISIBLE_DEVICES=2", "timeout", "-k", "5", "1h",
                       "nice", "-n", "5", "/venv/bin/python", "train.py"});
  REQUIRE(target);
  CHECK(target->python == "/venv/bin/python");
  CHECK(target->environment.at("CUDA_VISIBLE_DEVICES") == "2");
  CHECK_FALSE(target->environment.contains("KEPT"));
  CHECK(machine.resolve({"A=1", "python3", "train.py"})->environment.at("A") == "1");
  CHECK(machine.resolve({"env", "-i", "/usr/bin/python3"})->environment.empty());
  CHECK(machine.resolve({"srun", "-n", "4", "--gres=gpu:1", "python3", "train.py"})->python ==
        "/usr/bin/python3");
}

TEST_CASE("variables that a launcher's options set reach the program") {
  Machine machine;
  for (const char* launcher : {"mpiexec", "systemd-run", "sudo", "strace"})
    machine.add(std::string("/usr/bin/") + launcher,
                "\x7f"
                "ELF");
  const auto visible = [&](Words words) {
    for (const char* word : {"python3", "train.py", "--export=CUDA_VISIBLE_DEVICES=9"})
      words.emplace_back(word);
    const auto target = machine.resolve(words);
    REQUIRE(target);
    CHECK(target->python == "/usr/bin/python3");
    CHECK(target->environment.contains("KEPT"));
    return target->environment.at("CUDA_VISIBLE_DEVICES");
  };
  machine.environment["CUDA_VISIBLE_DEVICES"] = "0";
  CHECK(visible({"srun"}) == "0");
  CHECK(visible({"srun", "--export=ALL,CUDA_VISIBLE_DEVICES=2"}) == "2");
  CHECK(visible({"srun", "-n", "2", "--export", "ALL,A=1,CUDA_VISIBLE_DEVICES=3"}) == "3");
  CHECK(visible({"mpirun", "-np", "2", "-x", "LD_LIBRARY_PATH", "-x", "CUDA_VISIBLE_DEVICES=1"}) ==
        "1");
  CHECK(visible({"mpiexec", "-genv", "CUDA_VISIBLE_DEVICES", "4", "-n", "2"}) == "4");
  CHECK(visible({"mpiexec", "-env", "CUDA_VISIBLE_DEVICES=5"}) == "5");
  CHECK(visible({"sudo", "-E", "CUDA_VISIBLE_DEVICES=6"}) == "6");
  CHECK(visible({"systemd-run", "--user", "--setenv=CUDA_VISIBLE_DEVICES=7"}) == "7");
  CHECK(visible({"strace", "-f", "-E", "CUDA_VISIBLE_DEVICES=8"}) == "8");
  machine.environment["SLURM_JOB_ID"] = "1";
  const auto bare = machine.resolve({"srun", "--export=NONE", "python3", "train.py"});
  REQUIRE(bare);
  CHECK(bare->environment == Environment{{"SLURM_JOB_ID", "1"}});
  CHECK(bare->python == "/usr/bin/python3");
}

TEST_CASE("uv uses another environment if requested, and the output says so") {
  Machine machine;
  machine.add("/work/own.py", "# /// script\n# dependencies = [\"torch\"]\n# ///\n");
  const auto notes = [&](const Words& words) {
    const auto target = machine.resolve(words);
    REQUIRE(target);
    return target->notes;
  };
  CHECK(notes({"uv", "run", "train.py"}).empty());
  for (const Words& words :
       {Words{"uv", "run", "--python", "3.13", "train.py"},
        Words{"uv", "run", "-p", "3.13", "train.py"}, Words{"uv", "run", "--isolated", "train.py"},
        Words{"uv", "run", "own.py"}})
    CHECK(notes(words).size() == 1);
  machine.environment["VIRTUAL_ENV"] = "/venv";
  CHECK(machine.resolve({"uv", "run", "--no-project", "train.py"})->python == "/venv/bin/python");
  CHECK(machine.resolve({"uv", "run", "train.py"})->python == "/work/.venv/bin/python");
}

TEST_CASE("a command of pyenv resolves to the selected version") {
  Machine machine;
  machine.add("/p/shims/python3.12", "#!/usr/bin/env bash\n");
  machine.add("/p/shims/python3", "#!/usr/bin/env bash\n");
  machine.add("/p/versions/3.12.1/bin/python3.12", "ELF");
  machine.add("/p/versions/3.11.7/bin/python3", "ELF");
  machine.add("/p/version", "3.11.7\n");
  machine.environment["PATH"] = "/p/shims:/usr/bin:/bin";
  CHECK(machine.resolve({"python3", "train.py"})->python == "/p/versions/3.11.7/bin/python3");
  const auto none = machine.resolve({"python3.12", "train.py"});
  REQUIRE(!none);
  CHECK(none.error().id == "E0823");
  CHECK(none.error().hint == "export PYENV_VERSION=3.12.1");
  machine.files.put("work/.python-version", "3.12.1\n");
  CHECK(machine.resolve({"python3.12", "train.py"})->python == "/p/versions/3.12.1/bin/python3.12");
  CHECK(machine.resolve({"/work"}).error().message.find("directory") != std::string::npos);
}

TEST_CASE("a script's first line names its interpreter") {
  Machine machine;
  CHECK(machine.resolve({"tool"})->python == "/usr/bin/python3");
  const auto target =
      machine.resolve({"/venv/bin/torchrun", "--nproc-per-node", "2", "train.py", "--epochs", "3"});
  REQUIRE(target);
  CHECK(target->python == "/venv/bin/python");
  CHECK(target->files == Words{"/work/train.py"});
  CHECK(machine.resolve({"python3", "-m", "torch.distributed.run", "train.py"})->files ==
        Words{"/work/train.py"});
}

TEST_CASE("the environments of tools that choose one are found") {
  Machine machine;
  auto target = machine.resolve({"conda", "run", "-n", "train", "python", "train.py"});
  REQUIRE(target);
  CHECK(target->python == "/opt/conda/envs/train/bin/python");
  CHECK(target->environment.at("CONDA_PREFIX") == "/opt/conda/envs/train");
  CHECK(machine.resolve({"conda", "run", "-n", "none", "python"}).error().id == "E0809");
  target = machine.resolve({"uv", "run", "--with", "rich", "train.py"});
  REQUIRE(target);
  CHECK(target->python == "/work/.venv/bin/python");
  CHECK(target->files == Words{"/work/train.py"});
  CHECK(target->notes.size() == 1);
  CHECK(machine.resolve({"poetry", "run", "python"})->python == "/work/.venv/bin/python");
}

TEST_CASE("a shell script is read for the command that starts a Python") {
  Machine machine;
  const auto target = machine.resolve({"bash", "job.sh", "train.py"});
  REQUIRE(target);
  CHECK(target->python == "/venv/bin/python");
  CHECK(target->environment.at("CUDA_VISIBLE_DEVICES") == "1");
  CHECK(target->environment.at("OMP_NUM_THREADS") == "4");
  CHECK(target->files == Words{"/work/job.sh", "/work/train.py"});
  CHECK(target->notes.size() == 1);  // about "module load", which was not followed
  CHECK(machine.resolve({"bash", "-c", "cd /; python3 -c 1"})->python == "/usr/bin/python3");
  CHECK(machine.resolve({"bash", "-c", "echo hello"})->python.empty());
}

TEST_CASE("a value that is known only at run time is not treated as empty") {
  Machine machine;
  const auto of = [&](const char* script) {
    const auto target = machine.resolve({"bash", "-c", script});
    REQUIRE(target);
    const auto found = target->environment.find("CUDA_VISIBLE_DEVICES");
    return found == target->environment.end() ? "not set" : found->second;
  };
  CHECK(of("for i in 2 3; do CUDA_VISIBLE_DEVICES=$i python3 -c 1 & done; wait") == "2");
  CHECK(of("for i in $(seq 4); do CUDA_VISIBLE_DEVICES=$i python3 -c 1; done") == "not set");
  CHECK(of("read gpu; export CUDA_VISIBLE_DEVICES=$gpu; python3 -c 1") == "not set");
  CHECK(of("G=$(pick); CUDA_VISIBLE_DEVICES=$G python3 -c 1") == "not set");
  // As in a shell, an unset variable expands to "".
  CHECK(of("CUDA_VISIBLE_DEVICES=$NOWHERE python3 -c 1").empty());
}

TEST_CASE("any other program runs by itself, and a missing one is an error") {
  Machine machine;
  CHECK(machine.resolve({"./a.out"})->program == "/work/a.out");
  CHECK(machine.resolve({"./a.out"})->python.empty());
  CHECK(machine.resolve({"nonsense"}).error().id == "E0823");
  CHECK(machine.resolve({"train.py"}).error().hint == "berth doctor -- python train.py");
  CHECK(machine.resolve({"env"}).error().id == "E0516");
  CHECK(machine.resolve({}).error().id == "E0516");
}

TEST_CASE("wrappers around wrappers, and scripts that call themselves, come to an end") {
  Machine machine;
  Words deep(100, "nice");
  deep.emplace_back("python3");
  CHECK(machine.resolve(deep));
  machine.add("/work/self", "#!/work/self\n");
  CHECK(machine.resolve({"./self"}));
  machine.add("/work/loop.sh", "bash loop.sh\n");
  CHECK(machine.resolve({"bash", "loop.sh"}));
}

TEST_CASE("known variables are expanded, and unknown ones are omitted") {
  const auto known = [](std::string_view name) {
    return name == "HOME" ? std::string("/home/ada") : std::string();
  };
  CHECK(expanded_word("$HOME/x", {}, known) == "/home/ada/x");
  CHECK(expanded_word("${N:-3}$1", {"a.sh", "b"}, known) == "3b");
  CHECK(expanded_word("$(pwd)", {}, known) == std::nullopt);
  CHECK(expanded_word("${a", {}, known) == std::nullopt);
  CHECK(assigned_name("A_1=x") == "A_1");
  CHECK(assigned_name("1A=x").empty());
  CHECK(assigned_name("--a=x").empty());
}

}  // namespace command_test
