#include "policy/environment.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"

using berth::model::Environment;
using berth::model::Placement;
using berth::model::Request;
using berth::model::Setting;
using berth::policy::environment_for;
using berth::policy::EnvironmentOptions;
using berth::policy::set_variables;
using berth::policy::without_berths;
using namespace berth::policy::machines;

namespace {

using User = std::map<std::string, std::string>;

Environment on(const Snapshot& machine, std::vector<int> devices, const User& user = {},
               EnvironmentOptions options = {}) {
  Placement placement;
  placement.devices = std::move(devices);
  placement.partitions.resize(placement.devices.size());
  placement.threads = 8;
  return environment_for(placement, machine, user, options);
}

const Setting* find(const Environment& environment, const std::string& name) {
  for (const Setting& setting : environment.settings)
    if (setting.name == name) return &setting;
  return nullptr;
}

/// What environment_for() does to the variable: "set 0,1", "keep 3", "unset ", or "nothing".
std::string shown(const Environment& environment, const std::string& name) {
  const Setting* setting = find(environment, name);
  if (setting == nullptr) return "nothing";
  const char* what = setting->action == Setting::Action::kSet     ? "set "
                     : setting->action == Setting::Action::kUnset ? "unset "
                                                                  : "keep ";
  return what + setting->value;
}

/// Returns the variables of `user`, changed by the settings.
User applied(const Environment& environment, User user) {
  for (const Setting& setting : environment.settings) {
    if (setting.action == Setting::Action::kUnset) user.erase(setting.name);
    if (setting.action == Setting::Action::kSet) user[setting.name] = setting.value;
  }
  return user;
}

Snapshot amd(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    Device device = gpu(Vendor::kAmd, "MI210", 64);
    device.uuid = "GPU-00000000deadbee" + std::to_string(i);
    devices.push_back(device);
  }
  return machine(devices);
}

Snapshot both_vendors() {
  Snapshot s = amd(2);
  std::vector<Device> devices{gpu(Vendor::kNvidia, "L4", 24), gpu(Vendor::kNvidia, "L4", 24),
                              s.devices[0], s.devices[1]};
  for (Device& device : devices) device.pci_address.clear();
  return machine(devices);
}

}  // namespace

TEST_CASE("CUDA gets indices in the order of the bus") {
  const auto environment = on(nvidia(4), {3, 1});
  CHECK(shown(environment, "CUDA_VISIBLE_DEVICES") == "set 3,1");
  CHECK(shown(environment, "CUDA_DEVICE_ORDER") == "set PCI_BUS_ID");
  CHECK(shown(environment, "ROCR_VISIBLE_DEVICES") == "nothing");
}

TEST_CASE("CUDA counts NVIDIA's GPUs only, whatever Berth's index is") {
  std::vector<Device> devices{gpu(Vendor::kAmd, "MI210", 64), gpu(Vendor::kNvidia, "L4", 24),
                              gpu(Vendor::kNvidia, "L4", 24)};
  const auto environment = on(machine(devices), {2});
  CHECK(shown(environment, "CUDA_VISIBLE_DEVICES") == "set 1");
  CHECK(shown(environment, "ROCR_VISIBLE_DEVICES") == "set -1");
}

