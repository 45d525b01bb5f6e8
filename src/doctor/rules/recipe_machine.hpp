// The machine for which a recipe is requested: this one according to its facts, or another that the
// user describes.
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
  Wish wish;           // its capabilities are set from `gpus` when those are final
  std::string driver;  // as the user gave it; "" unknown
  std::vector<Gpu> gpus;
  std::string why_cpu;  // if the user did not request the CPU
  std::vector<std::string> notes;
  std::string instead;  // a Jetson's special command, because no build in the tables runs there
  PackageIndex index;
  bool is_another = false;

  /// Clears this machine's properties except its Python; the other's are given or unknown.
  void become_another();
};

[[nodiscard]] RecipeMachine machine_for_recipe(const Facts& facts, Framework framework, bool cpu);

}  // namespace berth::doctor
