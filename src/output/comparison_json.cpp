#include <algorithm>

#include "base/file.hpp"
#include "output/comparison.hpp"
#include "output/json_writer.hpp"

namespace berth::output {
namespace {

using model::Comparison;
using model::GpuWorth;
using model::RunFigures;
using model::SettingResult;
using model::Spread;

void add_spread(JsonWriter& json, const char* key, const std::optional<Spread>& spread) {
  json.key(key);
  if (!spread) return json.value(nullptr);
  json.open('{');
  json.field("median", spread->median);
  json.field("least", spread->least);
  json.field("most", spread->most);
  json.field("runs", spread->runs);
  json.close('}');
}

const char* name_of(model::OutputCheck::State state) {
  switch (state) {
    case model::OutputCheck::State::kDiffers:
      return "differs";
    case model::OutputCheck::State::kUnstable:
      return "unstable";
    case model::OutputCheck::State::kSame:
      break;
  }
  return "same";
}

void add_output(JsonWriter& json, const std::optional<model::OutputCheck>& check) {
  json.key("output");
  if (!check) return json.value(nullptr);
  json.open('{');
  json.field("state", name_of(check->state));
  json.field("repeats", check->repeats);
  json.field("numbers_compared", check->compared);
  json.field("numbers_varying", check->varying);
  json.key("difference");
  if (check->difference) {
    json.open('{');
    json.field("line", check->difference->line);
    json.field("expected", check->difference->expected);
    json.field("found", check->difference->found);
    json.field("in_shape", check->difference->in_shape);
    json.field("numbers", check->difference->numbers);
    json.field("largest_relative", check->difference->largest_relative);
    json.close('}');
  } else {
    json.value(nullptr);
  }
  json.close('}');
}

void add_run(JsonWriter& json, const RunFigures& run) {
  json.field("wall_seconds", run.wall_seconds);
  json.field("cpu_seconds", run.cpu_seconds);
  json.field("peak_memory_bytes", run.memory_bytes);
  json.field("device_memory_bytes", run.device_memory_bytes);
  json.field("energy_millijoules", run.energy_millijoules);
  json.field("threads", run.threads);
  json.field("devices", run.devices);
  json.text_field("gpu_use", run.gpu_use);
}

void add_setting(JsonWriter& json, const SettingResult& one, const Comparison& comparison) {
  json.field("name", setting_words(one.setting));
  json.field("gpus", one.setting.gpus);
  json.field("threads", one.setting.threads);
  json.text_field("preset", one.setting.preset);
  json.text_field("statement", one.setting.statement);
  json.key("variables");
  json.open('{');
  for (const auto& [name, value] : one.setting.variables) json.field(name, value);
  json.close('}');
  json.field("command", model::run_line(one.setting, comparison.command));
  json.field("in_race", one.ratio.has_value());
  json.text_field("why_not", one.out_of_race);
  json.field("exit_code", one.exit_code);
  add_output(json, one.output);
  json.field("ratio", one.ratio);
  json.field("as_fast", one.as_fast);
  add_spread(json, "wall_seconds", one.wall_seconds);
  add_spread(json, "cpu_seconds", one.cpu_seconds);
  add_spread(json, "peak_memory_bytes", one.memory_bytes);
  add_spread(json, "device_memory_bytes", one.device_memory_bytes);
  add_spread(json, "energy_millijoules", one.energy_millijoules);
  json.key("operators");
  if (comparison.profiled && one.out_of_race.empty()) {
    json.open('[');
    for (const model::Operator& row : one.operators) {
      json.open('{');
      json.field("name", row.name);
      json.field("calls", row.calls);
      json.field("cpu_seconds", row.cpu_seconds);
      json.field("device_seconds", row.device_seconds);
      json.close('}');
    }
    json.close(']');
  } else {
    json.value(nullptr);
  }
  json.rows("runs", one.runs, [&](const RunFigures& run) { add_run(json, run); });
}

const char* name_of(GpuWorth::Verdict verdict) {
  switch (verdict) {
    case GpuWorth::Verdict::kUnused:
      return "unused";
    case GpuWorth::Verdict::kFaster:
      return "faster";
    case GpuWorth::Verdict::kSlower:
      return "slower";
    case GpuWorth::Verdict::kSame:
      break;
  }
  return "same";
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("command", comparison.command);
  json.field("runs", comparison.runs);
  json.field("warmups", comparison.warmups);
  json.text_field("compared_output", comparison.compared_output);
  json.rows("settings", comparison.settings,
            [&](const SettingResult& one) { add_setting(json, one, comparison); });
  json.field("winner", comparison.winner);
  json.text_field("gpu", comparison.gpu_worth ? name_of(comparison.gpu_worth->verdict) : "");
  json.text_field("no_gpu", comparison.no_gpu);
  json.field("verdict", verdict_sentences(comparison));
  json.close('}');
  return json.finish();
}

}  // namespace berth::output