TEST_CASE("uuids are used if an index could mean another GPU") {
  Snapshot sick = nvidia(3);
  sick.devices[0].health = Health::kLost;
  CHECK(shown(on(sick, {1, 2}), "CUDA_VISIBLE_DEVICES") ==
        "set GPU-aaaa0001-1111-2222,GPU-aaaa0002-1111-2222");
  CHECK(shown(on(sick, {1}), "CUDA_DEVICE_ORDER") == "nothing");
  const auto own_order = on(nvidia(2), {1}, {{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}});
  CHECK(shown(own_order, "CUDA_VISIBLE_DEVICES") == "set GPU-aaaa0001-1111-2222");
  CHECK(shown(own_order, "CUDA_DEVICE_ORDER") == "keep FASTEST_FIRST");
  const auto overridden =
      on(nvidia(2), {1}, {{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}, {true, false});
  CHECK(shown(overridden, "CUDA_VISIBLE_DEVICES") == "set 1");
  CHECK(shown(overridden, "CUDA_DEVICE_ORDER") == "set PCI_BUS_ID");
}

TEST_CASE("a faulty machine without uuids gets indices and a note") {
  Snapshot sick = nvidia(2);
  sick.devices[0].health = Health::kLost;
  sick.devices[1].uuid.clear();
  const auto environment = on(sick, {1});
  CHECK(shown(environment, "CUDA_VISIBLE_DEVICES") == "set 1");
  CHECK(environment.notes.size() >= 1);
}

TEST_CASE("a MIG partition goes by its uuid") {
  const Snapshot s = machine({with_mig(gpu(Vendor::kNvidia, "A100", 40), {10, 20}, "a")});
  Placement placement;
  placement.devices = {0};
  placement.partitions = {"MIG-a1-0000"};
  CHECK(shown(environment_for(placement, s, {}, {}), "CUDA_VISIBLE_DEVICES") == "set MIG-a1-0000");
}

TEST_CASE("direct transfers of NCCL are off where the driver only claims to have them") {
  const Device card = gpu(Vendor::kNvidia, "NVIDIA GeForce RTX 4090", 24);
  Snapshot s = machine({card, card, gpu(Vendor::kNvidia, "NVIDIA L4", 24)});
  for (const char* old : {"525.60.11", "520.56.06", "525.105.16", "525.105"}) {
    s.driver.version = old;
    CHECK(shown(on(s, {0, 1}), "NCCL_P2P_DISABLE") == "set 1");
  }
  CHECK(shown(on(s, {0, 1}, {{"NCCL_P2P_DISABLE", "0"}}), "NCCL_P2P_DISABLE") == "keep 0");
  CHECK(shown(on(s, {0, 2}), "NCCL_P2P_DISABLE") == "nothing");
  CHECK(shown(on(s, {0}), "NCCL_P2P_DISABLE") == "nothing");
  for (const char* fixed :
       {"525.105.17", "525.125.06", "530.30.02", "580.95.05", "", "?", "525.x"}) {
    s.driver.version = fixed;
    CHECK(shown(on(s, {0, 1}), "NCCL_P2P_DISABLE") == "nothing");
  }
}

TEST_CASE("AMD alone needs one variable, by uuid") {
  const auto environment = on(amd(2), {1});
  CHECK(shown(environment, "ROCR_VISIBLE_DEVICES") == "set GPU-00000000deadbee1");
  CHECK(shown(environment, "HIP_VISIBLE_DEVICES") == "nothing");
  CHECK(shown(environment, "CUDA_VISIBLE_DEVICES") == "nothing");
}

TEST_CASE("AMD GPUs without uuids are selected by number") {
  Snapshot s = amd(2);
  s.devices[1].uuid = "";
  CHECK(shown(on(s, {1}), "ROCR_VISIBLE_DEVICES") == "set 1");
}

TEST_CASE("hiding NVIDIA must not hide AMD: HIP takes CUDA's variable for its own") {
  const auto environment = on(both_vendors(), {2, 3});
  CHECK(shown(environment, "CUDA_VISIBLE_DEVICES") == "set -1");
  CHECK(shown(environment, "HIP_VISIBLE_DEVICES") == "set 0,1");
  const auto mixed = on(both_vendors(), {1, 3});
  CHECK(shown(mixed, "CUDA_VISIBLE_DEVICES") == "set 1");
  CHECK(shown(mixed, "HIP_VISIBLE_DEVICES") == "set 0");
}

TEST_CASE("variables that count on top of ROCr are renumbered or removed") {
  const auto environment = on(
      amd(4), {3},
      {{"CUDA_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "3"}, {"GPU_DEVICE_ORDINAL", "3"}});
  CHECK(shown(environment, "CUDA_VISIBLE_DEVICES") == "unset ");
  CHECK(shown(environment, "HIP_VISIBLE_DEVICES") == "set 0");
  CHECK(shown(environment, "GPU_DEVICE_ORDINAL") == "set 0");
}

TEST_CASE("Intel gets a mask, in an order that stays") {
  const Device max = gpu(Vendor::kIntel, "Max", 48);
  const auto environment = on(machine({max, max}), {1});
  CHECK(shown(environment, "ZE_AFFINITY_MASK") == "set 1");
  CHECK(shown(environment, "ZE_ENABLE_PCI_ID_DEVICE_ORDER") == "set 1");
  CHECK(shown(on(machine({max}), {0}), "ZE_ENABLE_PCI_ID_DEVICE_ORDER") == "nothing");
}

TEST_CASE("TPU chips come with the shape of their part") {
  Device chip = gpu(Vendor::kGoogle, "TPU v5e", 16);
  chip.kind = DeviceKind::kTpu;
  const Snapshot s = machine({chip, chip, chip, chip});
  const auto one = on(s, {2});
  CHECK(shown(one, "TPU_VISIBLE_CHIPS") == "set 2");
  CHECK(shown(one, "TPU_CHIPS_PER_PROCESS_BOUNDS") == "set 1,1,1");
  CHECK(shown(one, "TPU_PROCESS_BOUNDS") == "set 1,1,1");
  CHECK(shown(one, "JAX_PLATFORMS") == "set tpu,cpu");
  CHECK(shown(one, "PJRT_DEVICE") == "set TPU");
  CHECK(shown(on(s, {2}, {{"PJRT_DEVICE", "CPU"}}), "PJRT_DEVICE") == "keep CPU");
  CHECK(shown(on(s, {}), "PJRT_DEVICE") == "set CPU");
  CHECK(shown(on(nvidia(1), {}), "PJRT_DEVICE") == "nothing");
  CHECK(shown(on(s, {0, 1, 2, 3}), "TPU_PROCESS_BOUNDS") == "nothing");
}

TEST_CASE("on the CPU every vendor's GPUs are hidden, and what cannot be is named") {
  const auto bare_machine = on(bare(), {});
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
    CHECK(shown(bare_machine, name) == "set -1");
  CHECK(shown(bare_machine, "JAX_PLATFORMS") == "set cpu");
  CHECK(shown(bare_machine, "ONEAPI_DEVICE_SELECTOR") == "nothing");
  CHECK(bare_machine.notes.empty());
  const auto intel = on(machine({gpu(Vendor::kIntel, "Arc", 16)}), {});
  CHECK(shown(intel, "ONEAPI_DEVICE_SELECTOR") == "set *:cpu");
  CHECK(intel.notes.size() == 2);
  CHECK(on(nvidia(1), {}).notes.size() == 1);
}

TEST_CASE("threads follow the cores") {
  const auto environment = on(bare(), {});
  for (const char* name :
       {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"})
    CHECK(shown(environment, name) == "set 8");
  CHECK(environment.threads == 8);
}

TEST_CASE("what the user set stands, is said, and is not undone by a neighbour") {
  const auto environment = on(bare(), {}, {{"OMP_NUM_THREADS", "3,2"}, {"JAX_PLATFORMS", "cuda"}});
  CHECK(shown(environment, "OMP_NUM_THREADS") == "keep 3,2");
  CHECK(shown(environment, "MKL_NUM_THREADS") == "nothing");
  CHECK(shown(environment, "JAX_PLATFORMS") == "keep cuda");
  CHECK(environment.threads == 3);
  const auto one = on(bare(), {}, {{"MKL_NUM_THREADS", "2"}});
  CHECK(shown(one, "MKL_NUM_THREADS") == "keep 2");
  CHECK(shown(one, "OMP_NUM_THREADS") == "set 8");
}

TEST_CASE("waiting threads release their cores, unless the user chose how they wait") {
  CHECK(shown(on(bare(), {}), "GOMP_SPINCOUNT") == "set 10000");
  CHECK(shown(on(bare(), {}, {{"OMP_NUM_THREADS", "3"}}), "GOMP_SPINCOUNT") == "set 10000");
  CHECK(shown(on(bare(), {}, {{"OMP_NUM_THREADS", "1"}}), "GOMP_SPINCOUNT") == "nothing");
  CHECK(shown(on(bare(), {}, {{"GOMP_SPINCOUNT", "7"}}), "GOMP_SPINCOUNT") == "keep 7");
  CHECK(shown(on(bare(), {}, {{"GOMP_SPINCOUNT", "7"}}, {true, false}), "GOMP_SPINCOUNT") ==
        "set 10000");
  const auto active = on(bare(), {}, {{"OMP_WAIT_POLICY", "active"}}, {true, false});
  CHECK(shown(active, "GOMP_SPINCOUNT") == "nothing");
  CHECK(shown(active, "OMP_WAIT_POLICY") == "keep active");
}

TEST_CASE("with --override the user's values give way") {
  const auto environment =
      on(bare(), {}, {{"OMP_NUM_THREADS", "3"}, {"MKL_NUM_THREADS", "8"}}, {true, false});
  CHECK(shown(environment, "OMP_NUM_THREADS") == "set 8");
  CHECK(shown(environment, "MKL_NUM_THREADS") == "keep 8");
  CHECK(environment.threads == 8);
}

TEST_CASE("a thread variable that means nothing is replaced") {
  for (const char* value : {"", "many", "0", "-4"}) {
    const auto environment = on(bare(), {}, {{"OMP_NUM_THREADS", value}});
    CAPTURE(value);
    CHECK(environment.threads == 8);
  }
}

TEST_CASE("NumExpr is never told more than it accepts") {
  Placement placement;
  placement.threads = 96;
  CHECK(shown(environment_for(placement, bare(), {}, {}), "NUMEXPR_NUM_THREADS") == "set 64");
  CHECK(shown(environment_for(placement, bare(), {{"NUMEXPR_MAX_THREADS", "128"}}, {}),
              "NUMEXPR_NUM_THREADS") == "set 96");
  CHECK(shown(environment_for(placement, bare(), {{"NUMEXPR_MAX_THREADS", "4"}}, {}),
              "NUMEXPR_NUM_THREADS") == "set 4");
  CHECK(shown(environment_for(placement, bare(), {}, {}), "OMP_NUM_THREADS") == "set 96");
}

TEST_CASE("messages are suppressed only on request") {
  CHECK(shown(on(bare(), {}), "TF_CPP_MIN_LOG_LEVEL") == "nothing");
  CHECK(shown(on(bare(), {}, {}, {false, true}), "TF_CPP_MIN_LOG_LEVEL") == "set 1");
}

TEST_CASE("no variable is set twice, and none of container runtimes") {
  for (const Snapshot& s : {bare(), nvidia(2), amd(2), both_vendors()}) {
    const auto environment = on(s, {});
    std::vector<std::string> names;
    for (const Setting& setting : environment.settings) names.push_back(setting.name);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
    CHECK(find(environment, "NVIDIA_VISIBLE_DEVICES") == nullptr);
  }
}

TEST_CASE("a job inside a job is placed on the same devices") {
  for (const Snapshot& s : {nvidia(4), amd(4), both_vendors(),
                            machine({with_mig(gpu(Vendor::kNvidia, "A100", 40), {10, 20}, "a")})}) {
    for (int device = 0; device + 1 < static_cast<int>(s.devices.size()); ++device) {
      Request outer;
      outer.devices = {std::to_string(device)};
      const auto placed = berth::policy::place(outer, s);
      REQUIRE(placed);
      User user = applied(environment_for(*placed, s, {}, {}), {});
      Request inner;
      const auto value = [&](const char* name) {
        return user.count(name) == 0 ? std::nullopt : std::optional<std::string>(user[name]);
      };
      inner.inherited_cuda = value("CUDA_VISIBLE_DEVICES");
      inner.inherited_cuda_order = value("CUDA_DEVICE_ORDER");
      inner.inherited_hip = value("HIP_VISIBLE_DEVICES");
      inner.inherited_rocr = value("ROCR_VISIBLE_DEVICES");
      const auto again = berth::policy::place(inner, s);
      REQUIRE(again);
      CHECK(again->devices == placed->devices);
      CHECK(again->partitions == placed->partitions);
      CHECK(applied(environment_for(*again, s, user, {}), user) == user);
    }
  }
}

TEST_CASE("a job queued by a job gets the user's variables, not those that Berth set") {
  const Snapshot two = nvidia(2);
  const User user{{"OMP_NUM_THREADS", "3"}, {"PATH", "/bin"}};
  User inside = user;
  set_variables(on(two, {1}, inside), inside);
  CHECK(inside["CUDA_VISIBLE_DEVICES"] == "1");
  CHECK((without_berths(inside) == user));
  SUBCASE("also in a job that is in it") {
    set_variables(on(two, {1}, inside), inside);
    CHECK((without_berths(inside) == user));
  }
  SUBCASE("what was set in there since is the user's") {
    inside["CUDA_VISIBLE_DEVICES"] = "0";
    CHECK(without_berths(inside)["CUDA_VISIBLE_DEVICES"] == "0");
  }
  SUBCASE("what was so before is the user's") {
    User before{{"CUDA_VISIBLE_DEVICES", "1"}};
    set_variables(on(two, {1}, before), before);
    CHECK((without_berths(before) == User{{"CUDA_VISIBLE_DEVICES", "1"}}));
  }
}
