// Tests recipes for many rows of the tables. It is built without sanitizers, because it would take
// minutes with them.
#include "doctor/knowledge/recipe.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "doctor/knowledge/version.hpp"
#include "doctor/knowledge/wish_for_tests.hpp"

using namespace berth::doctor;

namespace {

const Compatibility& known() {
  return shipped_compatibility();
}

/// Checks that the tables allow the recipe. Does not call the code that found the recipe.
void check_against_tables(const Wish& wish, const Recipe& recipe) {
  CHECK(in_range(wish.python, recipe.build.python));
  const std::string major = known().driver_for(recipe.build.cuda);
  REQUIRE_FALSE(major.empty());
  CHECK_FALSE(is_older(wish.driver, major));
  CHECK_FALSE(is_older(wish.driver, recipe.driver));
  const ArchToolkits* bounds = known().toolkits_of(wish.capabilities.front());
  REQUIRE(bounds != nullptr);
  // For 10.3, a toolkit that can compile for 10.0 is enough, because code for 10.0 also runs on
  // 10.3.
  CHECK(std::any_of(known().archs.begin(), known().archs.end(), [&](const ArchToolkits& row) {
    return sass_serves({row.capability}, bounds->capability) &&
           (row.first.empty() || !is_older(recipe.build.cuda, row.first));
  }));
  CHECK_FALSE((!bounds->last.empty() && is_older(bounds->last, recipe.build.cuda)));
  if (wish.planned && !bounds->first.empty())
    CHECK_FALSE(is_older(wish.driver, known().driver_made_for(bounds->first)));
  if (wish.framework == Framework::kTorch) {
    const bool listed =
        std::any_of(known().torch.begin(), known().torch.end(), [&](const TorchRelease& row) {
          return row.version == recipe.build.release && row.python == recipe.build.python &&
                 std::find(row.cuda.begin(), row.cuda.end(), recipe.build.cuda) != row.cuda.end();
        });
    CHECK(listed);
  }
  if (recipe.by_ptx) CHECK_FALSE(is_older(wish.driver_cuda, recipe.build.cuda));
}

/// Makes each change that was suggested, and checks that a recipe then exists.
void check_changes(const Wish& wish, const Changes& changes) {
  Wish other = wish;
  const auto with_driver = [&](const std::string& driver) {
    other.driver = driver;
    other.driver_cuda = known().cuda_of_driver(driver);
  };
  if (changes.both) {
    with_driver("580.95.05");
    other.python = changes.pythons.front();
    CHECK(recipe_for(known(), other));
    return;
  }
  if (!changes.driver.empty()) {
    with_driver(changes.driver);
    CHECK(recipe_for(known(), other));
    // A newer driver was suggested, so the current one must be too old.
    if (!changes.driver_too_new) CHECK(is_older(wish.driver, changes.driver));
  }
  other = wish;
  for (const std::string& python : changes.pythons) {
    other.python = python;
    CHECK(recipe_for(known(), other));
  }
  if (!changes.driver.empty() || !changes.pythons.empty()) return;
  for (const char* driver : {"470.256.02", "535.183.01", "580.95.05"})
    for (int minor = 6; minor < 16; ++minor) {
      with_driver(driver);
      other.python = "3." + std::to_string(minor);
      CHECK_FALSE(recipe_for(known(), other));
    }
}

}  // namespace

TEST_CASE("a recipe obeys every row of the tables, or names the obstacle") {
  int recipes = 0, stopped = 0;
  for (const Framework framework : {Framework::kTorch, Framework::kTensorflow, Framework::kJax,
                                    Framework::kCupy, Framework::kOnnxruntime})
    for (const char* driver : {"470.256.02", "525.147.05", "535.183.01", "550.54.14", "570.124.06",
                               "580.95.05", "595.71.05"})
      for (const char* capability : {"5.2", "7.0", "8.6", "9.0", "10.0", "10.3", "12.0"})
        for (const char* python : {"3.9", "3.10", "3.11", "3.12", "3.13", "3.14"})
          for (const bool planned : {false, true}) {
            Wish wish = wish_for(framework, python, driver, capability);
            wish.planned = planned;
            CAPTURE(word_of(framework));
            CAPTURE(driver);
            CAPTURE(capability);
            CAPTURE(python);
            CAPTURE(planned);
            if (const auto recipe = recipe_for(known(), wish)) {
              ++recipes;
              check_against_tables(wish, *recipe);
            } else {
              ++stopped;
              check_changes(wish, changes_for(known(), wish));
            }
          }
  CHECK(recipes > 500);
  CHECK(stopped > 500);
}
