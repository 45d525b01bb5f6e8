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

std::string shown_seconds(double seconds) {
  return show_duration(std::chrono::milliseconds(std::llround(seconds * 1000)));
}

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

/// Half of the range, in percent of the median.
std::string plus_minus(const std::optional<Spread>& spread) {
  if (!spread || spread->runs < 2 || spread->median <= 0) return kUnknown;
  return fmt::format("±{:.0f} %", 50 * (spread->most - spread->least) / spread->median);
}

std::string times(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio < 10 ? 2 : 0);
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
               median_of(one.wall_seconds, shown_seconds),
               plus_minus(one.wall_seconds),
               one.ratio ? times(*one.ratio) : kUnknown,
               median_of(one.cpu_seconds, shown_seconds),
               median_of(one.memory_bytes, shown_bytes),
               on_gpu ? median_of(one.device_memory_bytes, shown_bytes) : "",
               on_gpu ? median_of(one.energy_millijoules, shown_energy) : ""});
  }
  return table.render(terminal);
}

/// The others that are as fast as the winner: "CPU, 2 threads and CPU, 4 threads".
std::string names_of_alike(const Comparison& comparison) {
  std::string names;
  for (std::size_t i = 0; i < comparison.settings.size(); ++i) {
    const SettingResult& one = comparison.settings[i];
    if (!one.as_fast || i == comparison.winner) continue;
    names += std::string(names.empty() ? "" : tr("; ")) + setting_words(one.setting);
  }
  return names;
}

/// The fastest of those that are slower than the winner.
const SettingResult* next_best(const Comparison& comparison) {
  const SettingResult* next = nullptr;
  for (const SettingResult& one : comparison.settings)
    if (one.ratio && !one.as_fast && (next == nullptr || *one.ratio < *next->ratio)) next = &one;
  return next;
}

std::string winner_sentence(const Comparison& comparison) {
  if (!comparison.winner) return text("No setting finished, so there is nothing to compare.");
  const SettingResult& winner = comparison.settings[*comparison.winner];
  const std::string name = setting_words(winner.setting);
  if (const std::string alike = names_of_alike(comparison); !alike.empty())
    return text("Best: {}. These are no faster, and need no less: {}.", name, alike);
  const SettingResult* next = next_best(comparison);
  if (next == nullptr) return text("Only one setting finished: {}.", name);
  return text("Best: {}, {} times as fast as the next one ({}).", name,
              times(next->wall_seconds->median / winner.wall_seconds->median),
              setting_words(next->setting));
}

std::string gpu_sentence(const Comparison& comparison) {
  const GpuWorth& worth = *comparison.gpu_worth;
  const double with = comparison.settings[worth.gpu].wall_seconds->median;
  const double without = comparison.settings[worth.cpu].wall_seconds->median;
  switch (worth.verdict) {
    case GpuWorth::Verdict::kUnused:
      return text("The GPU is not worth it: the program had one, and no use of it was seen.");
    case GpuWorth::Verdict::kFaster:
      return text(
          "The GPU is worth it: {} instead of {}. Without it the program takes {} times as long.",
          shown_seconds(with), shown_seconds(without), times(without / with));
    case GpuWorth::Verdict::kSlower:
      return text("The GPU is not worth it: {} instead of {} on the CPU.", shown_seconds(with),
                  shown_seconds(without));
    case GpuWorth::Verdict::kSame:
      break;
  }
  return text("The GPU is not worth it: the program takes {} with it and {} without it.",
              shown_seconds(with), shown_seconds(without));
}

/// Its last lines that are not blank.
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

std::vector<std::string> verdict_sentences(const Comparison& comparison) {
  std::vector<std::string> sentences{winner_sentence(comparison)};
  if (comparison.gpu_worth) sentences.push_back(gpu_sentence(comparison));
  if (!comparison.no_gpu.empty())
    sentences.push_back(text("No GPU was compared: {}.", comparison.no_gpu));
  if (comparison.runs == 1 && comparison.winner)
    sentences.push_back(text("One run says nothing of the spread: {} gives more.", "--runs 3"));
  return sentences;
}

std::string comparison_text(const Comparison& comparison, const Terminal& terminal) {
  std::string out = table_of(comparison, terminal) + "\n";
  for (const SettingResult& one : comparison.settings) {
    if (one.out_of_race.empty()) continue;
    out += terminal.paint(Style::kRed, text("{} is out of the race: {}", setting_words(one.setting),
                                            one.out_of_race)) +
           "\n";
    out += last_lines(one.last_words);
    if (!one.hint.empty()) out += text("hint: {}", one.hint) + "\n";
  }
  for (const std::string& sentence : verdict_sentences(comparison))
    for (const std::string& line : wrap(sentence, terminal.width)) out += line + "\n";
  if (comparison.winner)
    out += "\n" +
           printable(model::run_line(comparison.settings[*comparison.winner].setting,
                                     comparison.command)) +
           "\n";
  return terminal.spell(out);
}

}  // namespace berth::output
