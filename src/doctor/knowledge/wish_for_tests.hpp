// wish_for(): the request for a recipe on a given machine. All tests of recipes use it.
#pragma once

#include "doctor/knowledge/recipe.hpp"

namespace berth::doctor {

[[nodiscard]] inline Wish wish_for(Framework framework, const char* python, const char* driver,
                                   const char* capability) {
  Wish wish;
  wish.framework = framework;
  wish.python = python;
  wish.driver = driver;
  wish.driver_cuda = shipped_compatibility().cuda_of_driver(driver);
  wish.capabilities = {capability};
  return wish;
}

}  // namespace berth::doctor
