#include <doctest/doctest.h>

#include <cmath>

#include "base/json.hpp"
#include "plan/memory.hpp"

using namespace berth::plan;

// data/model_zoo.toml, as berth_embed() in CMake puts it into the program.
extern "C" {
extern const char berth_plan_models[];
extern const char berth_plan_models_end[];
}

TEST_CASE("every row of the zoo is found by its names and has the memory of its parameters") {
  const auto zoo = nlohmann::json::parse(berth_plan_models, berth_plan_models_end);
  for (const auto& row : zoo.at("model_zoo").at("model")) {
    const std::string name = row.at("name");
    CAPTURE(name);
    const auto model = find_model(name);
    REQUIRE(model);
    CHECK(model->name == name);
    CHECK(find_model(row.value("hf_id", name))->name == name);
    CHECK_FALSE(row.value("source", "").empty());
    CHECK_FALSE(row.value("params_from", "").empty());
    Work work;
    work.precision = Precision::kFp32;
    work.on_images = model->is_of_images();
    const Memory memory = memory_of(*model, work);
    CHECK(model->params > 0);
    CHECK(memory.weights == 4 * model->params);
    CHECK(std::isfinite(memory.peak()));
    CHECK(safe_bytes(memory, work) >= memory.peak());
  }
}

TEST_CASE("names that differ only in a point are two models") {
  CHECK(find_model("facebook/opt-13b")->params > 12e9);
  CHECK(find_model("OPT-13B")->params > 12e9);
  CHECK(find_model("facebook/opt-1.3b")->params < 2e9);
}

TEST_CASE("weights of a 7B model in 16 bit are two bytes a parameter") {
  const auto model = find_model("meta-llama/Llama-2-7b");
  REQUIRE(model);
  CHECK(memory_of(*model, {}).weights == doctest::Approx(2 * 6738415616.0));
  Work nf4;
  nf4.precision = Precision::kNf4;
  CHECK(memory_of(*model, nf4).weights < 0.7 * 6738415616.0);
}

TEST_CASE("full training in amp keeps sixteen bytes a parameter before activations") {
  const auto model = find_model("llama-3.1-8b");
  REQUIRE(model);
  Work work;
  work.task = Task::kTrain;
  work.precision = Precision::kAmp;
  const Memory memory = memory_of(*model, work);
  CHECK(memory.weights + memory.gradients + memory.optimizer ==
        doctest::Approx(16 * model->params));
}

TEST_CASE("a larger model or batch never needs less memory") {
  const auto model = find_model("Qwen2.5-7B");
  REQUIRE(model);
  for (const Task task :
       {Task::kInference, Task::kTrain, Task::kFinetune, Task::kLora, Task::kQlora}) {
    Work work;
    work.task = task;
    if (task == Task::kQlora) work.precision = Precision::kNf4;
    double before = 0;
    for (work.batch = 1; work.batch < 100; work.batch *= 2) {
      const double peak = memory_of(*model, work).peak();
      CHECK(peak >= before);
      CHECK(safe_bytes(memory_of(*model, work), work) >= peak);
      Work saving = work;
      saving.checkpointing = true;
      CHECK(memory_of(*model, saving).peak() <= peak);
      before = peak;
    }
  }
}

TEST_CASE("each stage of ZeRO shards one more part among the GPUs") {
  const auto model = find_model("Llama-3.1-8B");
  REQUIRE(model);
  Work work;
  work.task = Task::kTrain;
  work.precision = Precision::kAmp;
  const Memory one = memory_of(*model, work);
  work.gpus = 8;
  const auto at = [&](int stage) {
    work.zero = stage;
    return memory_of(*model, work);
  };
  CHECK(at(0).optimizer == one.optimizer);
  // On several GPUs, DistributedDataParallel needs additional memory on each GPU, because it copies
  // the gradients into buckets.
  CHECK(at(0).peak() == doctest::Approx(one.peak() + 4 * model->params));
  CHECK(at(1).optimizer == one.optimizer / 8);
  CHECK(at(1).gradients == one.gradients);
  CHECK(at(2).gradients == one.gradients / 8);
  CHECK(at(2).weights == one.weights);
  CHECK(at(3).weights == one.weights / 8);
  CHECK(at(3).activations == one.activations);
  for (int stage = 1; stage <= 3; ++stage) CHECK(at(stage).peak() < at(stage - 1).peak());
}

