// `berth compare`: runs a program with several settings, one after another in rounds, and tells
// which setting is best.
#include <algorithm>
#include <cctype>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/spelling.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/exit_code.hpp"
#include "cli/picture.hpp"
#include "cli/verbs.hpp"
#include "compare/judge.hpp"
#include "compare/operators.hpp"
#include "compare/output_difference.hpp"
#include "compare/presets.hpp"
#include "compare/settings.hpp"
#include "compare/trial.hpp"
#include "output/comparison.hpp"
#include "output/words.hpp"

namespace berth::cli {
namespace {

using compare::Trial;
using model::Comparison;
using model::SettingResult;

constexpr std::int64_t kMostGpus = 1024, kMostThreads = 8192, kMostRuns = 1000;

/// Parses an option with numbers, given as "1,4,8" or several times.
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

Error no_preset(const std::string& given) {
  std::vector<std::string> known;
  for (const compare::Preset& one : compare::presets()) known.push_back(one.name);
  std::string hint;
  for (const compare::Preset& one : compare::presets())
    hint += fmt::format("{}{:<20} {}", hint.empty() ? "" : "\n", one.name, tr(one.says));
  const std::string near = nearest(given, known);
  return {ErrorCode::kInvalidArgument, "E0545", text("there is no preset '{}'", printable(given)),
          (near.empty() ? "" : text("did you mean {}?", near) + "\n") + hint};
}

Status read_changes(const Arguments& arguments, std::vector<compare::Change>& changes) {
  for (const std::string& given : arguments.values("--preset")) {
    const compare::Preset* preset = compare::find_preset(given);
    if (preset == nullptr) return no_preset(given);
    changes.push_back({preset->name, preset->variables, preset->statement});
  }
  for (const std::string& given : arguments.values("--set")) {
    const auto equals = given.find('=');
    if (equals == std::string::npos || !is_variable_name(given.substr(0, equals)))
      return Error{ErrorCode::kInvalidArgument, "E0542",
                   text("--set: '{}' is not of the form NAME=VALUE", printable(given)),
                   "--set OMP_WAIT_POLICY=active"};
    changes.push_back({"", {{given.substr(0, equals), given.substr(equals + 1)}}, ""});
  }
  return Done{};
}

Result<compare::Wish> wish_of(const Arguments& arguments) {
  compare::Wish wish;
  wish.cpu = arguments.has("--cpu");
  auto gpus = numbers_of(arguments, "--gpus", kMostGpus);
  if (!gpus) return std::move(gpus).error();
  auto threads = numbers_of(arguments, "--threads", kMostThreads);
  if (!threads) return std::move(threads).error();
  wish.gpus = *std::move(gpus), wish.threads = *std::move(threads);
  if (auto read = read_changes(arguments, wish.changes); !read) return std::move(read).error();
  return wish;
}

/// Which output to compare, and how. `what` is "-" for standard output, a path, or "" if none is
/// compared.
struct OutputWish {
  std::string what;
  std::vector<std::string> lines;
  compare::Tolerance tolerance;
};

Result<OutputWish> output_wish_of(const Arguments& arguments) {
  OutputWish wish;
  wish.what = arguments.value("--compare-output").value_or("");
  wish.lines = arguments.values("--output-lines");
  const auto tolerance = arguments.value("--tolerance");
  for (const char* option : {"--output-lines", "--tolerance"})
    if (wish.what.empty() && arguments.has(option))
      return Error{ErrorCode::kInvalidArgument, "E0010",
                   text("{} needs {}", option, "--compare-output"), "--compare-output -"};
  if (!tolerance) return wish;
  const auto parsed = compare::parse_tolerance(*tolerance);
  if (!parsed)
    return Error{ErrorCode::kInvalidArgument, "E0546",
                 text("--tolerance: '{}' is neither a number below 1 nor a number type",
                      printable(*tolerance)),
                 "--tolerance 1e-3, --tolerance float32, float64, tf32, float16, bfloat16"};
  wish.tolerance = *parsed;
  return wish;
}

/// Runs the rounds of one comparison, and holds the data that they need.
class Rounds {
 public:
  Rounds(const Context& context, Comparison& comparison, OutputWish output,
         const compare::HeldSignals& signals)
      : context_(context),
        comparison_(comparison),
        output_(std::move(output)),
        signals_(signals),
        outputs_(comparison.settings.size()),
        applied_(comparison.settings.size(), false) {}

