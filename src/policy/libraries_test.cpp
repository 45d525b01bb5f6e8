#include "policy/libraries.hpp"

#include <doctest/doctest.h>

#include "base/text.hpp"

using berth::model::Device;
using berth::model::DeviceKind;
using berth::model::Health;
using berth::model::Snapshot;
using berth::model::Vendor;
using berth::policy::advise;

namespace {

Snapshot machine(Vendor vendor, Health health = Health::kOk) {
  Snapshot snapshot;
  Device gpu;
  gpu.index = 0;
  gpu.vendor = vendor;
  gpu.health = health;
  Device cpu;
  cpu.index = 1;
  cpu.kind = DeviceKind::kCpu;
  snapshot.devices = {gpu, cpu};
  return snapshot;
}

const std::string kNumpy =
    "/usr/lib/python3/dist-packages/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so";
const std::string kScipy = "/venv/lib/scipy/linalg/_fblas.cpython-311-x86_64-linux-gnu.so";
const std::string kSklearn = "/venv/lib/sklearn/utils/murmurhash.cpython-311-x86_64-linux-gnu.so";
const std::string kTorch = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13";

bool says(const std::vector<std::string>& sentences, const std::string& part) {
  for (const std::string& sentence : sentences)
    if (sentence.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("NumPy alone leads to CuPy") {
  const auto advice = advise({kNumpy, "/usr/lib/libc.so.6"}, machine(Vendor::kNvidia));
  CHECK(advice.libraries == std::vector<std::string>{"numpy"});
  REQUIRE(advice.suggestions.size() == 1);
  CHECK(says(advice.suggestions, "CuPy"));
}

TEST_CASE("scikit-learn is named and not the NumPy and SciPy beneath it") {
  const auto advice = advise({kNumpy, kScipy, kSklearn}, machine(Vendor::kNvidia));
  CHECK(advice.libraries == std::vector<std::string>{"scikit-learn", "scipy", "numpy"});
  REQUIRE(advice.suggestions.size() == 1);
  CHECK(says(advice.suggestions, "cuML"));
}

TEST_CASE("pandas leads to cuDF") {
  CHECK(says(advise({"/v/pandas/_libs/lib.so"}, machine(Vendor::kNvidia)).suggestions, "cuDF"));
}

TEST_CASE("a CPU build of PyTorch is named with its version") {
  const auto advice = advise({kTorch, kNumpy}, machine(Vendor::kNvidia));
  CHECK(advice.libraries.front() == "torch 1.13 (CPU build)");
  CHECK_FALSE(advice.facts.front().can_use_gpu);
  CHECK(says(advice.suggestions, "install a CUDA build"));
}

TEST_CASE("for an unused CUDA build of PyTorch, the suggestion is to move the work to the GPU") {
  const auto advice = advise({kTorch, "/v/torch/lib/libtorch_cuda.so"}, machine(Vendor::kNvidia));
  CHECK(advice.libraries.front() == "torch 1.13 (CUDA build)");
  CHECK(advice.facts.front().can_use_gpu);
  CHECK(says(advice.suggestions, "model.to(\"cuda\")"));
}

TEST_CASE("suggestions depend on the GPU's vendor") {
  CHECK(says(advise({kTorch}, machine(Vendor::kAmd)).suggestions, "rocm"));
  CHECK(says(advise({kTorch}, machine(Vendor::kIntel)).suggestions, "xpu"));
  CHECK(advise({kSklearn}, machine(Vendor::kAmd)).suggestions.empty());
}

TEST_CASE("without a usable GPU there is no suggestion for the program") {
  Snapshot bare = machine(Vendor::kNvidia);
  bare.devices.erase(bare.devices.begin());
  for (const Snapshot& snapshot : {bare, Snapshot{}, machine(Vendor::kNvidia, Health::kLost)}) {
    const auto advice = advise({kTorch, kNumpy}, snapshot);
    CHECK(advice.libraries.size() == 2);
    CHECK(advice.suggestions.empty());
  }
}

TEST_CASE("TensorFlow and JAX count as GPU builds only with their CUDA parts") {
  const std::string tf = "/v/tensorflow/libtensorflow_framework.so.2";
  CHECK(says(advise({tf}, machine(Vendor::kNvidia)).suggestions, "tensorflow[and-cuda]"));
  CHECK(says(advise({tf, "/v/nvidia/cuda_runtime/lib/libcudart.so.12"}, machine(Vendor::kNvidia))
                 .suggestions,
             "list_physical_devices"));
  const std::string jax = "/v/jaxlib/libjax_common.so";
  CHECK(says(advise({jax}, machine(Vendor::kNvidia)).suggestions, "jax[cuda12]"));
  CHECK(says(advise({jax, "/v/jax_plugins/xla_cuda12/xla_cuda_plugin.so"}, machine(Vendor::kNvidia))
                 .suggestions,
             "jax.devices()"));
}

TEST_CASE("at most three suggestions, whatever is loaded") {
  const auto advice = advise({kTorch, "/v/libtensorflow_framework.so", "/v/jaxlib/x.so",
                              "/v/libxgboost.so", "/v/pandas/_libs/a.so", kSklearn, kNumpy},
                             machine(Vendor::kNvidia));
  CHECK(advice.libraries.size() == 7);
  CHECK(advice.suggestions.size() == 3);
}

TEST_CASE("a deleted, broken or endless path is only a path") {
  const std::string endless(100000, '/');
  const auto advice = advise({kTorch + " (deleted)", "\xff\xfe/libtorch_cpu.so.", "", endless,
                              "/x/libtorch_cpu.so.1.2.3.4.5.6.7.8.9.10.11.12.13"},
                             machine(Vendor::kNvidia));
  CHECK(advice.libraries == std::vector<std::string>{"torch 1.13 (CPU build)"});
  CHECK(advise({"/x/libtorch_cpu.so.1."}, machine(Vendor::kNvidia)).facts.front().version.empty());
}

TEST_CASE("advice is given in Chinese too") {
  berth::set_language(berth::Language::kChinese);
  const auto advice = advise({kTorch}, machine(Vendor::kNvidia));
  berth::set_language(berth::Language::kEnglish);
  CHECK(advice.libraries.front() == "torch 1.13 (CPU 版)");
  CHECK(says(advice.suggestions, "CUDA 版"));
}
