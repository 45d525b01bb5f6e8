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
  int gpus = 0;  // number of GPUs; 0 means that the program runs on the CPU
  // number of cores and threads; nullopt means that `berth run` chooses
  std::optional<int> threads;
  std::string preset;  // name of the preset that set the members below; "" if none did
  std::vector<std::pair<std::string, std::string>> variables;
  std::string statement;  // a Python statement to run after `import torch`; "" if there is none
};

/// The options of `berth run` for this setting, without the variables.
[[nodiscard]] std::vector<std::string> run_options(const RunSetting& setting);
/// The shell command that runs `command` with this setting: "NAME=value berth run --cpu -- python
/// train.py".
[[nodiscard]] std::string run_line(const RunSetting& setting,
                                   const std::vector<std::string>& command);

/// The measured values of one run; nullopt if a value is unknown.
struct RunFigures {
  double wall_seconds = 0;
  std::optional<double> cpu_seconds, memory_bytes, device_memory_bytes, energy_millijoules;
  std::optional<int> threads;        // number of threads that `berth run` allowed
  std::vector<std::string> devices;  // names of the GPUs
  std::string gpu_use;  // whether the job used a GPU, in the words of the report of `berth run`
};

/// A measured value over the runs of one setting.
struct Spread {
  double median = 0, least = 0, most = 0;
  std::size_t runs = 0;
};

/// The first difference between the outputs of two settings.
struct OutputDifference {
  std::size_t line = 0;  // line of the first difference; for an array, the index of the element
  std::string expected, found;  // the texts that differ, made printable
  // whether the outputs differ in more than numbers: one has more values, or other words
  bool in_shape = false;
  std::size_t numbers = 0;      // how many numbers differ
  double largest_relative = 0;  // the largest relative difference of a number
};

/// Whether the output of a setting is the same as that of the first setting.
struct OutputCheck {
  enum class State { kSame, kDiffers, kUnstable } state = State::kSame;
  // Absent for kUnstable. This state means that the runs of one setting differ in more than
  // numbers.
  std::optional<OutputDifference> difference;
  // Whether both settings ran several times, with the same results in all runs of a setting.
  bool repeats = false;
  std::size_t compared = 0;  // how many numbers were compared
  // How many numbers are not compared, because they differ between runs of the same setting.
  std::size_t varying = 0;
};

/// One operator of a framework, in one run.
struct Operator {
  std::string name;  // such as "aten::addmm"
  std::int64_t calls = 0;
  // Time in the operator itself, without the operators that it calls.
  double cpu_seconds = 0, device_seconds = 0;
};

struct SettingResult {
  RunSetting setting;
  std::vector<RunFigures> runs;  // the measured runs, without the warm-up runs
  std::string out_of_race;       // why this setting cannot be the fastest, translated; "" if it can
  std::string hint;              // how to avoid what `out_of_race` says; "" if there is no hint
  std::optional<int> exit_code;  // exit code of a run that failed
  std::optional<OutputCheck> output;  // nullopt if the output was not compared
  std::vector<Operator>
      operators;           // the slowest first; empty if not profiled, or if no operator was seen
  std::string last_words;  // the last lines that the failed run wrote to standard error, untrusted
  // Filled by compare::judge().
  std::optional<Spread> wall_seconds, cpu_seconds, memory_bytes, device_memory_bytes,
      energy_millijoules;
  std::optional<double> ratio;  // the setting's median time divided by that of the fastest setting
  // whether its time differs from that of the fastest setting by no more than the spread
  bool as_fast = false;
};

/// Compares the best setting with a GPU to the best setting without one.
struct GpuWorth {
  enum class Verdict { kUnused, kFaster, kSame, kSlower } verdict = Verdict::kSame;
  std::size_t gpu = 0, cpu = 0;  // indices of the two compared settings
};

struct Comparison {
  std::vector<std::string> command;
  int runs = 0, warmups = 0;
  std::vector<SettingResult> settings;
  bool profiled = false;  // whether each setting had another run with a profiler
  // the compared output: "-" for stdout, or a file; "" if none was compared
  std::string compared_output;
  std::string no_gpu;  // why no setting with a GPU was run, translated; "" if there was one
  // Filled by compare::judge().
  std::optional<std::size_t> winner;
  // nullopt unless a setting with a GPU and one without finished
  std::optional<GpuWorth> gpu_worth;
};

}  // namespace berth::model
