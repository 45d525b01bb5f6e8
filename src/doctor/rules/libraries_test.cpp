#include <doctest/doctest.h>

#include <unistd.h>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"

using namespace berth::doctor;

namespace libraries_test {
namespace {

Facts healthy() {
  Facts facts;
  facts.machine.modules = std::vector<std::string>{"nvidia", "nvidia_uvm"};
  const std::string folder = "/usr/lib/x86_64-linux-gnu/";
  facts.libraries.cuda =
      FoundLibrary{"libcuda.so.1", folder + "libcuda.so.1", folder + "libcuda.so.570.124.06",
                   "570.124.06", "/etc/ld.so.cache"};
  return facts;
}

std::string first(const Facts& facts) {
  const auto found = diagnose_with(library_rules(), facts, {}).findings;
  return found.empty() ? "" : found.front().id;
}

}  // namespace

TEST_CASE("a loaded driver misses its library, a machine without one does not") {
  Facts facts = healthy();
  CHECK(first(facts).empty());
  facts.libraries.cuda = {};
  CHECK(first(facts) == "LIB01");
  facts.machine.modules = std::vector<std::string>{"ext4"};
  CHECK(first(facts).empty());
  facts.machine.modules = Unreadable{"/proc/modules", EACCES};
  CHECK(first(facts).empty());
  CHECK(diagnose_with(library_rules(), facts, {}).not_checked.size() == 1);
}

TEST_CASE("a stub on the loader's path is told apart from the driver's library") {
  Facts facts = healthy();
  FoundLibrary stub = *facts.libraries.cuda;
  stub.resolved = "/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so";
  facts.libraries.cuda = stub;
  CHECK(first(facts) == "LIB02");
}

TEST_CASE(
    "a recorded machine without any program is searched as for one without folders of its own") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("berth-libraries-" + std::to_string(getpid()));
  fs::create_directories(root / "usr/local/cuda/lib64/stubs");
  fs::create_directories(root / "usr/lib64");
  fs::create_directories(root / "run/opengl-driver/lib");
  std::ofstream(root / "usr/lib64/libcuda.so.1");
  const Tree tree(root.string());
  const auto found = [&](const Environment& environment, const char* program) {
    const auto cuda = collect_libraries(tree, environment, program).cuda;
    return cuda ? cuda->path : std::string(cuda.is_absent() ? "absent" : "unreadable");
  };
  CHECK(found(Environment{}, "/venv/bin/python") == "/usr/lib64/libcuda.so.1");
  std::ofstream(root / "usr/local/cuda/lib64/stubs/libcuda.so.1");
  const Environment stubs{{"LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs"}};
  CHECK(found(stubs, "") == "/usr/local/cuda/lib64/stubs/libcuda.so.1");
  fs::remove(root / "usr/lib64/libcuda.so.1");
  std::ofstream(root / "run/opengl-driver/lib/libcuda.so.1");
  CHECK(found(Environment{}, "/home/ada/venv/bin/python") == "absent");
  CHECK(found(Environment{}, "/nix/store/x-python3/bin/python") ==
        "/run/opengl-driver/lib/libcuda.so.1");
  // In a virtual environment made with Nix's Python, programs do not search NixOS's library folder.
  fs::create_directories(root / "nix/store/x-python3/bin");
  fs::create_directories(root / "home/ada/venv/bin");
  std::ofstream(root / "nix/store/x-python3/bin/python");
  fs::create_symlink("/nix/store/x-python3/bin/python", root / "home/ada/venv/bin/python");
  CHECK(found(Environment{}, "/home/ada/venv/bin/python") == "absent");
  CHECK(found(Environment{{"LD_LIBRARY_PATH", "/run/opengl-driver/lib"}},
              "/home/ada/venv/bin/python") == "/run/opengl-driver/lib/libcuda.so.1");
  fs::remove_all(root);
}

TEST_CASE("Windows' library on WSL is missed as a loaded driver's is") {
  Facts facts = healthy();
  facts.machine.modules = std::vector<std::string>{};
  facts.libraries.cuda = {};
  facts.libraries.by_nix = true;
  CHECK(first(facts).empty());
  facts.wsl.driver_library = true;
  CHECK(first(facts) == "LIB01");
}

TEST_CASE("a box that shares the machine's /dev is told how it gets the machine's own libraries") {
  Facts facts = healthy();
  facts.container.kind = std::string("podman");
  facts.container.box = std::string("distrobox");
  facts.nodes.nvidia = std::vector<GpuNode>{{"/dev/nvidiactl", {}, 0}};
  facts.process.environment = Environment{};
  CHECK_MESSAGE(first(facts).empty(), "it has found libcuda, below /run/host or elsewhere");
  facts.libraries.cuda = {};
  facts.machine.in_container = true;
  const auto command = [&] {
    return diagnose_with(library_rules(), facts, {}).findings.front().fix.front().command;
  };
  CHECK(command().starts_with("distrobox create --nvidia"));
  facts.container.box = std::string("toolbox");
  CHECK(command().starts_with("toolbox create"));
  facts.container.box = {};
  CHECK(command().starts_with("sudo ldconfig"));
}

TEST_CASE("Enroot brings the driver where NVIDIA_VISIBLE_DEVICES asks for it") {
  const auto said = [](Environment environment) {
    Facts facts = healthy();
    facts.libraries.cuda = {};
    facts.container.kind = std::string("container");
    facts.machine.in_container = true;
    facts.nodes.nvidia = std::vector<GpuNode>{{"/dev/nvidiactl", {}, 0}};
    environment.emplace("container", "enroot");
    facts.process.environment = std::move(environment);
    const auto found = diagnose_with(library_rules(), facts, {}).findings;
    return found.empty() ? "" : found.front().title.substr(0, 6);
  };
  CHECK(said({}) == "Enroot");
  CHECK(said({{"NVIDIA_VISIBLE_DEVICES", "void"}}) == "Enroot");
  CHECK(said({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_GPUS", "0"}}) == "Enroot");
  CHECK_MESSAGE(said({{"SLURM_JOB_ID", "7"}, {"NVIDIA_VISIBLE_DEVICES", "void"}}).empty(),
                "a job without a GPU");
  CHECK_MESSAGE(said({{"NVIDIA_VISIBLE_DEVICES", "all"}}) == "the dr", "something else is wrong");
}

}  // namespace libraries_test
