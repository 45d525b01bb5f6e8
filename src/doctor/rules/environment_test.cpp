#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;
using tests::card;

namespace environment_test {
namespace {

GpuAnswer gpu(const std::string& name, const std::string& uuid) {
  GpuAnswer one;
  one.name = name;
  one.uuid = uuid;
  one.mig_enabled = false;
  return one;
}

/// A machine with two GPUs of one model, and variables without problems.
Facts healthy() {
  Facts facts;
  facts.machine.kernel = std::string("6.8.0-45-generic");
  facts.machine.modules = std::vector<std::string>{"nvidia"};
  facts.machine.pci = std::vector{card("0000:01:00.0", 0x10de, 0x2684, "nvidia"),
                                  card("0000:02:00.0", 0x10de, 0x2684, "nvidia")};
  facts.driver.gpus = std::vector{gpu("NVIDIA L40S", "GPU-aa11"), gpu("NVIDIA L40S", "GPU-aa22")};
  facts.process.environment =
      Environment{{"CUDA_VISIBLE_DEVICES", "0,1"}, {"NCCL_DEBUG", "INFO"}, {"PATH", "/usr/bin"}};
  facts.platform.interfaces = std::vector<std::string>{"eth0", "lo"};
  return facts;
}

void set(Facts& facts, const std::string& name, const std::string& value) {
  Environment changed = *facts.process.environment;
  changed[name] = value;
  facts.process.environment = changed;
}

std::function<void(Facts&)> setting(const std::string& name, const std::string& value) {
  return [=](Facts& facts) { set(facts, name, value); };
}

void amd(Facts& facts) {
  facts.machine.pci = std::vector{card("0000:03:00.0", 0x1002, 0x744c, "amdgpu")};
  facts.machine.modules = std::vector<std::string>{"amdgpu"};
  facts.driver.gpus = std::vector<GpuAnswer>{};
  facts.rocm.nodes = std::vector<KfdNode>{{"1", "0000:03:00.0", 110000, false}};
}

void mig(Facts& facts, const std::string& visible) {
  GpuAnswer one = gpu("NVIDIA A100", "GPU-aa11");
  one.mig_enabled = true;
  one.mig_instances = std::vector<std::string>{"MIG-11", "MIG-22"};
  facts.driver.gpus = std::vector{one};
  set(facts, "CUDA_VISIBLE_DEVICES", visible);
}

void twice_chosen(Facts& facts) {
  amd(facts);
  set(facts, "CUDA_VISIBLE_DEVICES", "");
  set(facts, "ROCR_VISIBLE_DEVICES", "1");
  set(facts, "HIP_VISIBLE_DEVICES", "1");
}

void more_than_two_cards(Facts& facts) {
  amd(facts);
  facts.nodes.render = std::vector<GpuNode>{{"/dev/dri/renderD128", {}, 0x1002},
                                            {"/dev/dri/renderD129", {}, 0x1002}};
  set(facts, "ROCR_VISIBLE_DEVICES", "2,3");
}

void without_ptxas(Facts& facts) {
  facts.platform.named.missing_files = std::vector<std::string>{"TRITON_PTXAS_PATH=/opt/ptxas"};
}

void stubs_first(Facts& facts) {
  set(facts, "LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs");
  facts.platform.named.stubs = std::vector<std::string>{"/usr/local/cuda/lib64/stubs/libcuda.so"};
}

struct Mutation {
  const char* rule;
  std::function<void(Facts&)> change;
};

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all{
      {"ENV01", setting("CUDA_VISIBLE_DEVICES", "")},
      {"ENV01", setting("CUDA_VISIBLE_DEVICES", "-1")},
      {"ENV02", setting("CUDA_VISIBLE_DEVICES", "2")},
      {"ENV02", setting("CUDA_VISIBLE_DEVICES", "0,cuda:1")},
      {"ENV02", setting("CUDA_VISIBLE_DEVICES", "0,0")},
      {"ENV02", setting("CUDA_VISIBLE_DEVICES", "0, 1")},
      {"ENV02", setting("CUDA_VISIBLE_DEVICES", " 0")},
      {"ENV02", setting("CUDA_VISIBLE_DEVICES", "0,,1")},
      {"ENV03", setting("CUDA_VISIBLE_DEVICES", "GPU-bb")},
      {"ENV03", setting("CUDA_VISIBLE_DEVICES", "GPU-aa")},
      {"ENV04", [](Facts& f) { mig(f, "0,1"); }},
      {"ENV04", [](Facts& f) { mig(f, "MIG-11,MIG-22"); }},
      {"ENV04", [](Facts& f) { mig(f, "MIG-33"); }},
      {"ENV05",
       [](Facts& f) {
         f.driver.gpus = std::vector{gpu("NVIDIA L40S", "GPU-1"), gpu("Tesla T4", "GPU-2")};
       }},
      {"ENV06", twice_chosen},
      {"ENV02", more_than_two_cards},
      {"ENV07", stubs_first},
      {"ENV09", setting("LD_PRELOAD", "/opt/nccl/libnccl.so.2")},
      {"ENV10",
       [](Facts& f) {
         set(f, "CUDA_HOME", "/usr/local/cuda-11");
         f.platform.named.cuda_home_there = false;
         f.platform.named.cuda_home_nvcc = false;
       }},
      {"ENV11",
       [](Facts& f) {
         f.platform.named.nvcc = std::string("/usr/bin/nvcc");
         f.platform.named.usual_nvcc = std::string("/usr/local/cuda-12.1/bin/nvcc");
       }},
      {"ENV12",
       [](Facts& f) {
         amd(f);
         set(f, "HSA_OVERRIDE_GFX_VERSION", "10.3.0");
       }},
      {"ENV13", setting("GLOO_SOCKET_IFNAME", "^lo,docker")},
      {"ENV13", setting("NCCL_SOCKET_IFNAME", "ib0")},
      {"ENV14", setting("NCCL_P2P_DISABLE", "1")},
      {"ENV15", setting("CUDA_LAUNCH_BLOCKING", "1")},
      {"ENV16", setting("CUDA_FORCE_PTX_JIT", "1")},
      {"ENV17",
       [](Facts& f) {
         f.platform.named.xla_folder = std::string("/opt/cuda");
         f.platform.named.xla_libdevice = false;
       }},
      {"ENV19", setting("JAX_PLATFORMS", "cpu")},
      {"ENV19", setting("JAX_PLATFORMS", "tpu")},
      {"ENV19", setting("COMMANDLINE_ARGS", "--listen --use-cpu all")},
      {"ENV19", setting("WHISPER__INFERENCE_DEVICE", "cpu")},
      {"ENV20", without_ptxas},
  };
  return all;
}

std::vector<Rule> rules() {
  return tests::joined(
      {visible_device_rules(), environment_rules(), shadow_rules(), switch_rules()});
}

std::string first(const Facts& facts) {
  return tests::first_of(rules(), facts);
}

}  // namespace

