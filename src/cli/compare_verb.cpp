// `berth compare`: runs a program in several settings, one after another in rounds, and says which
// is best.
#include <algorithm>
#include <cctype>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/exit_code.hpp"
#include "cli/verbs.hpp"
#include "compare/judge.hpp"
#include "compare/settings.hpp"
#include "compare/trial.hpp"
#include "output/comparison.hpp"

namespace berth::cli {
namespace {

using compare::Trial;
using model::Comparison;
using model::SettingResult;

constexpr std::int64_t kMostGpus = 1024, kMostThreads = 8192, kMostRuns = 1000;

/// "1,4,8", or several options.
Result<std::vector<int>> numbers_of(const Arguments& arguments, const char* option,
                                    std::int64_t most) {
  std::vector<int> numbers;
  for (const std::string& list : arguments.values(option))
    for (const std::string_view word : split(list, ',')) {
      const auto number = parse_integer(word, 1, most);
      if (!number) return Error(number.error()).during(option);
      const int value = static_cast<int>(*number);
      if (std::find(numbers.begin(), numbers.end(), value) == numbers.end())
        numbers.push_back(value);
    }
  return numbers;
}

Result<int> count_of(const Arguments& arguments, const char* option, int usual,
                     std::int64_t least) {
  const auto given = arguments.value(option);
  if (!given) return usual;
  const auto number = parse_integer(*given, least, kMostRuns);
  if (!number) return Error(number.error()).during(option);
  return static_cast<int>(*number);
}

bool is_variable_name(std::string_view name) {
  const auto fits = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), fits);
}

Result<compare::Wish> wish_of(const Arguments& arguments) {
  compare::Wish wish;
  wish.cpu = arguments.has("--cpu");
  auto gpus = numbers_of(arguments, "--gpus", kMostGpus);
  if (!gpus) return std::move(gpus).error();
  auto threads = numbers_of(arguments, "--threads", kMostThreads);
  if (!threads) return std::move(threads).error();
  wish.gpus = *std::move(gpus), wish.threads = *std::move(threads);
  for (const std::string& given : arguments.values("--set")) {
    const auto equals = given.find('=');
    if (equals == std::string::npos || !is_variable_name(given.substr(0, equals)))
      return Error{ErrorCode::kInvalidArgument, "E0542",
                   text("--set: '{}' is not of the form NAME=VALUE", printable(given)),
                   "--set OMP_WAIT_POLICY=active"};
    wish.variables.emplace_back(given.substr(0, equals), given.substr(equals + 1));
  }
  return wish;
}

/// Finds out what this machine has by a dry run.
Result<compare::Machine> machine_for(const compare::Wish& wish, Comparison& comparison,
                                     const compare::HeldSignals& signals) {
  compare::Machine machine;
  if (wish.wants_gpu()) {
    const auto plan = compare::threads_if_possible({1, {}, "", {}}, comparison.command, signals);
    machine.has_gpu = plan || plan.error().id == "E0412";  // all are busy: the run will wait
    if (!machine.has_gpu) comparison.no_gpu = plan.error().message;
  }
  const auto plan = compare::threads_if_possible({0, {}, "", {}}, comparison.command, signals);
  if (!plan) return plan.error();
  machine.threads = *plan;
  return machine;
}

/// The time of the last run, for somebody who watches.
void show_progress(const Context& context, const SettingResult& result, int round, int rounds,
                   const Trial& trial) {
  if (!context.err_terminal.tty || context.json) return;
  const std::string time = trial.figures
                               ? show_duration(std::chrono::milliseconds(
                                     static_cast<std::int64_t>(trial.figures->wall_seconds * 1000)))
                               : "-";
  context.err(context.err_terminal.spell(
      text("round {} of {}   {}   {}", round, rounds, time, output::setting_words(result.setting)) +
      "\n"));
}

void add(Trial trial, SettingResult& result, bool counts) {
  if (!trial.figures || trial.exit_code != 0) {
    result.exit_code = trial.exit_code;
    result.out_of_race = trial.refusal
                             ? fmt::format("{} ({})", trial.refusal->message, trial.refusal->id)
                             : text("exit code {}", trial.exit_code);
    if (trial.refusal)
      result.hint = trial.refusal->hint;
    else
      result.last_words = std::move(trial.last_words);
    return;
  }
  if (counts) result.runs.push_back(*std::move(trial.figures));
}

/// Each round runs every setting once, so that a machine that slows down slows all of them. The
/// first rounds warm up caches, and do not count.
Status run_rounds(const Context& context, Comparison& comparison,
                  const compare::HeldSignals& signals) {
  const int rounds = comparison.warmups + comparison.runs;
  for (int round = 1; round <= rounds; ++round)
    for (SettingResult& result : comparison.settings) {
      if (!result.out_of_race.empty()) continue;
      auto trial = compare::run_once(result.setting, comparison.command, signals);
      if (!trial) return std::move(trial).error();
      show_progress(context, result, round, rounds, *trial);
      add(*std::move(trial), result, round > comparison.warmups);
    }
  return Done{};
}

}  // namespace

Result<int> run_compare(const Context& context) {
  Comparison comparison;
  comparison.command = context.arguments.command;
  if (comparison.command.empty() || comparison.command.front().empty())
    return Error{ErrorCode::kInvalidArgument, "E0516", text("there is no command to run"),
                 "berth compare -- python train.py"};
  const auto wish = wish_of(context.arguments);
  if (!wish) return wish.error();
  const auto runs = count_of(context.arguments, "--runs", 3, 1);
  if (!runs) return runs.error();
  const auto warmups = count_of(context.arguments, "--warmup", 1, 0);
  if (!warmups) return warmups.error();
  comparison.runs = *runs, comparison.warmups = *warmups;

  const compare::HeldSignals signals;
  const auto machine = machine_for(*wish, comparison, signals);
  if (!machine) return machine.error();
  for (model::RunSetting& setting : compare::settings_of(*wish, *machine))
    comparison.settings.emplace_back().setting = std::move(setting);
  if (auto done = run_rounds(context, comparison, signals); !done) return std::move(done).error();
  compare::judge(comparison);
  context.out(context.json ? output::comparison_json(comparison)
                           : output::comparison_text(comparison, context.out_terminal));
  return static_cast<int>(comparison.winner ? kDone : kNothing);
}

}  // namespace berth::cli
