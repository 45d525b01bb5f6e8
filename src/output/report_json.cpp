#include <array>
#include <cmath>

#include "base/json.hpp"
#include "base/text_parts.hpp"
#include "model/job.hpp"
#include "model/tries.hpp"
#include "output/environment_text.hpp"
#include "output/guard_text.hpp"
#include "output/report.hpp"
#include "output/tries_text.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using Json = nlohmann::ordered_json;
using model::Setting;

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(printable(text));
}

/// Strings may be invalid UTF-8, so replace invalid bytes.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json outcome_document(const model::Outcome& outcome) {
  return {{"class", model::name(outcome.kind)},
          {"exit_code", outcome.exit_code},
          {"signal", value_or_null(outcome.signal)}};
}

Json words(const std::vector<std::string>& list) {
  Json out = Json::array();
  for (const std::string& word : list) out.push_back(word);
  return out;
}

double seconds(std::chrono::milliseconds duration) {
  return static_cast<double>(duration.count()) / 1000.0;
}

Json device_json(const model::DeviceUse& use) {
  Json out{{"index", use.device},
           {"name", text_or_null(use.name)},
           {"uuid", text_or_null(use.uuid)},
           {"partition", value_or_null(use.partition)}};
  Json absent = Json::object();
  const auto add = [&](const char* key, const auto& reading) {
    out[key] = value_or_null(reading.value);
    if (!reading) absent[key] = model::name(reading.why);
  };
  add("memory_peak_bytes", use.memory_peak_bytes);
  add("utilization_mean_percent", use.utilization_mean_percent);
  add("utilization_peak_percent", use.utilization_peak_percent);
  add("energy_millijoules", use.energy_millijoules);
  out["absent"] = std::move(absent);
  return out;
}

Json settings_json(const std::vector<Setting>& settings) {
  Json set = Json::object();
  Json unset = Json::array();
  Json kept = Json::object();
  for (const Setting& one : settings) {
    if (one.action == Setting::Action::kSet) set[one.name] = one.value;
    if (one.action == Setting::Action::kUnset) unset.push_back(one.name);
    if (one.action == Setting::Action::kKeep) kept[one.name] = one.value;
  }
  return {{"set", std::move(set)}, {"unset", std::move(unset)}, {"kept", std::move(kept)}};
}

Json isolation_json(const std::optional<model::Guarded>& guarded) {
  if (!guarded) return nullptr;
  Json devices = Json::array();
  for (const model::GuardedDevice& one : guarded->devices)
    devices.push_back(
        {{"index", one.device},
         {"memory_limit_bytes", value_or_null(one.memory_limit_bytes)},
         {"share_permille", value_or_null(one.share_permille)},
         {"cap_permille", value_or_null(one.turns.cap_permille)},
         {"turns", text_or_null(word_of(one.turns))},
         {"slice_milliseconds", value_or_null(one.turns.slice_milliseconds)},
         {"memory_peak_bytes", one.memory_peak_bytes},
         {"hidden_peak_bytes", value_or_null(one.hidden_peak_bytes)},
         {"spilled_peak_bytes", value_or_null(one.spilled_peak_bytes)},
         {"prefetches", one.spilled_peak_bytes ? Json(one.prefetches) : Json(nullptr)},
         {"prefetched_bytes", one.spilled_peak_bytes ? Json(one.prefetched_bytes) : Json(nullptr)},
         {"prefetch_seconds", one.spilled_peak_bytes
                                  ? Json(static_cast<double>(one.prefetch_nanoseconds) / 1e9)
                                  : Json(nullptr)},
         {"allocations", one.allocations},
         {"frees", one.frees},
         {"refusals", one.refusals},
         {"launches", one.launches},
         {"copies", one.copies},
         {"copied_to_bytes", one.copied_to_bytes},
         {"copied_from_bytes", one.copied_from_bytes},
         {"copied_on_bytes", one.copied_on_bytes},
         {"copied_other_bytes", one.copied_other_bytes},
         {"fills", one.fills},
         {"filled_bytes", one.filled_bytes},
         {"device_seconds", one.share_permille || one.turns.any() || one.device_nanoseconds > 0
                                ? Json(static_cast<double>(one.device_nanoseconds) / 1e9)
                                : Json(nullptr)}});
  const std::string by = enforced_by(*guarded);
  return {{"by", text_or_null(by)},
          {"not_protected", text_or_null(not_protected(by))},
          {"threads_percent", value_or_null(guarded->threads_percent)},
          {"why_not", text_or_null(guarded->not_enforced)},
          {"not_counted", text_or_null(guarded->not_counted)},
          {"programs", guarded->programs},
          {"devices", std::move(devices)}};
}

Json engine_json(const std::optional<model::EngineJob>& engine) {
  if (!engine) return nullptr;
  return {{"name", engine->engine},
          {"job", text_or_null(engine->job)},
          {"step", text_or_null(engine->step)},
          {"rank", value_or_null(engine->rank)},
          {"node", text_or_null(engine->node)}};
}

Json growth_json(const std::vector<model::MemoryGrowth>& all) {
  Json out = Json::array();
  for (const model::MemoryGrowth& one : all)
    out.push_back({{"device", value_or_null(one.device)},
                   {"bytes_per_minute", std::llround(one.bytes_per_minute)},
                   {"since_seconds", std::round(one.since_seconds)}});
  return out;
}

