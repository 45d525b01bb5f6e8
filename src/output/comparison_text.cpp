#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "output/comparison.hpp"
#include "output/table.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Comparison;
using model::GpuWorth;
using model::SettingResult;
using model::Spread;

constexpr const char* kUnknown = "-";

std::string shown_bytes(double bytes) {
  return show_bytes(static_cast<std::uint64_t>(std::max(0.0, bytes)));
}

std::string shown_energy(double millijoules) {
  return show_energy(static_cast<std::uint64_t>(std::max(0.0, millijoules)));
}

template <typename Show>
std::string median_of(const std::optional<Spread>& spread, const Show& show) {
  return spread ? show(spread->median) : kUnknown;
}

std::string table_of(const Comparison& comparison, const Terminal& terminal) {
  Table table({{std::string(tr("setting")), false, kLeastText},
               {std::string(tr("time")), true},
               {std::string(tr("spread")), true},
               {std::string(tr("ratio")), true},
               {std::string(tr("CPU time")), true, 0, 2},
               {std::string(tr("memory")), true, 0, 1},
               {std::string(tr("GPU memory")), true},
               {std::string(tr("energy")), true, 0, 3}});
  for (std::size_t i = 0; i < comparison.settings.size(); ++i) {
    const SettingResult& one = comparison.settings[i];
    const Style style = comparison.winner == i    ? Style::kGreen
                        : one.out_of_race.empty() ? Style::kPlain
                                                  : Style::kDim;
    const bool on_gpu = one.setting.gpus > 0;
    table.add({{setting_words(one.setting), style},
               median_of(one.wall_seconds, show_seconds),
               show_spread(one.wall_seconds),
               one.ratio ? show_ratio(*one.ratio) : kUnknown,
               median_of(one.cpu_seconds, show_seconds),
               median_of(one.memory_bytes, shown_bytes),
               on_gpu ? median_of(one.device_memory_bytes, shown_bytes) : "",
               on_gpu ? median_of(one.energy_millijoules, shown_energy) : ""});
  }
  return table.render(terminal);
}

/// Time of an operator on the CPU and on the GPU: "1.20 s", "12.0 ms + 90.0 ms GPU".
std::string operator_cell(const SettingResult& setting, const std::string& name) {
  const auto found = std::find_if(setting.operators.begin(), setting.operators.end(),
                                  [&](const model::Operator& one) { return one.name == name; });
  if (found == setting.operators.end()) return kUnknown;
  std::string cell = show_seconds(found->cpu_seconds);
  if (found->device_seconds > 0) cell += " + " + show_seconds(found->device_seconds) + " GPU";
  return cell;
}

/// A table of the operators that take the most time, with a column for each setting.
std::string profile_of(const Comparison& comparison, const Terminal& terminal) {
  constexpr std::size_t kOfEach = 5, kMostRows = 10, kMostColumns = 4;
  std::vector<const SettingResult*> settings;
  // the longest time of each operator, with the operator's name
  std::vector<std::pair<double, std::string>> names;
  for (const SettingResult& one : comparison.settings) {
    if (one.operators.empty() || settings.size() == kMostColumns) continue;
    settings.push_back(&one);
    for (std::size_t i = 0; i < std::min(kOfEach, one.operators.size()); ++i) {
      const model::Operator& row = one.operators[i];
      const double time = row.cpu_seconds + row.device_seconds;
      const auto same = std::find_if(names.begin(), names.end(),
                                     [&](const auto& name) { return name.second == row.name; });
      if (same == names.end())
        names.emplace_back(time, row.name);
      else
        same->first = std::max(same->first, time);
    }
  }
  if (settings.empty())
    return text(
               "No operator was recorded: the program did not import PyTorch, or did not end by "
               "itself.") +
           "\n";
  std::sort(names.rbegin(), names.rend());
  std::vector<Column> columns{{std::string(tr("operator")), false, kLeastText}};
  for (const SettingResult* one : settings) columns.push_back({setting_words(one->setting), true});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < std::min(kMostRows, names.size()); ++i) {
    std::vector<Cell> cells{names[i].second};
    for (const SettingResult* one : settings)
      cells.emplace_back(operator_cell(*one, names[i].second));
    table.add(std::move(cells));
  }
  return table.render(terminal);
}

/// The other settings that are as fast as the winner: "CPU, 2 threads and CPU, 4 threads".
std::string names_of_alike(const Comparison& comparison) {
  std::string names;
  for (std::size_t i = 0; i < comparison.settings.size(); ++i) {
    const SettingResult& one = comparison.settings[i];
    if (!one.as_fast || i == comparison.winner) continue;
    names += std::string(names.empty() ? "" : tr("; ")) + setting_words(one.setting);
  }
  return names;
}

