#include "doctor/read/bundle_json.hpp"

#include <doctest/doctest.h>

using namespace berth::doctor;

TEST_CASE("a missing key means not asked, and null means absent") {
  const auto answers = driver_from_json(
      R"({"nvml_init":null,"cuda_version":"12.2","gpus":[{"pci_address":"0000:01:00.0","mig_enabled":true}]})",
      "");
  REQUIRE(answers);
  CHECK(answers->nvml_init.is_absent());
  CHECK(*answers->cuda_version == "12.2");
  CHECK(answers->cuda_init.is_unreadable());
  CHECK(*answers->gpus->at(0).mig_enabled);
  CHECK(answers->gpus->at(0).name.is_unreadable());
  CHECK(driver_not_asked().gpus.is_unreadable());
}

TEST_CASE("a GPU may have no address, because a Jetson's is on no bus") {
  const auto answers = driver_from_json(R"({"gpus":[{"pci_address":null,"name":"Orin"}]})", "");
  REQUIRE(answers);
  CHECK(answers->gpus->at(0).pci_address.empty());
  CHECK(!driver_from_json(R"({"gpus":[{"pci_address":1}]})", ""));
}

TEST_CASE("a written document is read back unchanged") {
  DriverAnswers answers = driver_not_asked();
  answers.nvml_init = 18;
  answers.peer_pairs_unsupported = std::vector<std::string>{"0-1"};
  GpuAnswer gpu;
  gpu.pci_address = "0000:01:00.0";
  gpu.throttle = std::vector<std::string>{"hw_thermal"};
  gpu.power_limit_milliwatts = 250'000;
  answers.gpus = std::vector{gpu};
  const auto again = driver_from_json(driver_to_json(answers), "");
  REQUIRE(again);
  CHECK(driver_to_json(*again) == driver_to_json(answers));
  CHECK(*again->nvml_init == 18);
  CHECK(again->cuda_init.is_unreadable());
  CHECK(again->gpus->at(0).name.is_absent());
}

TEST_CASE("a value of another type is refused with its key") {
  for (const char* document :
       {"", "[]", R"({"nvml_init":"18"})", R"({"gpus":{}})", R"({"gpus":[1]})",
        R"({"gpus":[{"throttle":[1]}]})", R"({"gpus":[{"bar1_bytes":-1}]})"}) {
    CAPTURE(document);
    const auto answers = driver_from_json(document, "driver.json");
    REQUIRE(!answers);
    CHECK(answers.error().id == "E0802");
  }
}

TEST_CASE("disk space is read back unchanged, and malformed rows are refused") {
  const auto read = process_from_json(
      R"({"has_account": false, "rooms": [{"path": "/tmp", "what": "TMPDIR", "free_bytes": 7, "free_files": null}]})",
      "x");
  REQUIRE(read);
  const auto again = process_from_json(process_to_json(*read), "x");
  REQUIRE(again);
  REQUIRE(again->disk_space);
  REQUIRE(again->disk_space->size() == 1);
  CHECK(again->disk_space->front().free_bytes == 7);
  CHECK(!again->disk_space->front().free_files);
  CHECK(!again->has_account.value_or(true));
  CHECK(process_from_json("{}", "x")->disk_space.is_unreadable());
  CHECK(!process_from_json(R"({"rooms": [{"path": "/tmp"}]})", "x"));
  CHECK(!process_from_json(R"({"rooms": 7})", "x"));
}
