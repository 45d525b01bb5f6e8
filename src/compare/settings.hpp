// Which settings `berth compare` runs. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "model/comparison.hpp"

namespace berth::compare {

/// What a setting changes besides its devices: a preset, or variables.
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
  int threads = 1;  // threads of a job on the CPU
};

/// The thread counts to compare: 2, 4 and 8 for `most` = 8; 1 and 2 for `most` = 2.
[[nodiscard]] std::vector<int> thread_counts(int most);

/// The settings, in the order in which they run. If the wish names no devices, these are the CPU
/// and one GPU; on a machine without GPU, the CPU with several numbers of threads instead.
[[nodiscard]] std::vector<model::RunSetting> settings_of(const Wish& wish, const Machine& machine);

}  // namespace berth::compare
