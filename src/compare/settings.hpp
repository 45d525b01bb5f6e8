// Which settings `berth compare` runs. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "model/comparison.hpp"

namespace berth::compare {

/// What a setting has besides its devices: a preset, or variables.
struct Change {
  std::string preset;
  std::vector<std::pair<std::string, std::string>> variables;
  std::string statement;
};

/// What was asked for.
struct Wish {
  bool cpu = false;
  std::vector<int> gpus;
  std::vector<int> threads;
  std::vector<Change> changes;

  [[nodiscard]] bool names_no_device() const { return !cpu && gpus.empty() && threads.empty(); }
  [[nodiscard]] bool wants_gpu() const { return !gpus.empty() || names_no_device(); }
};

/// What can be run here.
struct Machine {
  bool has_gpu = false;
  int threads = 1;  // of a job on the CPU
};

/// 8 → 2, 4, 8; 2 → 1, 2.
[[nodiscard]] std::vector<int> thread_counts(int most);

/// In the order in which they run. A wish without devices: the CPU and one GPU. Instead of a GPU
/// that the machine does not have: the CPU with several numbers of threads.
[[nodiscard]] std::vector<model::RunSetting> settings_of(const Wish& wish, const Machine& machine);

}  // namespace berth::compare