TEST_CASE("one wrong variable is named first, and undoing it is clean") {
  CHECK(first(healthy()).empty());
  for (const Mutation& one : mutations()) {
    CAPTURE(one.rule);
    Facts facts = healthy();
    one.change(facts);
    CHECK(first(facts) == one.rule);
  }
}

TEST_CASE("variables that cannot be read are neither right nor wrong") {
  Facts facts = healthy();
  facts.process.environment = Unreadable{"/proc/7/environ", 13};
  const auto diagnosis = diagnose_with(rules(), facts, {});
  CHECK(diagnosis.findings.empty());
  for (const char* id :
       {"ENV01", "ENV02", "ENV03", "ENV04", "ENV13", "ENV14", "ENV15", "ENV16", "ENV19"}) {
    CAPTURE(id);
    CHECK(std::find(diagnosis.checked.begin(), diagnosis.checked.end(), id) ==
          diagnosis.checked.end());
  }
}

TEST_CASE("a list of GPUs is not judged if the number of GPUs is unknown") {
  Facts facts = healthy();
  set(facts, "CUDA_VISIBLE_DEVICES", "5");
  facts.driver.gpus = Unreadable{"gpus", 0};
  CHECK(first(facts).empty());
}

TEST_CASE("variables that only look wrong are left alone") {
  const std::vector<std::function<void(Facts&)>> fine{
      setting("CUDA_VISIBLE_DEVICES", "GPU-aa1"),
      setting("CUDA_VISIBLE_DEVICES", "1 ,0"),
      setting("CUDA_VISIBLE_DEVICES", "0,1,"),
      setting("CUDA_VISIBLE_DEVICES", "1gpu"),
      setting("NCCL_SOCKET_IFNAME", "^lo,docker"),
      setting("NCCL_SOCKET_IFNAME", "eth"),
      setting("NCCL_SOCKET_IFNAME", "=eth0:1"),
      setting("NCCL_SOCKET_IFNAME", "lo"),
      setting("NCCL_IB_DISABLE", "1"),
      setting("JAX_PLATFORMS", "cuda,cpu"),
      setting("CUDA_LAUNCH_BLOCKING", "0"),
      [](Facts& f) { mig(f, "MIG-22"); },
      [](Facts& f) {
        f.driver.peer_pairs_unsupported = std::vector<std::string>{"0-1"};
        set(f, "NCCL_P2P_DISABLE", "1");
      },
      [](Facts& f) {
        amd(f);
        set(f, "CUDA_VISIBLE_DEVICES", "0");
        set(f, "HSA_OVERRIDE_GFX_VERSION", "11.0.0");
      },
      // On a machine without a GPU, a variable that hides all GPUs has no effect.
      [](Facts& f) {
        f.driver.gpus = std::vector<GpuAnswer>{};
        f.machine.pci = std::vector<PciFunction>{};
        f.machine.modules = std::vector<std::string>{};
        set(f, "CUDA_VISIBLE_DEVICES", "");
        set(f, "JAX_PLATFORMS", "cpu");
      },
  };
  for (std::size_t i = 0; i < fine.size(); ++i) {
    CAPTURE(i);
    Facts facts = healthy();
    fine[i](facts);
    CHECK(first(facts).empty());
  }
}

