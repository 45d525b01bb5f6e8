// `berth health`: checks whether GPUs are ready for a job, for prolog scripts and for people.
#include <filesystem>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/bench_results.hpp"
#include "cli/look.hpp"
#include "cli/speed_check.hpp"
#include "cli/verbs.hpp"
#include "output/table.hpp"
#include "output/words.hpp"
#include "serve/watch_json.hpp"
#include "system/runtime_folder.hpp"
#include "watch/health.hpp"

namespace berth::cli {
namespace {

using watch::CheckedDevice;
using watch::HealthCheck;
using watch::Verdict;

std::string_view word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return tr(msgid("ok"));
    case Verdict::kFailed:
      return tr(msgid("failed"));
    case Verdict::kNotChecked:
      break;
  }
  return tr(msgid("not checked"));
}

output::Style style_of(Verdict verdict) {
  if (verdict == Verdict::kFailed) return output::Style::kRed;
  return verdict == Verdict::kOk ? output::Style::kGreen : output::Style::kDim;
}

std::string_view words_for(std::string_view id) {
  if (id == "answers") return tr(msgid("answers"));
  if (id == "memory_errors") return tr(msgid("memory errors"));
  if (id == "row_remap") return tr(msgid("row remapping"));
  if (id == "throttling") return tr(msgid("throttling"));
  if (id == "speed") return tr(msgid("speed"));
  return tr(msgid("temperature"));
}

std::string health_table(const std::vector<CheckedDevice>& all, const output::Terminal& terminal) {
  output::Table table({{text("device"), true}, {text("check")}, {text("result")}, {""}});
  for (const CheckedDevice& one : all)
    for (const HealthCheck& single : one.checks)
      table.add({std::to_string(one.device->index),
                 std::string(words_for(single.id)),
                 {std::string(word_of(single.verdict)), style_of(single.verdict)},
                 single.detail});
  return table.render(terminal);
}

/// The folder with the results of `berth bench --keep`: this user's folder if it has results,
/// otherwise that of the system broker.
std::string kept_folder() {
  std::error_code problem;
  const std::string own = system::state_folder();
  return std::filesystem::exists(bench::kept_file(own), problem) ? own : system::kSystemState;
}

/// Adds the check of speed to each device, if --against names a baseline or `berth bench --keep`
/// has stored results.
Status add_speed_checks(const Arguments& arguments, std::vector<CheckedDevice>& all) {
  const auto named = arguments.value("--against");
  const std::string folder = kept_folder(), kept = bench::kept_file(folder);
  std::error_code problem;
  if (!named && !std::filesystem::exists(kept, problem)) return Done{};
  const auto latest = read_results(kept);
  if (!latest && named)
    return Error{
        ErrorCode::kInvalidArgument, "E1057",
        text("berth bench has kept no results that could be compared with {}", printable(*named)),
        "berth bench --keep"};
  const auto baseline = read_results(named.value_or(bench::kept_baseline_file(folder)));
  if (!baseline && named) return baseline.error();
  // Without --against, ignore damaged result files, so that a prolog script does not fail because
  // of them.
  const bench::EarlierResults none;
  for (CheckedDevice& one : all)
    one.checks.push_back(
        speed_check(*one.device, latest ? *latest : none, baseline ? *baseline : none));
  return Done{};
}

}  // namespace

Result<int> run_health(const Context& context) {
  auto seen = look(context, Processes::kUsers, false);
  if (!seen) return std::move(seen).error();
  auto all = watch::check_health(*seen, context.arguments.values("--device"));
  if (!all) return std::move(all).error();
  if (auto problem = add_speed_checks(context.arguments, *all); !problem)
    return std::move(problem).error();
  context.out(context.json ? serve::health_json(*all) : health_table(*all, context.out_terminal));
  return watch::is_well(*all) ? 0 : 1;
}

}  // namespace berth::cli