/// The fastest of the settings that are slower than the winner.
const SettingResult* next_best(const Comparison& comparison) {
  const SettingResult* next = nullptr;
  for (const SettingResult& one : comparison.settings)
    if (one.ratio && !one.as_fast && (next == nullptr || *one.ratio < *next->ratio)) next = &one;
  return next;
}

/// A warning for each setting whose runs were on different models of GPUs, because their times are
/// not comparable.
std::vector<std::string> mixed_gpu_sentences(const Comparison& comparison) {
  std::vector<std::string> sentences;
  for (const SettingResult& one : comparison.settings)
    for (const model::RunFigures& run : one.runs)
      if (run.devices != one.runs.front().devices) {
        sentences.push_back(
            text("{}: its runs had different models of GPUs, such as {} and {}.",
                 setting_words(one.setting),
                 printable(fmt::format("{}", fmt::join(one.runs.front().devices, ", "))),
                 printable(fmt::format("{}", fmt::join(run.devices, ", ")))));
        break;
      }
  return sentences;
}

std::string winner_sentence(const Comparison& comparison) {
  if (!comparison.winner) return text("No setting finished, so there is nothing to compare.");
  const SettingResult& winner = comparison.settings[*comparison.winner];
  const std::string name = setting_words(winner.setting);
  if (const std::string alike = names_of_alike(comparison); !alike.empty())
    return text(
        "Best: {}. These settings are not clearly faster, and use as many resources or more: {}.",
        name, alike);
  const SettingResult* next = next_best(comparison);
  if (next == nullptr) return text("Only this setting is left: {}.", name);
  return text("Best: {}, {} times as fast as the next one ({}).", name,
              show_ratio(next->wall_seconds->median / winner.wall_seconds->median),
              setting_words(next->setting));
}

std::string gpu_sentence(const Comparison& comparison) {
  const GpuWorth& worth = *comparison.gpu_worth;
  const double with = comparison.settings[worth.gpu].wall_seconds->median;
  const double without = comparison.settings[worth.cpu].wall_seconds->median;
  switch (worth.verdict) {
    case GpuWorth::Verdict::kUnused:
      return text("The GPU is not worth it: the program had one, but did not use it.");
    case GpuWorth::Verdict::kFaster:
      return text(
          "The GPU is worth it: {} instead of {}. Without it the program takes {} times as long.",
          show_seconds(with), show_seconds(without), show_ratio(without / with));
    case GpuWorth::Verdict::kSlower:
      return text("The GPU is not worth it: {} instead of {} on the CPU.", show_seconds(with),
                  show_seconds(without));
    case GpuWorth::Verdict::kSame:
      break;
  }
  return text("The GPU is not worth it: the program takes {} with it and {} without it.",
              show_seconds(with), show_seconds(without));
}

/// A fraction as a number of percent: 1.46 → "146", 0.00125 → "0.13".
std::string percent_of(double part) {
  return 100 * part < 1 ? fmt::format("{:.2g}", 100 * part) : fmt::format("{:.0f}", 100 * part);
}

/// The usual cause of a difference of this size, as a sentence.
std::string_view cause_of(const model::OutputDifference& difference, bool repeats) {
  constexpr double kOfOrder = 1e-5, kOfPrecision = 2e-2;
  if (difference.largest_relative <= kOfOrder)
    return tr(
        "such a small difference comes from adding numbers in another order, as with more threads "
        "or on a GPU");
  if (difference.largest_relative <= kOfPrecision)
    return tr(
        "such a difference comes from TF32 or half precision, or from rounding that training "
        "amplifies");
  if (repeats)
    return tr(
        "all runs of a setting agree, so the settings compute in different orders or by different "
        "algorithms, and the program amplifies the difference");
  return tr(
      "such a large difference comes from other random numbers, another algorithm, an error, or "
      "amplified rounding");
}

/// Sentences that tell how the outputs were compared, and how to make runs repeatable.
std::vector<std::string> output_sentences(const Comparison& comparison) {
  using State = model::OutputCheck::State;
  std::vector<std::string> sentences;
  if (comparison.compared_output.empty()) return sentences;
  std::size_t same = 0, compared = 0, varying = 0;
  bool unsure = false, unstable = false;
  for (const SettingResult& one : comparison.settings) {
    if (!one.output) continue;
    same += one.output->state == State::kSame ? 1 : 0;
    unsure = unsure || (one.output->state == State::kDiffers && !one.output->repeats);
    unstable = unstable || one.output->state == State::kUnstable;
    compared = std::max(compared, one.output->compared);
    varying = std::max(varying, one.output->varying);
  }
  if (same > 1)
    sentences.push_back(
        text_n("The outputs of {} settings agree, within the tolerance ({} number compared).",
               "The outputs of {} settings agree, within the tolerance ({} numbers compared).",
               static_cast<long long>(compared), same, compared));
  if (varying > 0)
    sentences.push_back(
        text_n("{} number varies between runs of one setting, and was not compared.",
               "{} numbers vary between runs of one setting, and were not compared.",
               static_cast<long long>(varying), varying));
  if (unstable)
    sentences.push_back(
        text("The runs of one setting differ in more than numbers: compare only lines with "
             "results, for example {}.",
             "--output-lines loss"));
  if (unsure || varying > 0)
    sentences.push_back(text(
        "To get the same output in every run, use {} and set seeds in the program ({} in Python).",
        "--preset deterministic", "berth.reproducible(0)"));
  return sentences;
}

