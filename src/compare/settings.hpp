// Which settings `berth compare` runs. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "model/comparison.hpp"

namespace berth::compare {

/// What a setting changes besides the number of devices: a preset, or variables.
struct Change {
  std::string preset;
  std::vector<std::pair<std::string, std::string>> variables;
  std::string statement;
};

/// What the user wants to compare.
struct Wish {
  bool cpu = false;
  std::vector<int> gpus;
  std::vector<int> threads;
  std::vector<Change> changes;

  [[nodiscard]] bool names_no_device() const { return !cpu && gpus.empty() && threads.empty(); }
  [[nodiscard]] bool wants_gpu() const { return !gpus.empty() || names_no_device(); }
};

/// What this machine can run.
struct Machine {
  bool has_gpu = false;
  int threads = 1;  // number of threads that a job on the CPU gets
};

/// The thread counts to compare: powers of 2 up to `most`. For 8: 2, 4 and 8. For 2: 1 and 2.
[[nodiscard]] std::vector<int> thread_counts(int most);

/// The settings, in the order in which they run. If the user named none, these are the CPU and one
/// GPU. On a machine without a GPU, these are the CPU with several numbers of threads.
[[nodiscard]] std::vector<model::RunSetting> settings_of(const Wish& wish, const Machine& machine);

}  // namespace berth::compare