  /// Runs the rounds. Each round runs every setting once, so that a slowdown of the machine affects
  /// all settings. The times of the first rounds are not used, because these rounds fill the
  /// caches.
  Status run() {
    if (auto made = make_folder(); !made) return made;
    const int rounds = comparison_.warmups + comparison_.runs;
    for (int round = 1; round <= rounds; ++round)
      for (std::size_t i = 0; i < comparison_.settings.size(); ++i) {
        if (!comparison_.settings[i].out_of_race.empty()) continue;
        if (auto done = run_one(i, round, rounds); !done) return done;
      }
    for (std::size_t i = 0; i < applied_.size(); ++i) {
      SettingResult& result = comparison_.settings[i];
      const model::RunSetting& setting = result.setting;
      if (!setting.statement.empty() && setting.variables.empty() && !applied_[i] &&
          result.out_of_race.empty())
        result.out_of_race =
            text("the preset had no effect, because the program did not import torch");
    }
    check_outputs();
    return comparison_.profiled ? profile() : Status(Done{});
  }

 private:
  /// Runs each setting once more with a profiler. The profiler takes time, so the times of these
  /// runs are not used.
  Status profile() {
    for (SettingResult& result : comparison_.settings) {
      if (!result.out_of_race.empty()) continue;
      model::RunSetting setting = result.setting;
      setting.statement += "\n" + compare::profile_statement();
      const auto trial = compare::run_once(setting, comparison_.command, &*folder_, signals_);
      if (!trial) return trial.error();
      result.operators = compare::take_operators(folder_->path());
    }
    return Done{};
  }

  Status make_folder() {
    const bool needed =
        comparison_.profiled ||
        std::any_of(comparison_.settings.begin(), comparison_.settings.end(),
                    [](const SettingResult& one) { return !one.setting.statement.empty(); });
    if (!needed) return Done{};
    auto made = compare::StatementFolder::make();
    if (!made) return std::move(made).error();
    folder_.emplace(*std::move(made));
    return Done{};
  }

  Status run_one(std::size_t index, int round, int rounds) {
    SettingResult& result = comparison_.settings[index];
    const compare::ResultFile file(output_.what);
    auto trial = compare::run_once(result.setting, comparison_.command,
                                   folder_ ? &*folder_ : nullptr, signals_);
    if (!trial) return std::move(trial).error();
    if (folder_ && folder_->take_applied()) applied_[index] = true;
    show_progress(result, round, rounds, *trial);
    if (!trial->figures || trial->exit_code != 0) {
      leave_race(result, *std::move(trial));
      return Done{};
    }
    if (auto kept = keep_output(index, *trial, file); !kept) return kept;
    if (round > comparison_.warmups && result.out_of_race.empty())
      result.runs.push_back(*std::move(trial->figures));
    return Done{};
  }

  /// On a terminal, prints the round and the time of the run that has just ended.
  void show_progress(const SettingResult& result, int round, int rounds, const Trial& trial) const {
    if (!context_.err_terminal.tty || context_.json) return;
    const std::string time =
        trial.figures ? output::show_seconds(trial.figures->wall_seconds) : "-";
    context_.err(context_.err_terminal.spell(text("round {} of {}   {}   {}", round, rounds, time,
                                                  output::setting_words(result.setting)) +
                                             "\n"));
  }

  /// Joins the lines of a message with "; ", because its reasons may be on separate indented lines.
  static std::string in_one_line(const std::string& message) {
    std::vector<std::string> parts;
    for (const std::string_view line : split(message, '\n')) parts.emplace_back(trim(line));
    return output::join(parts, "; ");
  }

