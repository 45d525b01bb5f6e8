#include "run/preflight.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

extern "C" const unsigned char berth_preflight[];
extern "C" const unsigned char berth_preflight_end[];

namespace berth::run {
namespace {

using Json = nlohmann::json;
using State = model::Preflight::State;

}  // namespace

std::vector<std::string> preflight_command(const std::vector<std::string>& command) {
  if (command.empty()) return {};
  const std::string name = command.front().substr(command.front().rfind('/') + 1);
  if (!name.starts_with("python")) return {};
  return {command.front(), "-c",
          std::string(reinterpret_cast<const char*>(berth_preflight),
                      static_cast<std::size_t>(berth_preflight_end - berth_preflight)),
          std::to_string(kPreflightMeets.count())};
}

model::Preflight parse_preflight(std::string_view output) {
  model::Preflight out;
  for (const std::string_view line : split(output, '\n')) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const std::string state = json_text(json, "state");
    if (state != "ok" && state != "skipped" && state != "failed") continue;
    out.state = state == "ok" ? State::kOk : state == "skipped" ? State::kSkipped : State::kFailed;
    out.backend = json_text(json, "backend");
    out.step = json_text(json, "step");
    out.why = json_text(json, "why");
    const auto seconds = json.find("seconds");
    if (seconds != json.end() && seconds->is_number() && seconds->get<double>() >= 0 &&
        seconds->get<double>() < 3600)
      out.took =
          std::chrono::milliseconds(static_cast<std::int64_t>(seconds->get<double>() * 1000));
  }
  return out;
}

model::Preflight sum_up(const std::vector<model::Preflight>& ranks) {
  model::Preflight out;
  if (ranks.empty()) return out;
  out = ranks.front();
  for (const model::Preflight& one : ranks) {
    const auto took = std::max(out.took, one.took);
    // If several ranks failed, report one that knows why it failed.
    const bool is_worse =
        one.state > out.state || (one.state == out.state && out.why.empty() && !one.why.empty());
    if (is_worse) out = one;
    out.took = took;
  }
  return out;
}

std::string preflight_sentence(const model::Preflight& one) {
  if (one.state == State::kOk)
    return text("preflight: the ranks connected and did an all-reduce with {} in {}", one.backend,
                show_duration(one.took));
  if (one.state == State::kSkipped)
    return text("preflight skipped: this Python has no PyTorch that can run ranks ({})",
                printable(one.why));
  if (one.step == "versions")
    return text("preflight failed: the ranks have different versions: {}", printable(one.why));
  if (one.step == "meet")
    return text("preflight failed: the ranks could not connect at MASTER_ADDR and MASTER_PORT: {}",
                printable(one.why));
  if (one.step == "import")
    return text("preflight failed: PyTorch cannot be imported: {}", printable(one.why));
  if (one.step == "device")
    return text("preflight failed: a rank cannot use its device: {}", printable(one.why));
  if (!one.step.empty())
    return text("preflight failed: the ranks connected, but an all-reduce failed: {}",
                printable(one.why));
  if (!one.why.empty())
    return text("preflight failed: a rank ended without an answer: {}", printable(one.why));
  return text("preflight failed: not all ranks answered within {}", show_duration(kPreflightLimit));
}

}  // namespace berth::run
