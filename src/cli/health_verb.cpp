// `berth health`: whether GPUs are ready for a job, for prolog scripts and people.
#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"
#include "output/words.hpp"
#include "watch/health.hpp"

namespace berth::cli {
namespace {

using watch::HealthCheck;
using watch::Verdict;

struct Checked {
  const model::Device* device;
  std::vector<HealthCheck> checks;
};

Result<std::vector<Checked>> check(const model::Snapshot& snapshot,
                                   const std::vector<std::string>& named) {
  std::vector<int> wanted;
  if (!named.empty()) {
    const auto selected = model::select_devices(snapshot.devices, named);
    if (!selected) return selected.error();
    for (const model::Selected& one : *selected) wanted.push_back(one.device);
  }
  std::vector<Checked> checked;
  for (const model::Device& device : snapshot.devices) {
    const bool is_wanted =
        wanted.empty() ? model::is_gpu(device) && (device.managed || out_of_reach(device))
                       : std::find(wanted.begin(), wanted.end(), device.index) != wanted.end();
    if (is_wanted) checked.push_back({&device, watch::health_of(device)});
  }
  if (checked.empty())
    return Error{ErrorCode::kNoDevice, "E0987",
                 snapshot.driver.message.empty() ? text("there is no GPU to check")
                                                 : snapshot.driver.message,
                 snapshot.driver.hint.empty() ? "berth doctor" : snapshot.driver.hint};
  return checked;
}

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
  return tr(msgid("temperature"));
}

std::string health_table(const std::vector<Checked>& all, const output::Terminal& terminal) {
  output::Table table({{text("device"), true}, {text("check")}, {text("result")}, {""}});
  for (const Checked& one : all)
    for (const HealthCheck& single : one.checks)
      table.add({std::to_string(one.device->index),
                 std::string(words_for(single.id)),
                 {std::string(word_of(single.verdict)), style_of(single.verdict)},
                 single.detail});
  return table.render(terminal);
}

std::string health_json(const std::vector<Checked>& all, bool is_well) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("healthy", is_well);
  json.rows("devices", all, [&](const Checked& one) {
    json.field("device", one.device->index);
    json.text_field("uuid", one.device->uuid);
    json.text_field("name", one.device->name);
    json.field("verdict", watch::name(watch::verdict_of(one.checks)));
    json.rows("checks", one.checks, [&](const HealthCheck& single) {
      json.field("check", single.id);
      json.field("verdict", watch::name(single.verdict));
      json.text_field("detail", single.detail);
    });
  });
  json.close('}');
  return json.finish();
}

}  // namespace

Result<int> run_health(const Context& context) {
  auto seen = look(context, Processes::kUsers, false);
  if (!seen) return std::move(seen).error();
  const auto all = check(*seen, context.arguments.values("--device"));
  if (!all) return all.error();
  const bool is_well = std::none_of(all->begin(), all->end(), [](const Checked& one) {
    return watch::verdict_of(one.checks) == Verdict::kFailed;
  });
  context.out(context.json ? health_json(*all, is_well) : health_table(*all, context.out_terminal));
  return is_well ? 0 : 1;
}

}  // namespace berth::cli