  static void leave_race(SettingResult& result, Trial trial) {
    result.exit_code = trial.exit_code;
    result.out_of_race = trial.refusal ? fmt::format("{} ({})", in_one_line(trial.refusal->message),
                                                     trial.refusal->id)
                                       : text("exit code {}", trial.exit_code);
    if (trial.refusal)
      result.hint = trial.refusal->hint;
    else
      result.last_words = std::move(trial.last_words);
  }

  Status keep_output(std::size_t index, const Trial& trial, const compare::ResultFile& file) {
    if (output_.what.empty()) return Done{};
    std::string bytes = trial.output;
    if (output_.what == "-") {
      if (trial.output_bytes > bytes.size()) return compare::too_large();
    } else {
      auto content = file.read_if_written();
      if (!content) return std::move(content).error();
      if (!*content) {
        comparison_.settings[index].out_of_race =
            text("a run did not write {}", printable(output_.what));
        return Done{};
      }
      bytes = **std::move(content);
    }
    auto parsed = compare::parse_output(bytes, output_.lines);
    if (!parsed) return std::move(parsed).error();
    outputs_[index].add(*std::move(parsed), output_.tolerance);
    return Done{};
  }

  /// Compares each setting's output with that of the first setting that finished. A setting whose
  /// output differs cannot win.
  void check_outputs() {
    const compare::OutputSeries* reference = nullptr;
    for (std::size_t i = 0; i < outputs_.size() && !output_.what.empty(); ++i) {
      SettingResult& result = comparison_.settings[i];
      if (!result.out_of_race.empty()) continue;
      if (reference == nullptr) reference = &outputs_[i];
      result.output = compare::check_output(*reference, outputs_[i], output_.tolerance);
      if (result.output->difference) result.out_of_race = output::difference_words(*result.output);
    }
  }

  const Context& context_;
  Comparison& comparison_;
  OutputWish output_;
  const compare::HeldSignals& signals_;
  std::optional<compare::StatementFolder> folder_;
  std::vector<compare::OutputSeries> outputs_;
  std::vector<bool> applied_;
};

/// Finds out which devices and cores this machine has, with a dry run of `berth run`.
Result<compare::Machine> machine_for(const Context& context, const compare::Wish& wish,
                                     Comparison& comparison, const compare::HeldSignals& signals) {
  compare::Machine machine;
  if (wish.wants_gpu()) {
    const auto plan =
        compare::threads_if_possible({1, {}, "", {}, ""}, comparison.command, signals);
    const bool busy = !plan && plan.error().id == "E0412";
    machine.has_gpu = plan || busy;
    if (busy && !context.json) {
      context.err(text("note: {}", text("waiting: {}", plan.error().message)) + "\n");
      context.err(text("hint: {}", text("to avoid waiting: {}", "berth compare --cpu -- …")) +
                  "\n");
    }
    if (!machine.has_gpu) comparison.no_gpu = plan.error().message;
  }
  const auto plan = compare::threads_if_possible({0, {}, "", {}, ""}, comparison.command, signals);
  if (!plan) return plan.error();
  machine.threads = *plan;
  return machine;
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
  const auto output = output_wish_of(context.arguments);
  if (!output) return output.error();
  const auto picture = open_picture(context.arguments);
  if (!picture) return picture.error();
  comparison.runs = *runs, comparison.warmups = *warmups;

  const compare::HeldSignals signals;
  const auto machine = machine_for(context, *wish, comparison, signals);
  if (!machine) return machine.error();
  for (model::RunSetting& setting : compare::settings_of(*wish, *machine))
    comparison.settings.emplace_back().setting = std::move(setting);
  comparison.compared_output = output->what;
  comparison.profiled = context.arguments.has("--profile");
  if (auto done = Rounds(context, comparison, *output, signals).run(); !done)
    return std::move(done).error();
  compare::judge(comparison);
  if (*picture)
    if (auto written =
            write_picture(context.arguments, *picture, output::comparison_svg(comparison));
        !written)
      return std::move(written).error();
  context.out(context.json ? output::comparison_json(comparison)
                           : output::comparison_text(comparison, context.out_terminal));
  return static_cast<int>(comparison.winner ? kDone : kNothing);
}

}  // namespace berth::cli
