// Runs of one program with several settings, for `berth compare`. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::model {

/// One way to start the program.
struct RunSetting {
  int gpus = 0;                // number of GPUs; 0: on the CPU
  std::optional<int> threads;  // number of cores and threads; nullopt: as `berth run` chooses
  std::string preset;          // name of the preset that set the members below; "" none
  std::vector<std::pair<std::string, std::string>> variables;
  std::string statement;  // a Python statement to run after `import torch`; "" none
};

/// The options of `berth run` for this setting, without the variables.
[[nodiscard]] std::vector<std::string> run_options(const RunSetting& setting);
/// The shell command that runs `command` with this setting: "NAME=value berth run --cpu -- python
/// train.py".
[[nodiscard]] std::string run_line(const RunSetting& setting,
                                   const std::vector<std::string>& command);

/// The figures of one run. nullopt: unknown.
struct RunFigures {
  double wall_seconds = 0;
  std::optional<double> cpu_seconds, memory_bytes, device_memory_bytes, energy_millijoules;
  std::optional<int> threads;        // number of threads that `berth run` allowed
  std::vector<std::string> devices;  // names of the GPUs
  std::string gpu_use;               // use of the GPU, as in the report of `berth run`
};

/// Several runs of one setting.
struct Spread {
  double median = 0, least = 0, most = 0;
  std::size_t runs = 0;
};

/// The place where the outputs of two settings differ.
struct OutputDifference {
  std::size_t line = 0;  // line of the first difference; for an array, the index of the element
  std::string expected, found;  // the text at this place; printable
  bool in_shape = false;        // one output has more values than the other, or other words
  std::size_t numbers = 0;      // how many numbers differ
  double largest_relative = 0;  // the largest relative difference of a number
};

/// Whether the output of a setting equals that of the first setting.
struct OutputCheck {
  enum class State { kSame, kDiffers, kUnstable } state = State::kSame;
  // Not set for kUnstable, which means that the runs of one setting differ in more than numbers.
  std::optional<OutputDifference> difference;
  // Each of the two settings ran several times, and all its runs gave equal results.
  bool repeats = false;
  std::size_t compared = 0;  // how many numbers were compared
  // How many numbers differ between runs of the same setting. Such numbers are not compared.
  std::size_t varying = 0;
};

/// One operator of a framework, in one run.
struct Operator {
  std::string name;  // "aten::addmm"
  std::int64_t calls = 0;
  // Time in the operator itself, without operators that it calls.
  double cpu_seconds = 0, device_seconds = 0;
};

struct SettingResult {
  RunSetting setting;
  std::vector<RunFigures> runs;  // without the warm-up
  std::string out_of_race;       // why this setting cannot be the fastest, translated; "" if it can
  std::string hint;              // how to avoid this; "" no hint
  std::optional<int> exit_code;  // exit code of a run that failed
  std::optional<OutputCheck> output;  // nullopt: not compared
  std::vector<Operator>
      operators;           // the slowest first; empty if not profiled, or if no operator was seen
  std::string last_words;  // the last lines that this run wrote to standard error, untrusted
  // Filled by compare::judge().
  std::optional<Spread> wall_seconds, cpu_seconds, memory_bytes, device_memory_bytes,
      energy_millijoules;
  std::optional<double> ratio;  // the setting's median time divided by that of the fastest setting
  bool as_fast = false;  // as fast as the fastest setting: the difference is within the spread
};

/// The best setting with a GPU, compared with the best one without.
struct GpuWorth {
  enum class Verdict { kUnused, kFaster, kSame, kSlower } verdict = Verdict::kSame;
  std::size_t gpu = 0, cpu = 0;  // the indices of both settings
};

struct Comparison {
  std::vector<std::string> command;
  int runs = 0, warmups = 0;
  std::vector<SettingResult> settings;
  bool profiled = false;        // each setting had one further run with a profiler
  std::string compared_output;  // the output that was compared: "-" for stdout, or a file; "" none
  std::string no_gpu;  // why no setting with a GPU was run, translated; "" if there was one
  // Filled by compare::judge().
  std::optional<std::size_t> winner;
  std::optional<GpuWorth> gpu_worth;  // nullopt: no setting with a GPU finished, or none without
};

}  // namespace berth::model
