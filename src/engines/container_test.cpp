#include "engines/container.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engines/machines_for_tests.hpp"

namespace berth::engines {
namespace {

using Words = std::vector<std::string>;

ContainerWish wish_for(ContainerEngine engine) {
  ContainerWish wish;
  wish.engine = engine;
  wish.program = std::string("/usr/bin/") + name(engine);
  wish.image = "image:1";
  return wish;
}

model::Environment environment_of_two() {
  model::Environment environment;
  environment.settings = {
      {model::Setting::Action::kSet, "CUDA_VISIBLE_DEVICES", "0,1", ""},
      {model::Setting::Action::kSet, "OMP_NUM_THREADS", "4", ""},
  };
  environment.cpus = "0-3";
  return environment;
}

struct Job {
  model::Environment environment = environment_of_two();
  model::Placement placement;
  model::Snapshot snapshot;

  Job() {
    for (int index = 0; index < 2; ++index) {
      model::Device device;
      device.index = index;
      device.vendor = model::Vendor::kNvidia;
      snapshot.devices.push_back(device);
      placement.devices.push_back(index);
    }
  }

  [[nodiscard]] Result<ContainerCommand> made(const ContainerWish& wish,
                                              const ContainerPlace& place) const {
    return container_command(wish, place, {"python", "x.py"}, environment, placement, snapshot);
  }
  [[nodiscard]] Words words(const ContainerWish& wish, const ContainerPlace& place) const {
    return made(wish, place).value().words;
  }
};

/// Whether `words` contains all of `row` as consecutive elements.
bool has(const Words& words, const Words& row) {
  return std::search(words.begin(), words.end(), row.begin(), row.end()) != words.end();
}

ContainerPlace place_in(const std::string& folder) {
  ContainerPlace place;
  place.name = "berth-7";
  place.folder = folder;
  return place;
}

TEST_CASE("podman gets the GPUs by CDI, the working folder, and the command at the end") {
  const Words words = Job().words(wish_for(ContainerEngine::kPodman), place_in("/home/ann"));
  CHECK(has(words, {"--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"}));
  CHECK(has(words, {"--workdir", "/home/ann", "--volume", "/home/ann:/home/ann"}));
  CHECK(has(words, {"-e", "OMP_NUM_THREADS=4"}));
  CHECK(has(words, {"image:1", "python", "x.py"}));
  CHECK(words.back() == "x.py");
  CHECK_FALSE(has(words, {"--cpuset-cpus"}));
}

TEST_CASE("docker gets the GPUs by --gpus, the cores, and the caller's user") {
  ContainerPlace place = place_in("/home/ann");
  place.user = "1000:1000";
  place.id_file = "/run/id";
  const Words words = Job().words(wish_for(ContainerEngine::kDocker), place);
  CHECK(has(words, {"--gpus", "\"device=0,1\""}));
  CHECK(has(words, {"--cpuset-cpus", "0-3"}));
  CHECK(has(words, {"--user", "1000:1000"}));
  CHECK(has(words, {"--cidfile", "/run/id"}));
}

TEST_CASE("a container that may be started again replaces the one before it") {
  ContainerPlace place = place_in("/home/ann");
  place.repeats = true;
  place.id_file = "/run/id";
  CHECK(has(Job().words(wish_for(ContainerEngine::kPodman), place),
            {"-e", "BERTH_TRY", "-e", "BERTH_BATCH_SCALE", "--replace"}));
  const Words docker = Job().words(wish_for(ContainerEngine::kDocker), place);
  CHECK(docker[0] == "/bin/sh");
  CHECK(has(docker, {"/usr/bin/docker", "/run/id", "berth-7", "run", "--rm"}));
  CHECK_FALSE(has(docker, {"--replace"}));
  CHECK(docker.back() == "x.py");
}

TEST_CASE("apptainer gets the guard by its own variables, so that it does not load the guard") {
  ContainerPlace place = place_in("/home/ann");
  place.guard = {{"/run/user/7/limits", "/run/berth/limits", false}};
  const auto made = Job().made(wish_for(ContainerEngine::kApptainer), place);
  REQUIRE(made);
  CHECK(has(made->words, {"exec", "--nv"}));
  CHECK(has(made->words, {"--bind", "/run/user/7/limits:/run/berth/limits:ro"}));
  CHECK(has(made->words, {"docker://image:1", "python"}));
  CHECK(made->variables == Words{"APPTAINERENV_LD_PRELOAD=/run/berth/libberth-guard.so",
                                 "APPTAINERENV_BERTH_GUARD=/run/berth"});
}

TEST_CASE("the guard's limits are mounted read-only, its counters are not") {
  ContainerPlace place = place_in("/home/ann");
  place.guard = {{"/r/limits", "/run/berth/limits", false}, {"/r/usage", "/run/berth/usage", true}};
  const Words words = Job().words(wish_for(ContainerEngine::kPodman), place);
  CHECK(has(words, {"--volume", "/r/limits:/run/berth/limits:ro"}));
  CHECK(has(words, {"--volume", "/r/usage:/run/berth/usage"}));
  CHECK(has(words,
            {"-e", "LD_PRELOAD=/run/berth/libberth-guard.so", "-e", "BERTH_GUARD=/run/berth"}));
}

TEST_CASE("folders of the system are not mounted over the image's") {
  for (const char* folder : {"/", "/usr/src", "/etc", "/proc/1", "/run/x", "", "a", "/home/a:b"})
    CHECK_FALSE(can_mount_folder(folder));
  for (const char* folder : {"/home/ann", "/data", "/tmp/x", "/work"})
    CHECK(can_mount_folder(folder));
  CHECK_FALSE(has(Job().words(wish_for(ContainerEngine::kPodman), place_in("/")), {"--workdir"}));
}

TEST_CASE("--mount is a path, its place in the container, and whether it is read-only") {
  const auto same = parse_mount("/tmp", "/home/ann");
  REQUIRE(same);
  CHECK(same->target == "/tmp");
  CHECK(same->writable);
  const auto other = parse_mount("/tmp:/data:ro", "/home/ann");
  REQUIRE(other);
  CHECK(other->target == "/data");
  CHECK_FALSE(other->writable);
  for (const char* wrong : {"", ":", "/tmp:data", "/tmp:/a:/b", "/nonexistent-berth", "/tmp:/a:rx"})
    CHECK_FALSE(parse_mount(wrong, "/"));
}

TEST_CASE("a mount with a colon in its path is refused, because engines cannot quote it") {
  ContainerPlace place = place_in("/home/ann");
  place.guard = {{"/r:w/limits", "/run/berth/limits", false}};
  const auto made = Job().made(wish_for(ContainerEngine::kPodman), place);
  REQUIRE_FALSE(made);
  CHECK(made.error().id == "E1103");
}

TEST_CASE("the first engine that is installed is used, and a named one must be") {
  const auto only = [](const std::string& one) {
    return [one](const std::string& program) { return program == one ? "/bin/" + one : ""; };
  };
  CHECK(find_engine({}, only("docker")).value().engine == ContainerEngine::kDocker);
  CHECK(find_engine({}, only("singularity")).value().engine == ContainerEngine::kApptainer);
  CHECK(find_engine("apptainer", only("singularity")).value().program == "/bin/singularity");
  CHECK(find_engine("podman", only("docker")).error().id == "E1100");
  CHECK(find_engine({}, only("none")).error().id == "E1100");
}

TEST_CASE("a CDI file that names the GPUs is found, another vendor's is not enough") {
  const auto root = std::filesystem::temp_directory_path() / "berth-cdi-test";
  std::filesystem::remove_all(root);
  CHECK_FALSE(has_cdi_devices(root.string()));
  std::filesystem::create_directories(root / "etc/cdi");
  std::ofstream(root / "etc/cdi/other.json") << R"({"kind": "vendor.com/net"})";
  CHECK_FALSE(has_cdi_devices(root.string()));
  std::ofstream(root / "etc/cdi/nvidia.yaml") << "kind: nvidia.com/gpu\n";
  CHECK(has_cdi_devices(root.string()));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace berth::engines
