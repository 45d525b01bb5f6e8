#include "policy/container.hpp"

#include <doctest/doctest.h>

#include <optional>

namespace berth::policy {
namespace {

using model::Setting;
using model::Vendor;

model::Snapshot machine_of(Vendor vendor, std::optional<std::uint32_t> minor = {}) {
  model::Snapshot snapshot;
  model::Device device;
  device.index = 0;
  device.vendor = vendor;
  device.minor_number = minor;
  snapshot.devices = {device};
  return snapshot;
}

model::Placement on_first() {
  model::Placement placement;
  placement.devices = {0};
  placement.partitions = {""};
  return placement;
}

Setting setting_of(std::string name, std::string value) {
  return {Setting::Action::kSet, std::move(name), std::move(value), "why"};
}

using Words = std::vector<std::string>;

TEST_CASE("a container gets the GPUs by docker's or CDI's names") {
  model::Environment one;
  one.settings = {setting_of("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
                  setting_of("CUDA_VISIBLE_DEVICES", "0,1"), setting_of("OMP_NUM_THREADS", "8")};
  const auto snapshot = machine_of(Vendor::kNvidia);
  CHECK(container_words(one, on_first(), snapshot, ContainerTool::kDocker) ==
        Words{"--gpus", "\"device=0,1\"", "-e", "OMP_NUM_THREADS=8"});
  CHECK(container_words(one, on_first(), snapshot, ContainerTool::kCdi) ==
        Words{"--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1", "-e",
              "OMP_NUM_THREADS=8"});
}

TEST_CASE("a container gets AMD's and Intel's GPUs as device nodes, and cores as a cpuset") {
  model::Environment one;
  one.settings = {setting_of("ROCR_VISIBLE_DEVICES", "0")};
  one.cpus = "0-7";
  CHECK(container_words(one, on_first(), machine_of(Vendor::kAmd, 129), ContainerTool::kDocker) ==
        Words{"--device", "/dev/kfd", "--device", "/dev/dri/renderD129", "--cpuset-cpus", "0-7"});
  CHECK(container_words(one, on_first(), machine_of(Vendor::kIntel), ContainerTool::kCdi) ==
        Words{"--device", "/dev/dri", "--cpuset-cpus", "0-7"});
}

TEST_CASE("a container on the CPU gets variables only") {
  model::Environment one;
  one.settings = {setting_of("CUDA_VISIBLE_DEVICES", "-1"), setting_of("OMP_NUM_THREADS", "2")};
  CHECK(container_words(one, {}, machine_of(Vendor::kNvidia), ContainerTool::kDocker) ==
        Words{"-e", "CUDA_VISIBLE_DEVICES=-1", "-e", "OMP_NUM_THREADS=2", "-e",
              "NVIDIA_VISIBLE_DEVICES=void"});
}

}  // namespace
}  // namespace berth::policy
