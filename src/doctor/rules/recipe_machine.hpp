// The machine for which a recipe is requested: this machine, described by its facts, or another
// one, which the user describes.
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
  Wish wish;           // `capabilities` is filled in when `gpus` is complete
  std::string driver;  // driver version in the user's words; "" unknown
  std::vector<Gpu> gpus;
  std::string why_cpu;  // why the recipe is for the CPU, if the user did not request this
  std::vector<std::string> notes;
  std::string instead;  // for a Jetson, where no build of the tables works: what to install
  PackageIndex index;
  bool is_another = false;

  /// Clears all properties except the Python, for the description of another machine.
  void become_another();
};

[[nodiscard]] RecipeMachine machine_for_recipe(const Facts& facts, Framework framework, bool cpu);

}  // namespace berth::doctor
