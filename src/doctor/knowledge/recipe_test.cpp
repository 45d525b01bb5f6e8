#include "doctor/knowledge/recipe.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "doctor/knowledge/version.hpp"
#include "doctor/knowledge/wish_for_tests.hpp"
#include "doctor/rules/recipe_text.hpp"

using namespace berth::doctor;

namespace {

const Compatibility& known() {
  return shipped_compatibility();
}

}  // namespace

TEST_CASE("a recipe is the newest release that driver, GPU and Python can run") {
  const auto old_driver = recipe_for(known(), wish_for(Framework::kTorch, "3.11", "470.86", "8.6"));
  REQUIRE(old_driver);
  CHECK(old_driver->build.cuda == "11.8");
  Wish pascal = wish_for(Framework::kTorch, "3.11", "550.54.14", "6.1");
  pascal.keep = "2.8.0+cu128";
  const auto kept = recipe_for(known(), pascal);
  REQUIRE(kept);
  CHECK(kept->build.release == "2.8");
  CHECK(kept->build.cuda == "12.6");
  const auto blackwell =
      recipe_for(known(), wish_for(Framework::kTorch, "3.12", "575.51.03", "12.0"));
  REQUIRE(blackwell);
  CHECK(blackwell->build.cuda == "12.8");
  CHECK_FALSE(recipe_for(known(), wish_for(Framework::kTorch, "2.7", "580.95.05", "8.6")));
}

TEST_CASE("a GPU needs a driver that knows it, even if code for an older GPU would run on it") {
  Wish b300 = wish_for(Framework::kTorch, "3.12", "570.124.06", "10.3");
  b300.planned = true;
  CHECK_FALSE(recipe_for(known(), b300));
  CHECK(changes_for(known(), b300).driver == "575.51.03");
  b300.driver = "";
  b300.driver_cuda = "";
  const auto newest = recipe_for(known(), b300);
  REQUIRE(newest);
  CHECK_FALSE(is_older(newest->driver, "575.51.03"));
}

TEST_CASE("every known compute capability has its toolkits") {
  for (const GpuFamily& family : known().families) {
    CAPTURE(family.begins);
    CHECK(known().toolkits_of(family.capability) != nullptr);
  }
}

TEST_CASE("TensorFlow's PTX for Hopper needs a driver of its CUDA release") {
  const auto older =
      recipe_for(known(), wish_for(Framework::kTensorflow, "3.12", "550.54.14", "9.0"));
  REQUIRE(older);
  // TensorFlow releases after this one have PTX of CUDA 12.5, which this driver rejects.
  CHECK(older->build.cuda == "12.3");
  CHECK_FALSE(recipe_for(known(), wish_for(Framework::kTensorflow, "3.13", "550.54.14", "9.0")));
  const auto changes =
      changes_for(known(), wish_for(Framework::kTensorflow, "3.13", "550.54.14", "9.0"));
  CHECK(changes.driver == "555.42.02");
  CHECK(recipe_for(known(), wish_for(Framework::kTensorflow, "3.12", "570.26", "9.0")));
  CHECK(recipe_for(known(), wish_for(Framework::kTensorflow, "3.12", "525.85.12", "8.6")));
  CHECK_FALSE(recipe_for(known(), wish_for(Framework::kTensorflow, "3.8", "525.85.12", "8.6")));
}

TEST_CASE("an old GPU keeps the cuDNN that still serves it, where pip would take a newer one") {
  const auto volta = recipe_for(known(), wish_for(Framework::kJax, "3.12", "570.26", "7.0"));
  REQUIRE(volta);
  CHECK(volta->packages ==
        std::vector<std::string>{"jax[cuda12]==0.12.*", "nvidia-cudnn-cu12==9.10.*"});
  const auto ampere = recipe_for(known(), wish_for(Framework::kJax, "3.12", "570.26", "8.6"));
  REQUIRE(ampere);
  CHECK(ampere->packages.size() == 1);
}

TEST_CASE("behind a mirror of PyPI only builds from PyPI are chosen") {
  Wish wish = wish_for(Framework::kTorch, "3.11", "535.183.01", "8.6");
  wish.pypi_only = true;
  const auto recipe = recipe_for(known(), wish);
  REQUIRE(recipe);
  CHECK(recipe->build.release == "2.10");  // the last release with a CUDA 12 wheel on PyPI
  CHECK(recipe->build.on_pypi);
  wish.tags = {"cu126"};
  CHECK(recipe_for(known(), wish)->build.release == "2.14");  // the last release for CUDA 12
  wish.driver = "470.256.02";
  wish.driver_cuda = "11.4";
  CHECK_FALSE(recipe_for(known(), wish));
  CHECK(changes_for(known(), wish).another_index);
}

