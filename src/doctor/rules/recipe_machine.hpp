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
    std::string name, capability;  // "" if unknown
  };
  /// The caller must fill `wish.capabilities` from `gpus` when all GPUs are known.
  Wish wish;
  std::string driver;  // driver version as the user wrote it; "" if unknown
  std::vector<Gpu> gpus;
  std::string why_cpu;  // why the recipe is for the CPU, if the user did not request this
  std::vector<std::string> notes;
  /// For a Jetson, the command to install instead: no build in the tables works there.
  std::string instead;
  PackageIndex index;
  bool is_another = false;

  /// Clears all properties except the Python, for the description of another machine.
  void become_another();
};

[[nodiscard]] RecipeMachine machine_for_recipe(const Facts& facts, Framework framework, bool cpu);

}  // namespace berth::doctor