TEST_CASE("inference on several GPUs splits weights and cache, and a KV precision the cache") {
  const auto model = find_model("Llama-3.1-70B");
  REQUIRE(model);
  Work work;
  const Memory one = memory_of(*model, work);
  work.gpus = 4;
  const Memory four = memory_of(*model, work);
  CHECK(four.weights == one.weights / 4);
  CHECK(four.kv_cache == one.kv_cache / 4);
  CHECK(four.context == one.context);
  work.kv = kv_precision_of("int8");
  REQUIRE(work.kv);
  CHECK(memory_of(*model, work).kv_cache == doctest::Approx(four.kv_cache * 34 / 64));
  work.kv = kv_precision_of("fp8");
  CHECK(memory_of(*model, work).kv_cache == four.kv_cache / 2);
  CHECK_FALSE(kv_precision_of("int3"));
}

TEST_CASE("an unknown model or GPU is an error that names near ones") {
  const auto model = find_model("Llama-3.1-8C");
  REQUIRE_FALSE(model);
  CHECK(model.error().id == "E0970");
  CHECK(model.error().message.find("Llama-3.1-8B") != std::string::npos);
  CHECK(find_model("").error().id == "E0970");
  // The catalogue has no layers of this model, so only a part of its memory is known.
  const auto partial = find_model("timm/vit_huge_patch14_224.orig_in21k");
  REQUIRE(partial);
  CHECK(memory_of(*partial, {}).is_partial);
  CHECK(memory_of(*partial, {}).activations == 0);
  const auto gpu = find_gpu("RTX 4091");
  REQUIRE_FALSE(gpu);
  CHECK(gpu.error().id == "E0972");
  CHECK(gpu.error().message.find("4090") != std::string::npos);
  CHECK_FALSE(find_gpu("").has_value());
  // Several GPUs with this name have different memory, so the name is rejected.
  const auto several = find_gpu("A100");
  REQUIRE_FALSE(several);
  CHECK(several.error().message.find("A100 PCIe 40GB, A100 PCIe 80GB") != std::string::npos);
}

TEST_CASE("a GPU is found in any case, with or without its maker") {
  const auto gpu = find_gpu("nvidia geforce rtx 4090");
  REQUIRE(gpu);
  CHECK(gpu->memory_bytes == doctest::Approx(24.0 * 1024 * 1024 * 1024));
}

TEST_CASE("absurd numbers of parameters are refused") {
  CHECK(*parse_params("7B") == 7e9);
  CHECK(*parse_params("350M") == 350e6);
  for (const char* bad : {"", "-7B", "0", "nan", "inf", "1e300", "7X", "7 B", "B", "99999T"})
    CHECK(parse_params(bad).error().id == "E0973");
}

TEST_CASE("a size alone gets the shape of the nearest model") {
  const Model model = model_of_size(7e9);
  CHECK_FALSE(model.shape_from.empty());
  CHECK(model.params == 7e9);
  CHECK(model.layers > 20);
}

TEST_CASE("a network of convolutions keeps the outputs of its layers for each image") {
  const auto model = find_model("resnet50");
  REQUIRE(model);
  Work work;
  work.task = Task::kTrain;
  work.precision = Precision::kFp32;
  work.optimizer = Optimizer::kSgdMomentum;
  work.batch = 32;
  work.on_images = true;
  const Memory training = memory_of(*model, work);
  CHECK_FALSE(training.is_partial);
  CHECK(training.activations == doctest::Approx(32 * 85.9e6).epsilon(0.01));
  work.precision = Precision::kAmp;
  CHECK(memory_of(*model, work).activations == doctest::Approx(16 * 85.9e6).epsilon(0.01));
  CHECK(accuracy_of(work).cases == 0);
  work.checkpointing = true;
  CHECK(memory_of(*model, work).is_partial);
  work = Work{};
  work.on_images = true;
  CHECK(memory_of(*model, work).activations > 0);
  CHECK(memory_of(*model, work).kv_cache == 0);
}

TEST_CASE("a detector is found by the names of its configuration and of its table") {
  for (const char* name :
       {"mask_rcnn_R_50_FPN", "Mask R-CNN R50-FPN", "detectron2/mask_rcnn_R_50_FPN_3x",
        "mask_rcnn_R_50_FPN_1x", "Mask R-CNN: R50-FPN"}) {
    const auto model = find_model(name);
    REQUIRE_MESSAGE(model, name);
    CHECK(model->params == 44'343'216);
    CHECK(model->image_size == "1344 × 800");
  }
  for (const char* name : {"Faster R-CNN X101-FPN", "RetinaNet R101", "Panoptic FPN R50-FPN"})
    CHECK_MESSAGE(find_model(name), name);
  CHECK(find_model("Mask R-CNN").error().message.find("mask_rcnn_R_50") != std::string::npos);
}

