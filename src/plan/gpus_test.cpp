#include <doctest/doctest.h>

#include <algorithm>

#include "plan/catalogue.hpp"

using namespace berth::plan;

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::string found(std::string_view name) {
  const auto gpu = find_gpu(name);
  return gpu ? gpu->name : gpu.error().message;
}

}  // namespace

TEST_CASE("every PCI id of the catalogue leads to its GPU, with subsystem or memory if shared") {
  int ids = 0;
  for (const Gpu& gpu : gpus())
    for (const std::string& id : gpu.pci_ids) {
      ++ids;
      const std::string subsystem = gpu.subsystem_ids.empty() ? "" : gpu.subsystem_ids.front();
      const auto it = find_gpu(GpuIds{id, subsystem, gpu.memory_bytes});
      // AMD's MI250 and MI250X have the same id, and no public source says how to tell them apart.
      if (id == "1002:740c") {
        REQUIRE_FALSE(it);
        CHECK(it.error().message.find("MI250X") != std::string::npos);
        continue;
      }
      REQUIRE_MESSAGE(it.has_value(), id);
      CHECK(it->name == gpu.name);
    }
  CHECK(ids >= 180);
}

TEST_CASE("a shared PCI id alone is refused with the GPUs that share it") {
  CHECK(found("10de:2684") == "GeForce RTX 4090");
  CHECK(found("10DE:2684") == "GeForce RTX 4090");
  const std::string shared = found("10de:2d04");
  CHECK(shared.find("5060 Ti 8GB") != std::string::npos);
  CHECK(shared.find("5060 Ti 16GB") != std::string::npos);
  CHECK(find_gpu("10de:2d04").error().hint.find("10de:2d04 8GB") != std::string::npos);
  // The hint is the user's own command with another name.
  const GpuCommand command{"berth plan measure", " -- ./train"};
  CHECK(find_gpu("10de:2d04", command).error().hint ==
        "berth plan measure --gpu '10de:2d04 8GB' -- ./train");
  for (const char* name : {"RTX 40900", "10de:ffff", "10de:2d04 7GB"}) {
    const std::string hint = find_gpu(name, command).error().hint;
    CHECK(hint.starts_with("berth plan measure --gpu "));
    CHECK(hint.ends_with(" -- ./train"));
  }
  CHECK(found("10de:2d04 16GB") == "GeForce RTX 5060 Ti 16GB");
  CHECK(found("10de:25b6:10de:157e") == "A2");
  CHECK(found("10de:25b6/10de:14a9") == "A16 (one of 4 GPUs)");
  CHECK(found("10de:1e30 48 GiB") == "Quadro RTX 8000");
  // A driver reports a little less than the nominal memory.
  CHECK(find_gpu(GpuIds{"10de:1e30", "", 23.6 * kGiB})->name == "Quadro RTX 6000");
  for (const char* bad : {"10de:ffff", "10de:2d04 7GB", "10de:2d04 GB", "10de:268", "zzzz:2684"})
    CHECK(find_gpu(bad).error().id == "E0972");
}

TEST_CASE("cards of the usual guides are found by the names that people use") {
  CHECK(found("GTX 1660 Super") == "GeForce GTX 1660 SUPER");
  CHECK(found("NVIDIA GeForce GTX 1660 Ti") == "GeForce GTX 1660 Ti");
  CHECK(found("Jetson AGX Xavier 16GB") == "Jetson AGX Xavier 16GB");
  CHECK(found("4090") == "GeForce RTX 4090");
  CHECK(found("RTX 4090 Mobile") == "GeForce RTX 4090 Laptop GPU");
  CHECK(found("4070 laptop") == "GeForce RTX 4070 Laptop GPU");
  CHECK(found("T4") == "Tesla T4");
  CHECK(found("MI300X") == "Instinct MI300X");
  CHECK(found("A100-SXM4-80GB") == "A100 SXM4 80GB");
  CHECK(found("P40") == "Tesla P40");
}

TEST_CASE("a name that fits several GPUs is refused with all of them") {
  const std::string xavier = found("Jetson Xavier");
  for (const char* one : {"AGX Xavier 32GB", "AGX Xavier 16GB", "Xavier NX 8GB"})
    CHECK(xavier.find(one) != std::string::npos);
  // NVML reports the same name for the 10 GB and the 12 GB card, so the error names both.
  CHECK(found("NVIDIA GeForce RTX 3080").find("RTX 3080 12GB") != std::string::npos);
  CHECK(found("RTX 6000").find("RTX 6000 Ada") != std::string::npos);
}

TEST_CASE("a laptop's GPU has a range of power") {
  const auto gpu = find_gpu("GeForce RTX 4080 Laptop GPU");
  REQUIRE(gpu);
  CHECK(gpu->least_power_watts == 60);
  CHECK(gpu->power_watts == 150);
  // the rate depends on the power limit, which the laptop's maker sets
  CHECK_FALSE(gpu->fp32_flop_per_second);
  CHECK_FALSE(find_gpu("RTX 4090")->least_power_watts);
}
