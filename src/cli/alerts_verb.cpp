// `berth alerts`: the daemon's current alerts about devices. --rules shows the rules; --test sends
// a test message to each target.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/verbs.hpp"
#include "client/lease.hpp"
#include "output/json_writer.hpp"
#include "output/table.hpp"
#include "serve/alert_delivery.hpp"
#include "serve/settings.hpp"
#include "system/process.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

std::string text_in(const Json& json, const char* key) {
  return printable(json_text(json, key));
}

output::Style style_of(const std::string& severity) {
  if (severity == "critical") return output::Style::kRed;
  return severity == "warning" ? output::Style::kYellow : output::Style::kPlain;
}

std::string word_of(const std::string& severity) {
  if (severity == "critical") return text("critical");
  if (severity == "warning") return text("warning");
  return text("info");
}

struct Tried {
  const serve::AlertTarget* target;
  std::string problem;  // why the delivery failed; an empty string if the message was delivered
};

/// The user who ran the command, even if this process runs as root under sudo.
watch::AlertOwner caller() {
  watch::AlertOwner owner;
  const auto behind = env_nonempty("SUDO_UID");
  const auto uid = ::geteuid() == 0 && behind ? to_number(*behind) : std::nullopt;
  owner.uid = uid ? static_cast<std::uint32_t>(*uid) : ::geteuid();
  owner.user = system::UserNames("/etc").of(owner.uid);
  owner.pids = {::getpid()};
  return owner;
}

Result<int> try_targets(const Context& context) {
  const auto file = context.arguments.value("--config");
  const std::string path = file.value_or(serve::kSettingsFile);
  const auto settings = serve::read_settings(path, file.has_value());
  if (!settings) return settings.error();
  if (settings->alerts.empty())
    return Error{ErrorCode::kNotFound, "E0962",
                 text("{} has no [[alerts]], so nothing is delivered", printable(path)),
                 "berth help alerts"};
  serve::AlertEvent event;
  event.kind = serve::AlertEvent::Kind::kTest;
  event.unix_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) event.host = host.data();
  event.alert.owners.push_back(caller());
  std::vector<Tried> all;
  bool is_well = true;
  const std::atomic<bool> goes_on = false;
  for (const serve::AlertTarget& target : settings->alerts) {
    const auto delivered = serve::deliver(target, event, goes_on);
    all.push_back({&target, delivered ? "" : delivered.error().message});
    is_well = is_well && delivered;
  }
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.rows("targets", all, [&](const Tried& one) {
      json.field("kind", one.target->kind());
      json.field("target", one.target->shown());
      json.field("delivered", one.problem.empty());
      json.text_field("problem", one.problem);
    });
    json.close('}');
    context.out(json.finish());
    return is_well ? 0 : 1;
  }
  for (const Tried& one : all)
    context.out((one.problem.empty() ? text("{} accepted the test message", one.target->shown())
                                     : one.problem) +
                "\n");
  return is_well ? 0 : 1;
}

/// Gets a document from the broker. The document must contain a list with the name `list`.
Result<Json> ask_broker(const char* path, const char* list) {
  auto broker = client::broker_here(client::IfNone::kGlance);
  if (!broker)
    return Error{ErrorCode::kUnavailable, "E0988", text("no broker runs, so no alerts are checked"),
                 "berth serve"};
  const auto answer = broker->call("GET", path);
  if (!answer) return answer.error();
  Json document = Json::parse(answer->body, nullptr, false);
  const auto rows = document.is_object() ? document.find(list) : document.end();
  if (answer->status != 200 || rows == document.end() || !rows->is_array())
    return client::error_in(answer->body)
        .value_or(Error{ErrorCode::kUnavailable, "E0988",
                        text("the running broker does not check alerts"), "berth serve"});
  return document;
}

/// Prints the alert rules as a table. Throws Json::exception if `rules` has an unexpected form.
output::Table rules_table(const Json& rules) {
  constexpr double kLongest = 1e9;  // seconds
  output::Table table(
      {{text("rule")}, {text("severity")}, {text("for")}, {text("condition")}, {text("set by")}});
  for (const Json& one : rules) {
    if (!one.is_object()) continue;
    const std::string severity = text_in(one, "severity");
    const double seconds = json_value<double>(one.value("for_seconds", Json(0.0)));
    const bool is_on = json_value<bool>(one.value("enabled", Json(true)));
    const bool is_set = json_value<bool>(one.value("from_settings", Json(false)));
    const auto least = static_cast<std::int64_t>(std::clamp(seconds, 0.0, kLongest) * 1000);
    table.add({text_in(one, "rule"),
               !is_on             ? output::Cell{text("off")}
               : severity.empty() ? output::Cell{"-"}
                                  : output::Cell{word_of(severity), style_of(severity)},
               least == 0 ? "-" : show_duration(std::chrono::milliseconds(least)),
               text_in(one, "condition"), is_set ? "berth.toml" : text("default")});
  }
  return table;
}

Result<int> show_rules(const Context& context) {
  std::string answer;
  if (const auto file = context.arguments.value("--config")) {
    const auto settings = serve::read_settings(*file, true);
    if (!settings) return settings.error();
    answer = serve::alert_rules_json(settings->alert_rules);
  } else {
    const auto document = ask_broker("/v1/alerts/rules", "rules");
    if (!document) return document.error();
    answer = document->dump() + "\n";
  }
  if (context.json) {
    context.out(answer);
    return 0;
  }
  try {
    context.out(rules_table(Json::parse(answer).at("rules")).render(context.out_terminal));
  } catch (const Json::exception&) {
    return Error{ErrorCode::kUnavailable, "E0988",
                 text("the running broker answered with rules that cannot be read"), "berth serve"};
  }
  return 0;
}

}  // namespace

Result<int> run_alerts(const Context& context) {
  if (context.arguments.has("--test")) return try_targets(context);
  if (context.arguments.has("--rules")) return show_rules(context);
  if (context.arguments.has("--config"))
    return Error{ErrorCode::kInvalidArgument, "E0010",
                 text("{} works only with {}", "--config", "--test, --rules"),
                 "berth alerts --rules --config berth.toml"};
  const auto answer = ask_broker("/v1/alerts", "alerts");
  if (!answer) return answer.error();
  const Json& document = *answer;
  const auto alerts = document.find("alerts");
  if (context.json) {
    context.out(document.dump() + "\n");
    return alerts->empty() ? 0 : 1;
  }
  if (alerts->empty()) {
    context.out(text("no alerts") + "\n");
    return 0;
  }
  output::Table table(
      {{text("since (UTC)")}, {text("severity")}, {text("what")}, {text("command for details")}});
  for (const Json& one : *alerts) {
    if (!one.is_object()) continue;
    const std::string severity = text_in(one, "severity");
    std::string since = text_in(one, "since");
    since = since.size() >= 19 ? since.substr(0, 10) + " " + since.substr(11, 8) : "-";
    table.add({since,
               {word_of(severity), style_of(severity)},
               text_in(one, "message"),
               text_in(one, "hint")});
  }
  context.out(table.render(context.out_terminal));
  return 1;
}

}  // namespace berth::cli