TEST_CASE("frozen layers of a detector have no gradient and no state of the optimizer") {
  const auto model = find_model("faster_rcnn_R_50_FPN");
  REQUIRE(model);
  Work work;
  work.task = Task::kTrain;
  work.precision = Precision::kFp32;
  work.optimizer = Optimizer::kSgdMomentum;
  work.on_images = work.detects = true;
  const Memory one = memory_of(*model, work);
  CHECK(model->frozen_params > 0);
  CHECK(one.gradients == 4 * (model->params - model->frozen_params));
  CHECK(one.optimizer == one.gradients);
  CHECK(one.weights == 4 * model->params);
  work.batch = 2;
  CHECK(memory_of(*model, work).activations == 2 * one.activations);
  CHECK(accuracy_of(work).cases == 24);
  work.task = Task::kInference;
  CHECK(accuracy_of(work).cases == 0);
}

TEST_CASE("the step of AdamW needs two copies in PyTorch 2.0, one later, and a tensor's before") {
  const auto model = find_model("Llama-3.1-8B");
  REQUIRE(model);
  Work work;
  work.task = Task::kTrain;
  work.precision = Precision::kBf16;
  work.checkpointing = true;
  work.seq = 128;
  const auto workspace = [&](const char* version) {
    work.torch = *torch_version_of(version);
    return memory_of(*model, work).workspace;
  };
  const double all = 2 * model->params;
  CHECK(workspace("2.1") == all);
  CHECK(workspace("2.15.0+cu132") == all);
  CHECK(workspace("2.0.1") == 2 * all);
  CHECK(workspace("1.13") < 0.2 * all);
  // ZeRO means DeepSpeed's Adam, for which PyTorch's version does not matter
  work.gpus = 2, work.zero = 2;
  CHECK(workspace("2.0") == workspace("2.1"));
  work = Work{};
  work.torch = {2, 0};
  CHECK(memory_of(*model, work).peak() == memory_of(*model, Work{}).peak());
  for (const char* bad : {"", "2", "two", "2.", "2.x", "-1.0", "2.0x", "0.4", "99999999999.0"})
    CHECK_MESSAGE(!torch_version_of(bad), bad);
}

TEST_CASE("fragmentation of a growing cache is reserved, but not allocated") {
  const auto model = find_model("Llama-3.1-8B");
  REQUIRE(model);
  const Memory memory = memory_of(*model, {});
  CHECK(memory.fragmentation == memory.kv_cache / 2);
  CHECK(memory.reserved() == memory.allocated() + memory.fragmentation);
  CHECK(memory.peak() == memory.reserved() + memory.context);
}

TEST_CASE("the loss of adapters on a GPTQ model is in 16 bit") {
  const auto model = find_model("Llama-2-7b");
  REQUIRE(model);
  Work work;
  work.task = Task::kQlora;
  work.checkpointing = true;
  work.seq = 4096;
  const auto activations = [&](Precision precision) {
    work.precision = precision;
    return memory_of(*model, work).activations;
  };
  CHECK(activations(Precision::kNf4) - activations(Precision::kInt4) ==
        doctest::Approx(4 * model->vocab * work.seq));
}

TEST_CASE("a model with half its layers has half their parameters, memory and cache") {
  const auto model = find_model("Llama-3.1-8B");
  REQUIRE(model);
  const Model half = with_layers(*model, 16);
  const double embedding = 2 * model->vocab * model->hidden;
  CHECK(half.params - embedding == doctest::Approx((model->params - embedding) / 2));
  CHECK(memory_of(half, {}).kv_cache == memory_of(*model, {}).kv_cache / 2);
  CHECK(half.hidden == model->hidden);
  // A model that is given by its number of parameters keeps that number. With more layers, it
  // becomes narrower.
  const Model size = model_of_size(7e9);
  const Model deep = with_layers(size, 2 * size.layers);
  CHECK(deep.params == size.params);
  CHECK(deep.hidden == doctest::Approx(size.hidden / std::sqrt(2)));
}