TEST_CASE("an index of PyTorch's builds in PyPI's place has these, and no other package") {
  PackageIndex index;
  index.main = IndexAddress{"https://download.pytorch.org/whl/cu121", "PIP_INDEX_URL"};
  Wish wish = wish_for(Framework::kTorch, "3.11", "580.95.05", "9.0");
  keep_to(index, wish);
  const auto recipe = recipe_for(known(), wish);
  REQUIRE(recipe);
  CHECK(recipe->build.tag == "cu121");
  CHECK(recipe->build.release == "2.5");  // the last release for CUDA 12.1
  CHECK(index_of(recipe->build, index).url.empty());
  wish.python = "3.14";
  CHECK_FALSE(recipe_for(known(), wish));
  CHECK(changes_for(known(), wish).another_index);
  Wish jax = wish_for(Framework::kJax, "3.11", "580.95.05", "9.0");
  keep_to(index, jax);
  CHECK_FALSE(recipe_for(known(), jax));
  // An additional index does not limit the choice. An index that has all of PyTorch's builds does
  // not limit it either.
  index.extra.push_back({"https://pypi.org/simple", "PIP_EXTRA_INDEX_URL"});
  keep_to(index, jax);
  CHECK(recipe_for(known(), jax));
  index.extra.clear();
  index.main = IndexAddress{"https://mirror.lab/whl", "PIP_INDEX_URL"};
  wish.python = "3.12";
  keep_to(index, wish);
  const auto newest = recipe_for(known(), wish);
  REQUIRE(newest);
  CHECK(newest->build.release == known().torch.front().version);
  CHECK(index_of(newest->build, index).url == "https://mirror.lab/whl/" + newest->build.tag);
  // An index of nightly builds contains no releases, so there is no recipe.
  index.main = IndexAddress{"https://download.pytorch.org/whl/nightly/cu130", "PIP_INDEX_URL"};
  keep_to(index, wish);
  CHECK_FALSE(recipe_for(known(), wish));
}

TEST_CASE("a planned driver must be one that runs the GPU at all") {
  Wish wish = wish_for(Framework::kCupy, "3.12", "550.54.14", "12.0");
  CHECK(recipe_for(known(), wish));
  wish.planned = true;
  CHECK_FALSE(recipe_for(known(), wish));
  CHECK(changes_for(known(), wish).driver == "570.26");
  Wish volta = wish_for(Framework::kTorch, "3.12", "595.71.05", "7.0");
  volta.planned = true;
  CHECK_FALSE(recipe_for(known(), volta));
  CHECK(changes_for(known(), volta).driver_too_new);
  Wish kepler = wish_for(Framework::kTorch, "3.11", "550.54.14", "3.7");
  kepler.planned = true;
  CHECK_FALSE(recipe_for(known(), kepler));
  CHECK(changes_for(known(), kepler).last_branch == 470);
  // For each capability, either both a last toolkit and a last driver branch are known, or neither.
  // Skips Tegra GPUs, whose drivers are numbered differently.
  for (const ArchToolkits& row : known().archs) {
    CAPTURE(row.capability);
    if (std::set<std::string>{"3.2", "5.3", "6.2", "7.2"}.contains(row.capability)) continue;
    CHECK(row.last.empty() == (row.last_branch == 0));
  }
}

TEST_CASE("a known bad release is excluded by its number") {
  const auto recipe = recipe_for(known(), wish_for(Framework::kJax, "3.10", "570.26", "8.6"));
  REQUIRE(recipe);
  CHECK(recipe->packages.front() == "jax[cuda12]==0.6.*,!=0.6.1");
}

