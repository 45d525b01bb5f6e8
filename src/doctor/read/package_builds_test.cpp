#include "doctor/facts/package_builds.hpp"
#include "doctor/read/collectors.hpp"

#include <doctest/doctest.h>

#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::doctor;

TEST_CASE("TensorFlow's build information is read in both forms since 2.1") {
  const PackageBuild conda = parse_package_build("tensorflow", R"(# generated
import collections
build_info = collections.OrderedDict([('cpu_compiler', '/usr/bin/gcc'), ('cuda_compute_capabilities',
 ['sm_35', 'sm_86', 'sm_50', 'compute_86']), ('cuda_version', '11.2'), ('cudnn_version', '8'),
 ('is_cuda_build', True), ('is_rocm_build', False)])
)");
  CHECK(conda.for_cuda.value_or(false));
  CHECK(conda.cuda == "11.2");
  CHECK(conda.cudnn == "8");
  CHECK(conda.sass == std::vector<std::string>{"3.5", "5.0", "8.6"});
  CHECK(conda.ptx == "8.6");
  const PackageBuild old = parse_package_build(
      "tensorflow",
      "is_cuda_build = True\ncuda_version_number=\"10.1\"\ncudnn_version_number = '7'\n");
  CHECK(old.cuda == "10.1");
  CHECK(old.cudnn == "7");
  const PackageBuild none = parse_package_build(
      "tensorflow", "build_info = collections.OrderedDict([('is_cuda_build', False)])");
  CHECK_FALSE(none.for_cuda.value_or(true));
  CHECK(none.cuda.empty());
}

TEST_CASE("build information of other packages") {
  const PackageBuild onnx = parse_package_build(
      "onnxruntime",
      "package_name = 'onnxruntime-gpu'\n__version__ = '1.22.0'\ncuda_version = '12.8'\n");
  CHECK(onnx.package == "onnxruntime-gpu");
  CHECK(onnx.cuda == "12.8");
  CHECK(onnx.for_cuda.value_or(false));
  CHECK_FALSE(
      parse_package_build("onnxruntime", "package_name = 'onnxruntime'").for_cuda.value_or(true));
  const PackageBuild xformers = parse_package_build(
      "xformers",
      R"({"version": {"cuda": 1201, "hip": null, "torch": "2.3.0+cu121", "python": "3.11.9"}, "env": {}})");
  CHECK(xformers.cuda == "12.1");
  CHECK(xformers.torch == "2.3.0+cu121");
  const PackageBuild paddle = parse_package_build(
      "paddlepaddle", "cuda_version     = 'False'\ncudnn_version    = 'False'\n");
  CHECK_FALSE(paddle.for_cuda.value_or(true));
  const PackageBuild for_gpus = parse_package_build("paddlepaddle", "cuda_version = '11.7'");
  CHECK(for_gpus.cuda == "11.7");
  CHECK(for_gpus.package == "paddlepaddle-gpu");
}

TEST_CASE("any other file content gives no build information") {
  for (const char* text :
       {"", "'", "cuda_version", "cuda_version =", "cuda_version = [", "is_cuda_build",
        "('cuda_compute_capabilities', ['sm_', 'sm_1', 'sm_12345', ''",
        "\"cuda\": 99999999999999999999"}) {
    for (const char* package : {"tensorflow", "onnxruntime", "xformers", "paddlepaddle"}) {
      const PackageBuild build = parse_package_build(package, text);
      CHECK(build.cuda.empty());
      CHECK(build.sass.empty());
    }
  }
}

TEST_CASE("the first match in sys.path counts") {
  system::TemporaryTree files;
  files.put("a/onnxruntime/capi/build_and_package_info.py",
            "package_name = 'onnxruntime-gpu'\ncuda_version = '12.2'\n");
  files.put("b/onnxruntime/capi/build_and_package_info.py",
            "package_name = 'onnxruntime-gpu'\ncuda_version = '11.8'\n");
  PythonFacts python;
  python.path = std::vector<PathEntry>{{"/a"}, {"/b"}};
  const auto builds = collect_package_builds(Tree(files.path), python);
  REQUIRE(builds.has_value());
  REQUIRE(builds->size() == 1);
  CHECK(builds->front().cuda == "12.2");
  CHECK(builds->front().path == "/a/onnxruntime/capi/build_and_package_info.py");
}