Json preflight_json(const model::Tries* tries) {
  if (tries == nullptr || !tries->preflight) return nullptr;
  constexpr std::array<const char*, 3> kStates{"ok", "skipped", "failed"};
  const model::Preflight& one = *tries->preflight;
  const bool is_ok = one.state == model::Preflight::State::kOk;
  return {{"state", kStates.at(static_cast<std::size_t>(one.state))},
          {"backend", text_or_null(one.backend)},
          {"seconds", is_ok ? Json(seconds(one.took)) : Json(nullptr)},
          {"step", text_or_null(one.step)},
          {"why", text_or_null(one.why)}};
}

Json bottlenecks_json(const std::vector<model::Bottleneck>& all) {
  Json out = Json::array();
  for (const model::Bottleneck& one : all)
    out.push_back({{"kind", one.kind}, {"sentence", one.sentence}, {"change", one.change}});
  return out;
}

Json threading_json(const model::Threading& threading) {
  return {{"most_threads", value_or_null(threading.most)},
          {"most_threads_of_all_processes", value_or_null(threading.most_of_all)},
          {"pools", words(threading.pools)},
          {"blas", words(threading.blas)}};
}

Json cost_json(const model::Report& report) {
  if (!report.prices.any()) return nullptr;
  return {{"amount", value_or_null(report.cost)},
          {"currency", text_or_null(report.prices.currency)},
          {"gpu_hour_price", value_or_null(report.prices.gpu_hour)},
          {"power_price", value_or_null(report.prices.kwh)}};
}

Json checkpoint_json(const model::CheckpointSignal& one) {
  if (one.signal == 0) return nullptr;
  return {{"signal", model::warning_name(one.signal)},
          {"handled", one.was_handled},
          {"ended_by_itself", one.was_handled ? Json(one.ended_by_itself) : Json(nullptr)},
          {"waited_seconds", one.was_handled ? Json(seconds(one.waited)) : Json(nullptr)}};
}

}  // namespace

std::string outcome_json(const model::Outcome& outcome) {
  return outcome_document(outcome).dump();
}

std::string report_json(const model::Report& report) {
  Json devices = Json::array();
  for (const model::DeviceUse& use : report.devices) devices.push_back(device_json(use));
  Json left_behind = Json::array();
  for (const model::LeftBehind& one : report.left_behind)
    left_behind.push_back({{"pid", one.pid}, {"command", text_or_null(one.command)}});
  const double wall = seconds(report.wall);
  const std::optional<double> cores =
      wall > 0 && report.cpu_known
          ? std::optional(std::round(seconds(report.cpu) / wall * 100) / 100)
          : std::nullopt;
  const Json out{
      {"schema", 1},
      {"command", words(report.command)},
      {"name", text_or_null(report.name)},
      {"job", value_or_null(report.job)},
      {"engine", engine_json(report.engine)},
      {"container", report.container ? Json{{"engine", report.container->engine},
                                            {"image", report.container->image}}
                                     : Json(nullptr)},
      {"started_at", text_or_null(show_time(report.started_unix_milliseconds))},
      {"devices", std::move(devices)},
      {"outcome", outcome_document(report.outcome)},
      {"wall_seconds", wall},
      {"cpu_seconds", report.cpu_known ? Json(seconds(report.cpu)) : Json(nullptr)},
      {"cores_used", value_or_null(cores)},
      {"peak_rss_bytes", report.peak_rss_bytes == 0 ? Json(nullptr) : Json(report.peak_rss_bytes)},
      {"peak_memory_method", report.peak_rss_bytes == 0 ? Json(nullptr)
                             : report.peak_is_pss       ? Json("pss")
                                                        : Json("rss")},
      {"cpus", text_or_null(report.cpus)},
      {"threads", report.threads},
      {"threading", threading_json(report.threading)},
      {"cost", cost_json(report)},
      {"reasons", words(report.reasons)},
      {"environment", settings_json(report.settings)},
      {"gpus_here", report.gpus_here},
      {"access", model::name(report.access)},
      {"isolation", isolation_json(report.guarded)},
      {"gpu_use", model::name(report.gpu_use)},
      {"gpu_use_method", text_or_null(report.gpu_use_method)},
      {"gpus_touched", report.gpus_touched ? words(*report.gpus_touched) : Json(nullptr)},
      {"looks", report.looks},
      {"libraries", words(report.libraries)},
      {"suggestions", words(report.suggestions)},
      {"left_behind", std::move(left_behind)},
      {"memory_growth", growth_json(report.memory_growth)},
      {"bottlenecks", bottlenecks_json(report.bottlenecks)},
      {"bottlenecks_unknown", text_or_null(report.bottlenecks_unknown)},
      {"checkpoint_signal", checkpoint_json(report.checkpoint)},
      {"preflight", preflight_json(report.tries.get())},
      {"tries", Json::parse(tries_json(report.tries.get()))},
      {"ranks", Json::parse(ranks_json(report.tries.get()))},
      {"notes", words(report.notes)}};
  return line_of(out);
}

std::string plan_json(const std::vector<std::string>& command,
                      const model::Environment& environment, const model::Placement& placement,
                      const model::Snapshot& snapshot) {
  const Json rest = Json::parse(environment_json(environment, placement, snapshot), nullptr, false);
  Json out{{"schema", 1}, {"command", words(command)}};
  for (const auto& [key, value] : rest.items()) out[key] = value;
  return line_of(out);
}

}  // namespace berth::output