TEST_CASE("recipe texts have valid syntax, and no public index beside a mirror") {
  RecipeOrder order;
  const Wish wish = wish_for(Framework::kTorch, "3.11", "550.54.14", "8.6");
  order.recipe = *recipe_for(known(), wish);
  order.python = "3.11";
  order.image = "python:3.11.14-slim-bookworm";
  order.reasons = {"because"};
  order.choice = index_of(order.recipe.build, order.index);
  order.target.interpreter = std::string("/venv/bin/python");
  CHECK(recipe_text(RecipeFormat::kPip, order) ==
        "# because\n/venv/bin/python -m pip install 'torch==2.14.*' --index-url "
        "https://download.pytorch.org/whl/cu126\n");
  CHECK(recipe_text(RecipeFormat::kConda, order).find("  - python=3.11\n  - pip\n  - pip:\n") !=
        std::string::npos);

  order.index.main = IndexAddress{"https://mirror.lab/simple", "PIP_INDEX_URL"};
  order.choice = index_of(order.recipe.build, order.index);
  CHECK(order.choice.is_unknown);
  order.recipe.build.on_pypi = true;
  order.choice = index_of(order.recipe.build, order.index);
  for (const auto format : {RecipeFormat::kPip, RecipeFormat::kConda, RecipeFormat::kDockerfile})
    CHECK(recipe_text(format, order).find("pytorch.org") == std::string::npos);
  CHECK(recipe_text(RecipeFormat::kDockerfile, order)
            .find("ARG PIP_INDEX_URL=https://mirror.lab/simple\n") != std::string::npos);
  order.index.main = IndexAddress{"https://mirror.lab/simple", "PIP_INDEX_URL", true};
  const std::string secret = recipe_text(RecipeFormat::kDockerfile, order);
  CHECK(secret.find("mirror.lab") == std::string::npos);
  CHECK(secret.find("--mount=type=secret,id=pip,target=/etc/pip.conf") != std::string::npos);
}

TEST_CASE("an older driver or Python gets an older CuPy with its toolkit") {
  const auto newest = recipe_for(known(), wish_for(Framework::kCupy, "3.12", "580.95.05", "8.6"));
  REQUIRE(newest);
  CHECK(newest->packages.front().starts_with("cupy-cuda13x[ctk]==14.*"));
  CHECK_FALSE(newest->build.needs_toolkit);
  const auto old_driver =
      recipe_for(known(), wish_for(Framework::kCupy, "3.12", "470.82.01", "8.6"));
  REQUIRE(old_driver);
  CHECK(old_driver->packages.front() == "cupy-cuda11x==13.*");
  CHECK(old_driver->build.needs_toolkit);
  const auto old_python =
      recipe_for(known(), wish_for(Framework::kCupy, "3.9", "550.54.14", "8.6"));
  REQUIRE(old_python);
  CHECK(old_python->packages.front() == "cupy-cuda12x==13.*");
  Wish image = wish_for(Framework::kCupy, "3.9", "550.54.14", "8.6");
  image.no_toolkit = true;
  CHECK_FALSE(recipe_for(known(), image));
}

namespace {

Build build_of(Framework framework, const char* release, int major) {
  for (const Build& one : builds_of(known(), framework, Platform::kNvidia, false))
    if (one.release == release && version_of(one.cuda)[0] == major) return one;
  FAIL("no build of ", word_of(framework), " ", release);
  return {};
}

}  // namespace

TEST_CASE("frameworks go together if one CUDA and one cuDNN suit both") {
  using enum Framework;
  const auto clash = [](Framework one, const char* release, Framework other, const char* others,
                        int major, int others_major = 0) {
    return clash_of(known(), one, build_of(one, release, major), other,
                    build_of(other, others, others_major == 0 ? major : others_major));
  };
  CHECK(clash(kTorch, "2.14", kJax, "0.10", 12) == Clash::kNone);
  CHECK(clash(kTorch, "2.14", kTensorflow, "2.21", 12) == Clash::kNone);
  CHECK(clash(kJax, "0.10", kTensorflow, "2.20", 12) == Clash::kNone);
  CHECK(clash(kTorch, "2.14", kOnnxruntime, "1.26", 12) == Clash::kNone);
  CHECK(clash(kTorch, "2.15", kTensorflow, "2.21", 13, 12) == Clash::kCudaMajor);
  // No cuDNN fits both: TensorFlow 2.19 requires 9.3.0.75, and JAX 9.8 or newer.
  CHECK(clash(kJax, "0.10", kTensorflow, "2.19", 12) == Clash::kCudnn);
  CHECK(clash(kTorch, "2.3", kJax, "0.10", 12) == Clash::kCudnn);
  // The order of the frameworks does not change the answer.
  CHECK(clash(kTensorflow, "2.19", kJax, "0.10", 12) == Clash::kCudnn);
  const Build cpu = builds_of(known(), kTorch, Platform::kCpu, false).front();
  CHECK(clash_of(known(), kTorch, cpu, kTensorflow, build_of(kTensorflow, "2.19", 12)) ==
        Clash::kNone);
}

TEST_CASE("a recipe keeps to one CUDA major") {
  Wish wish = wish_for(Framework::kTorch, "3.12", "580.95.05", "8.0");
  CHECK(version_of(recipe_for(known(), wish)->build.cuda)[0] == 13);
  wish.cuda_major = 12;
  CHECK(version_of(recipe_for(known(), wish)->build.cuda)[0] == 12);
  wish.cuda_major = 14;
  CHECK_FALSE(recipe_for(known(), wish));
}
