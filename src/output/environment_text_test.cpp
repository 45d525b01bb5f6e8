#include "output/environment_text.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"
#include "base/shell_word.hpp"

using berth::shell_word;
using berth::model::Device;
using berth::model::Environment;
using berth::model::Placement;
using berth::model::Setting;
using berth::model::Snapshot;
using berth::model::Vendor;
using namespace berth::output;

namespace {

const std::string kHostile = "a'b\"c $(touch /tmp/x) `id` \\ \n#;&|*?~";

Setting set(const char* name, std::string value) {
  return {Setting::Action::kSet, name, std::move(value), "why"};
}

Environment environment(std::vector<Setting> settings) {
  Environment out;
  out.settings = std::move(settings);
  out.threads = 8;
  return out;
}

Snapshot machine(Vendor vendor) {
  Snapshot snapshot;
  Device device;
  device.index = 0;
  device.vendor = vendor;
  device.name = "Test GPU";
  device.uuid = "GPU-1111";
  snapshot.devices = {device};
  return snapshot;
}

Placement on_device() {
  Placement placement;
  placement.devices = {0};
  placement.partitions = {""};
  return placement;
}

}  // namespace

TEST_CASE("the shell's text sets and unsets, and leaves alone what is kept") {
  const auto text =
      environment_shell(environment({set("CUDA_VISIBLE_DEVICES", "0,1"),
                                     {Setting::Action::kUnset, "HIP_VISIBLE_DEVICES", "", "why"},
                                     {Setting::Action::kKeep, "OMP_NUM_THREADS", "4", "why"}}));
  CHECK(text == "export CUDA_VISIBLE_DEVICES=0,1\nunset HIP_VISIBLE_DEVICES\n");
}

TEST_CASE("an invalid variable name is never passed to a shell") {
  CHECK(environment_shell(
            environment({set("A B", "1"), set("X;id", "1"), set("", "1"), set("1A", "1")}))
            .empty());
  CHECK(environment_dotenv(environment({set("A\nB", "1")})).empty());
}

TEST_CASE("dotenv contains all variables, kept or set") {
  const auto text = environment_dotenv(environment({set("A", "0,1"),
                                                    {Setting::Action::kKeep, "B", "it's", "why"},
                                                    {Setting::Action::kUnset, "C", "", "why"}}));
  CHECK(text == "A=0,1\nB='it\\'s'\n# C must not be set\n");
}

TEST_CASE("words for docker are quoted for the shell that splits them") {
  CHECK(environment_container({"--gpus", "\"device=0,1\"", "-e", "A=it's"}) ==
        "--gpus '\"device=0,1\"' -e 'A=it'\\''s'\n");
}

TEST_CASE("JSON carries devices, settings and reasons, and nothing breaks it") {
  auto one = environment({set("X", kHostile + "\xff"), {Setting::Action::kUnset, "Y", "", "why"}});
  auto placement = on_device();
  placement.reasons = {"because"};
  const auto json =
      nlohmann::json::parse(environment_json(one, placement, machine(Vendor::kNvidia)));
  CHECK(json["schema"] == 1);
  CHECK(json["devices"][0]["uuid"] == "GPU-1111");
  CHECK(json["devices"][0]["partition_uuid"].is_null());
  CHECK(json["settings"][0]["action"] == "set");
  CHECK(json["settings"][0]["value"].get<std::string>().rfind(kHostile, 0) == 0);
  CHECK(json["settings"][1]["value"].is_null());
  CHECK(json["cpus"].is_null());
  CHECK(json["threads"] == 8);
  CHECK(json["reasons"][0] == "because");
}

namespace {

std::string run(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) out += static_cast<char>(c);
  CHECK(pclose(pipe) == 0);
  return out;
}

}  // namespace

TEST_CASE("sh, bash and dash read a hostile value back unchanged") {
  const std::string text = environment_shell(environment({set("BERTH_TEST", kHostile)}));
  for (const char* shell : {"sh", "bash", "dash"}) {
    if (run(std::string("command -v ") + shell + " || echo absent") == "absent\n") continue;
    CAPTURE(shell);
    CHECK(run(std::string(shell) + " -c " + shell_word(text + "printf '%s.' \"$BERTH_TEST\"")) ==
          kHostile + ".");
  }
}
