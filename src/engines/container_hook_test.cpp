#include "engines/container_hook.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"

namespace berth::engines {
namespace {

using Json = nlohmann::json;

model::Snapshot two_cards() {
  model::Snapshot snapshot;
  for (std::uint32_t i = 0; i < 2; ++i) {
    model::Device device;
    device.kind = model::DeviceKind::kGpu;
    device.vendor = model::Vendor::kNvidia;
    device.uuid = i == 0 ? "GPU-aa" : "GPU-bb";
    device.vendor_index = i;
    device.minor_number = 1 - i;
    snapshot.devices.push_back(device);
  }
  return snapshot;
}

std::vector<std::string> given(const char* config, bool nvidia = false) {
  return devices_of(gpus_given(config, nvidia).value(), two_cards());
}

TEST_CASE("a container's GPUs are its device files, and the variable if NVIDIA's hook reads it") {
  CHECK(given(R"({"linux":{"devices":[{"path":"/dev/nvidia0"},{"path":"/dev/nvidiactl"}]}})") ==
        std::vector<std::string>{"GPU-bb"});
  constexpr const char* kAll = R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]}})";
  CHECK(given(kAll).empty());
  CHECK(given(kAll, true).size() == 2);
  CHECK(given(R"({"hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-runtime-hook"}]},
                  "process":{"env":["NVIDIA_VISIBLE_DEVICES=0"]}})") ==
        std::vector<std::string>{"GPU-aa"});
  CHECK(given(R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=GPU-bb"]}})", true) ==
        std::vector<std::string>{"GPU-bb"});
  for (const char* none : {"none", "void", ""})
    CHECK(given((R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=)" + std::string(none) + "\"]}}")
                    .c_str(),
                true)
              .empty());
}

TEST_CASE("hostile configurations are errors or give nothing") {
  for (const char* bad : {"", "[", "[]", "7", "\"x\"", "{"}) CHECK_FALSE(gpus_given(bad, true));
  for (const char* odd :
       {R"({"linux":7,"process":[],"hooks":"x"})", R"({"linux":{"devices":{"path":1}}})",
        R"({"linux":{"devices":[7,{"path":"/dev/nvidia99999999999999999999"}]}})",
        R"({"process":{"env":[7,"BERTH_CONTAINER_JOB=-1"]}})"}) {
    const auto read = gpus_given(odd, true);
    REQUIRE(read);
    CHECK_FALSE(read->any());
    CHECK(read->job == 0);
  }
  for (const char* bad :
       {"", "{}", R"({"pid":1,"bundle":"/b"})", R"({"pid":"7","bundle":"/b"})",
        R"({"pid":7,"bundle":"b"})", R"({"pid":99999999999999999999,"bundle":"b"})"})
    CHECK_FALSE(parse_hook_state(bad));
  CHECK(parse_hook_state(R"({"pid":7,"bundle":"/b","id":"x"})").value().bundle == "/b");
}

TEST_CASE("a job's container needs no second lease, but only on the job's own devices") {
  model::Job job;
  job.grants = {{"GPU-aa"}};
  CHECK_FALSE(has_lease_on(job, {"GPU-aa"}));
  job.state = model::JobState::kRunning;
  CHECK(has_lease_on(job, {"GPU-aa"}));
  CHECK_FALSE(has_lease_on(job, {"GPU-aa", "GPU-bb"}));
}

TEST_CASE("a container is a job's if a process of the job has its token") {
  const auto of = [](const std::string& value) {
    return gpus_given(R"({"process":{"env":["BERTH_CONTAINER_JOB=)" + value + "\"]}}", true)
        .value();
  };
  const std::string environment("A=1\0BERTH_CONTAINER_JOB=7:5e\0B=2\0", 33);
  CHECK(of("7:5e").job == 7);
  CHECK(has_token(environment, of("7:5e")));
  for (const char* other : {"7", "7:", "7:5", "8:5e", "0:5e", "-7:5e", ":5e", "07:5e", "7:5e:1"})
    CHECK_MESSAGE(has_token(environment, of(other)) == (std::string(other) == "07:5e"), other);
  CHECK_FALSE(has_token("", of("7:5e")));
}

TEST_CASE("the hook comes after those of the container") {
  const auto json = Json::parse(
      with_hook(R"({"hooks":{"prestart":[{"path":"/first"}]}})", {"/usr/bin/berth", {"A=1"}}, false)
          .value());
  CHECK(json["hooks"]["prestart"][0]["path"] == "/first");
  CHECK(json["hooks"]["prestart"][1]["path"] == "/usr/bin/berth");
  CHECK(json["hooks"]["prestart"][1]["env"][0] == "A=1");
  CHECK_FALSE(with_hook("[]", {}, false));
}

TEST_CASE("docker's own settings come back when Berth's runtime is removed") {
  for (
      const char* before :
      {R"({"log-driver":"json-file"})", R"({"default-runtime":"runc"})",
       R"({"runtimes":{"nvidia":{"path":"/usr/bin/nvidia-container-runtime"}},"default-runtime":"nvidia"})"}) {
    const auto with = with_runtime(before, "/usr/bin/berth");
    REQUIRE(with);
    const auto json = Json::parse(*with);
    CHECK(json["default-runtime"] == "berth");
    CHECK(with_runtime(*with, "/usr/bin/berth").value() == *with);
    CHECK(Json::parse(without_runtime(*with).value()) == Json::parse(before));
  }
  const auto nvidia = Json::parse(
      with_runtime(R"({"runtimes":{"nvidia":{"path":"/n"}},"default-runtime":"nvidia"})", "/b")
          .value());
  CHECK(nvidia["runtimes"]["berth"]["runtimeArgs"][3] == "/n");
  CHECK(without_runtime(with_runtime("", "/b").value()).value().empty());
  for (const char* bad : {"[]", "{", R"({"runtimes":7})"}) CHECK_FALSE(with_runtime(bad, "/b"));
}

}  // namespace
}  // namespace berth::engines
