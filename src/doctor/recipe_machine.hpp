// The machine that a recipe is asked for: this one as its facts show it, or another that somebody
// describes.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.hpp"
#include "doctor/recipe.hpp"

namespace berth::doctor {

struct RecipeMachine {
  struct Gpu {
    std::string name, capability;  // "": not known
  };
  Wish wish;           // its capabilities are those of `gpus`, once these are settled
  std::string driver;  // as it is told; "" not known
  std::vector<Gpu> gpus;
  std::string why_cpu;  // where nobody asked for the CPU
  std::vector<std::string> notes;
  std::string instead;  // a Jetson's own command: no build of the tables runs there
  PackageIndex index;
  bool is_another = false;

  /// Forgets what this machine has but its Python: the other's are said, or not known.
  void become_another();
};

[[nodiscard]] RecipeMachine machine_for_recipe(const Facts& facts, Framework framework, bool cpu);

}  // namespace berth::doctor
