#include "compare/judge.hpp"

#include <doctest/doctest.h>

namespace berth::compare {
namespace {

model::SettingResult result(int gpus, std::optional<int> threads, const std::vector<double>& walls,
                            const char* gpu_use = "not_checked") {
  model::SettingResult one;
  one.setting = {gpus, threads, "", {}, ""};
  for (const double wall : walls) {
    model::RunFigures figures;
    figures.wall_seconds = wall;
    figures.gpu_use = gpu_use;
    one.runs.push_back(figures);
  }
  return one;
}

model::Comparison judged(std::vector<model::SettingResult> settings) {
  model::Comparison comparison;
  comparison.settings = std::move(settings);
  judge(comparison);
  return comparison;
}

}  // namespace

TEST_CASE("the median of an even number of runs is between the middle two") {
  const auto odd = spread_of({3, 1, 2});
  CHECK(odd.median == 2);
  CHECK(odd.least == 1);
  CHECK(odd.most == 3);
  CHECK(odd.runs == 3);
  CHECK(spread_of({4, 1, 2, 3}).median == 2.5);
  CHECK(spread_of({7}).median == 7);
}

TEST_CASE("runs are alike if each median lies within the other's range") {
  CHECK(are_alike(spread_of({1.0, 1.1, 1.2}), spread_of({1.05, 1.15, 1.25})));
  CHECK_FALSE(are_alike(spread_of({1.0, 1.1, 1.2}), spread_of({1.3, 1.4, 1.5})));
  // One slow run widens the range, but does not change the median.
  CHECK_FALSE(are_alike(spread_of({1.0, 1.0, 3.0}), spread_of({2.0, 2.0, 2.0})));
  CHECK(are_alike(spread_of({1.00, 1.00, 1.00}), spread_of({1.01, 1.01, 1.01})));
  CHECK_FALSE(are_alike(spread_of({1.00, 1.00, 1.00}), spread_of({1.05, 1.05, 1.05})));
  // with single runs, a difference of 5 % is below the limit of 10 %
  CHECK(are_alike(spread_of({1.00}), spread_of({1.05})));
  CHECK_FALSE(are_alike(spread_of({1.00}), spread_of({1.2})));
  CHECK(are_alike(spread_of({0.002, 0.002}),
                  // the medians differ by less than 10 ms, the usual variation of a process's
                  // start-up
                  spread_of({0.007, 0.007})));
  CHECK_FALSE(are_alike(spread_of({0.002, 0.002}), spread_of({0.02, 0.02})));
}

TEST_CASE("the fastest setting wins, and ratios are to the fastest") {
  const auto comparison = judged({result(0, 1, {8, 8, 8}), result(0, 4, {2, 2, 2})});
  CHECK(comparison.winner == 1);
  CHECK(comparison.settings[0].ratio == 4);
  CHECK(comparison.settings[1].ratio == 1);
  CHECK_FALSE(comparison.settings[0].as_fast);
  CHECK_FALSE(comparison.gpu_worth);
}

TEST_CASE("of equally fast settings, the one that needs least wins") {
  CHECK(judged({result(0, 4, {2.0, 2.1}), result(0, 2, {2.05, 2.1})}).winner == 1);
  CHECK(judged({result(1, {}, {2.0, 2.1}), result(0, 8, {2.05, 2.1})}).winner == 1);
  auto plain = result(0, 2, {2.05, 2.1});
  auto changed = result(0, 2, {2.0, 2.1});
  changed.setting.variables = {{"OMP_WAIT_POLICY", "active"}};
  CHECK(judged({changed, plain}).winner == 1);
}

TEST_CASE("a setting that failed cannot win, and has no ratio") {
  auto failed = result(0, 4, {1});
  failed.out_of_race = "exit code 1";
  const auto comparison = judged({failed, result(0, 1, {8})});
  CHECK(comparison.winner == 1);
  CHECK_FALSE(comparison.settings[0].ratio);
  CHECK_FALSE(judged({failed}).winner);
  CHECK_FALSE(judged({result(0, 1, {})}).winner);
}

TEST_CASE("whether the GPU is worth it") {
  using Verdict = model::GpuWorth::Verdict;
  const auto verdict = [](const model::SettingResult& cpu, const model::SettingResult& gpu) {
    return judged({cpu, gpu}).gpu_worth->verdict;
  };
  CHECK(verdict(result(0, {}, {8, 8}), result(1, {}, {2, 2}, "seen")) == Verdict::kFaster);
  CHECK(verdict(result(0, {}, {8, 8}), result(1, {}, {9, 9}, "seen")) == Verdict::kSlower);
  CHECK(verdict(result(0, {}, {8, 8.2}), result(1, {}, {8.1, 8}, "seen")) == Verdict::kSame);
  CHECK(verdict(result(0, {}, {8, 8}), result(1, {}, {8, 8}, "not_seen")) == Verdict::kUnused);
  CHECK(verdict(result(0, {}, {8, 8}), result(1, {}, {9, 9}, "not_seen")) == Verdict::kUnused);
  // No snapshot shows that the GPU was used. But the program is faster with the GPU, so it was
  // used.
  CHECK(verdict(result(0, {}, {8, 8}), result(1, {}, {2, 2}, "not_seen")) == Verdict::kFaster);
  CHECK(verdict(result(0, {}, {8, 8}), result(1, {}, {2, 2})) == Verdict::kFaster);
  // Compares the fastest setting on the CPU with the fastest one on a GPU.
  const auto both = judged({result(0, 1, {8}), result(0, 4, {3}), result(1, {}, {2}, "seen")});
  CHECK(both.gpu_worth->cpu == 1);
  CHECK(both.gpu_worth->gpu == 2);
}

TEST_CASE("a value that no run has stays unknown") {
  auto one = result(0, 1, {1, 2, 3});
  one.runs[0].memory_bytes = 10;
  one.runs[2].memory_bytes = 30;
  const auto comparison = judged({one});
  CHECK_FALSE(comparison.settings[0].energy_millijoules);
  CHECK(comparison.settings[0].memory_bytes->median == 20);
  CHECK(comparison.settings[0].memory_bytes->runs == 2);
}

}  // namespace berth::compare
