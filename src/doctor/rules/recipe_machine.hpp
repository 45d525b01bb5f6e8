// The machine for which a recipe is requested: this machine according to its facts, or another one
// that the user describes.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/facts.hpp"
#include "doctor/knowledge/recipe.hpp"

namespace berth::doctor {

struct RecipeMachine {
  struct Gpu {
    std::string name, capability;  // "": unknown
  };
  Wish wish;           // its capabilities are filled in from `gpus` when that list is complete
  std::string driver;  // driver version as the user gave it; "" unknown
  std::vector<Gpu> gpus;
  std::string why_cpu;  // why the recipe is for the CPU, unless the user requested that
  std::vector<std::string> notes;
  std::string instead;  // a special command for a Jetson, because no build in the tables runs there
  PackageIndex index;
  bool is_another = false;

  /// Clears the properties of this machine except its Python, so that those of another machine can
  /// be filled in or stay unknown.
  void become_another();
};

[[nodiscard]] RecipeMachine machine_for_recipe(const Facts& facts, Framework framework, bool cpu);

}  // namespace berth::doctor
