// One program in several settings, for `berth compare`. Plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::model {

/// One way to start the program.
struct RunSetting {
  int gpus = 0;                // 0: on the CPU
  std::optional<int> threads;  // cores and threads; nullopt: as `berth run` chooses
  std::string preset;          // the name of what follows; "" none
  std::vector<std::pair<std::string, std::string>> variables;
  std::string statement;  // Python, to run after `import torch`; "" none
};

/// The options of `berth run` for it, without the variables.
[[nodiscard]] std::vector<std::string> run_options(const RunSetting& setting);
/// The shell command that runs `command` in it: "NAME=value berth run --cpu -- python train.py".
[[nodiscard]] std::string run_line(const RunSetting& setting,
                                   const std::vector<std::string>& command);

/// What one run took. nullopt: unknown.
struct RunFigures {
  double wall_seconds = 0;
  std::optional<double> cpu_seconds, memory_bytes, device_memory_bytes, energy_millijoules;
  std::optional<int> threads;        // that `berth run` allowed
  std::vector<std::string> devices;  // names of the GPUs
  std::string gpu_use;               // as in the report of `berth run`
};

/// Several runs of one setting.
struct Spread {
  double median = 0, least = 0, most = 0;
  std::size_t runs = 0;
};

/// Where the outputs of two settings differ.
struct OutputDifference {
  std::size_t line = 0;         // of the first difference; of an array: index of the element
  std::string expected, found;  // there; printable
  bool in_shape = false;        // one has more values, or other words
  std::size_t numbers = 0;      // that differ
  double largest_relative = 0;  // of these
};

/// Whether the output of a setting is that of the first one.
struct OutputCheck {
  enum class State { kSame, kDiffers, kUnstable } state = State::kSame;
  // kUnstable: its own runs differ in more than numbers
  std::optional<OutputDifference> difference;
  bool repeats = false;      // both settings ran several times, with the same results each time
  std::size_t compared = 0;  // numbers
  std::size_t varying = 0;   // numbers that differ between runs of one setting: not compared
};

struct SettingResult {
  RunSetting setting;
  std::vector<RunFigures> runs;       // without the warm-up
  std::string out_of_race;            // why it cannot win, translated; "" it can
  std::string hint;                   // what to do about that; "" nothing
  std::optional<int> exit_code;       // of a run that failed
  std::optional<OutputCheck> output;  // nullopt: not compared
  std::string last_words;             // that run's last lines on standard error, untrusted
  // Filled by compare::judge().
  std::optional<Spread> wall_seconds, cpu_seconds, memory_bytes, device_memory_bytes,
      energy_millijoules;
  std::optional<double> ratio;  // its median time, divided by that of the fastest setting
  bool as_fast = false;         // its time does not differ from the fastest by more than the spread
};

/// The best setting with a GPU beside the best one without.
struct GpuWorth {
  enum class Verdict { kUnused, kFaster, kSame, kSlower } verdict = Verdict::kSame;
  std::size_t gpu = 0, cpu = 0;  // their indices
};

struct Comparison {
  std::vector<std::string> command;
  int runs = 0, warmups = 0;
  std::vector<SettingResult> settings;
  std::string compared_output;  // "-", or the file; "" none
  std::string no_gpu;  // why settings with a GPU were left out, translated; "" they were not
  // Filled by compare::judge().
  std::optional<std::size_t> winner;
  std::optional<GpuWorth> gpu_worth;  // nullopt: not both kinds finished
};

}  // namespace berth::model