/// The command as text to paste into a shell. Line breaks in it are kept, because a shell accepts
/// them inside quotes.
std::string pasteable(const std::string& command) {
  std::string out;
  for (const std::string_view line : split(command, '\n'))
    out += (out.empty() ? "" : "\n") + printable(line);
  return out;
}

/// The last lines of the text, without blank lines.
std::string last_lines(const std::string& words) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> lines;
  for (const std::string_view line : split(words, '\n'))
    if (!trim(line).empty()) lines.push_back(printable(line));
  std::string out;
  for (std::size_t i = lines.size() > kMost ? lines.size() - kMost : 0; i < lines.size(); ++i)
    out += "    " + lines[i] + "\n";
  return out;
}

}  // namespace

std::string show_seconds(double seconds) {
  return show_duration(std::chrono::milliseconds(std::llround(seconds * 1000)));
}

std::string show_spread(const std::optional<Spread>& spread) {
  if (!spread || spread->runs < 2 || spread->median <= 0) return kUnknown;
  return fmt::format("±{:.0f} %", 50 * (spread->most - spread->least) / spread->median);
}

std::string show_ratio(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio < 10 ? 2 : 0);
}

std::string setting_words(const model::RunSetting& setting) {
  std::string words = setting.gpus == 0 ? std::string(tr("CPU"))
                                        : text_n("{} GPU", "{} GPUs", setting.gpus, setting.gpus);
  if (setting.threads)
    words += text_n(", {} thread", ", {} threads", *setting.threads, *setting.threads);
  if (!setting.preset.empty()) return words + std::string(tr(", ")) + setting.preset;
  for (const auto& [name, value] : setting.variables)
    words += std::string(tr(", ")) + printable(name + "=" + value);
  return words;
}

std::string difference_words(const model::OutputCheck& check) {
  const model::OutputDifference& difference = *check.difference;
  const std::string at = text("line {} has '{}' instead of '{}'", difference.line, difference.found,
                              difference.expected);
  if (difference.in_shape) return text("the output differs from the first setting: {}", at);
  return text_n("{} number differs from the first setting, by {} %: {}",
                "{} numbers differ from the first setting, by up to {} %: {}",
                static_cast<long long>(difference.numbers), difference.numbers,
                percent_of(difference.largest_relative), at) +
         std::string(tr("; ")) + std::string(cause_of(difference, check.repeats));
}

std::vector<std::string> verdict_sentences(const Comparison& comparison) {
  std::vector<std::string> sentences{winner_sentence(comparison)};
  if (comparison.gpu_worth) sentences.push_back(gpu_sentence(comparison));
  for (std::string& sentence : mixed_gpu_sentences(comparison))
    sentences.push_back(std::move(sentence));
  if (!comparison.no_gpu.empty())
    sentences.push_back(text("No GPU was compared: {}.", comparison.no_gpu));
  if (comparison.runs == 1 && comparison.winner)
    sentences.push_back(text("One run does not show the spread: use {}.", "--runs 3"));
  return sentences;
}

std::string comparison_text(const Comparison& comparison, const Terminal& terminal) {
  std::string out = table_of(comparison, terminal) + "\n";
  for (const SettingResult& one : comparison.settings) {
    if (one.out_of_race.empty()) continue;
    const std::string why =
        text("{} was dropped from the comparison: {}", setting_words(one.setting), one.out_of_race);
    for (const std::string& line : wrap(why, terminal.width))
      out += terminal.paint(Style::kRed, line) + "\n";
    out += last_lines(one.last_words);
    if (!one.hint.empty()) out += text("hint: {}", one.hint) + "\n";
  }
  if (comparison.profiled) out += profile_of(comparison, terminal) + "\n";
  std::vector<std::string> sentences = output_sentences(comparison);
  for (std::string& sentence : verdict_sentences(comparison))
    sentences.push_back(std::move(sentence));
  for (const std::string& sentence : sentences)
    for (const std::string& line : wrap(sentence, terminal.width)) out += line + "\n";
  if (comparison.winner) {
    const model::RunSetting& best = comparison.settings[*comparison.winner].setting;
    if (!best.statement.empty())
      out += text("In the program, after import torch: {}", best.statement) + "\n";
    out += "\n" + pasteable(model::run_line(best, comparison.command)) + "\n";
  }
  return terminal.spell(out);
}

}  // namespace berth::output