TEST_CASE("a GPU that does not answer is no other model, whatever the bus calls it") {
  Facts facts = healthy();
  facts.driver.gpus = std::vector{gpu("NVIDIA L40S", "GPU-1"), gpu("L40S", "GPU-2")};
  CHECK(diagnose(facts, Knowledge{}, {"ENV05"}).findings.size() == 1);
  auto gpus = *facts.driver.gpus;
  gpus[1].error = 15;
  facts.driver.gpus = gpus;
  CHECK(diagnose(facts, Knowledge{}, {"ENV05"}).findings.empty());
  gpus[1].error = {};
  gpus[1].silent = true;
  facts.driver.gpus = gpus;
  CHECK(diagnose(facts, Knowledge{}, {"ENV05"}).findings.empty());
}

TEST_CASE("what a list lost is said as it is, and the fix keeps every GPU that was meant") {
  struct Case {
    const char *list, *says, *fix;
  };
  for (const Case& one : std::initializer_list<Case>{
           {"0,0", "names 0 twice", "export CUDA_VISIBLE_DEVICES=0"},
           {"1, 0", "because of the space", "export CUDA_VISIBLE_DEVICES=1,0"},
           {"1,cuda:1,0", "ignores 'cuda:1' and all after it", "export CUDA_VISIBLE_DEVICES=1,0"},
           {"7", "'7' is not a GPU here", "export CUDA_VISIBLE_DEVICES=0"}}) {
    CAPTURE(one.list);
    Facts facts = healthy();
    set(facts, "CUDA_VISIBLE_DEVICES", one.list);
    const auto found = diagnose(facts, Knowledge{}, {"ENV02"}).findings;
    REQUIRE(found.size() == 1);
    CHECK(found[0].title.find(one.says) != std::string::npos);
    CHECK(found[0].fix[0].command == one.fix);
  }
}

TEST_CASE("a variable explains no package that was built for the processor") {
  Facts facts = healthy();
  set(facts, "CUDA_VISIBLE_DEVICES", "-1");
  facts.python.version = std::string("3.11");
  facts.python.torch = TorchBuild{"/venv/torch/version.py", 0, "2.8.0+cpu", {}, {}, {}};
  const auto found = diagnose(facts, Knowledge{}, {"ENV01", "FW01"}).findings;
  REQUIRE(found.size() == 2);
  CHECK(found[0].id == "ENV01");
  CHECK(found[1].explained_by.empty());
}

}  // namespace environment_test
