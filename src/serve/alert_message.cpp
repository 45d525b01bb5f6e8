#include "serve/alert_message.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "output/json_writer.hpp"
#include "output/words.hpp"

extern const char berth_webhooks[];
extern const char berth_webhooks_end[];

namespace berth::serve {
namespace {

constexpr std::size_t kMostUrl = 2000, kMostBody = 4000, kMostSecret = 500;
constexpr auto kSeverities = std::to_array<const char*>({"info", "warning", "critical"});

using Replacements = std::vector<std::pair<std::string_view, std::string>>;

/// Replaces each "{name}" once, from left to right. Other braces stay, because JSON has them too.
std::string filled(std::string_view form, const Replacements& replacements) {
  std::string text;
  while (!form.empty()) {
    const auto found = std::find_if(replacements.begin(), replacements.end(), [&](const auto& one) {
      return form.size() >= one.first.size() + 2 && form.front() == '{' &&
             form.substr(1).starts_with(one.first) && form[one.first.size() + 1] == '}';
    });
    if (found == replacements.end()) {
      text += form.front();
      form.remove_prefix(1);
      continue;
    }
    text += found->second;
    form.remove_prefix(found->first.size() + 2);
  }
  return text;
}

/// Escapes text for the inside of a JSON string.
std::string escaped(const std::string& text) {
  output::JsonWriter json;
  json.value(text);
  const std::string quoted = json.finish();  // the text in quotes, and a newline
  return quoted.substr(1, quoted.size() - 3);
}

std::vector<WebhookTemplate> shipped_templates() {
  std::vector<WebhookTemplate> templates;
  const std::string_view document(berth_webhooks,
                                  static_cast<std::size_t>(berth_webhooks_end - berth_webhooks));
  const auto read =
      TomlTable::read(document, "webhooks.toml", "data/webhooks.toml", [&](TomlTable& top) {
        std::int64_t schema = 1;
        top.number("schema", schema, 1, 1);
        top.tables("template", [&](TomlTable& table) {
          WebhookTemplate& one = templates.emplace_back();
          table.string("name", one.name, true);
          table.string("body", one.body, true, kMostBody);
          table.string("signed_body", one.signed_body, false, kMostBody);
          table.string("signed_query", one.signed_query);
          table.string("sign_key", one.sign_key);
          table.string("sign_text", one.sign_text);
          table.string("result_key", one.result_key);
          table.strings("signed_headers", one.signed_headers);
        });
      });
  BERTH_CHECK(read);
  return templates;
}

const std::vector<WebhookTemplate>& templates() {
  static const std::vector<WebhookTemplate> all = shipped_templates();
  return all;
}

bool is_url(const std::string& text) {
  const std::size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  return scheme != 0 && text.size() > scheme &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

/// Formats a value for a settings file of curl. curl knows only these escapes.
std::string curl_value(std::string_view text) {
  std::string value = "\"";
  for (const char one : text) {
    if (one == '\n')
      value += "\\n";
    else if (one == '\r')
      value += "\\r";
    else if (one == '"' || one == '\\')
      value += std::string{'\\', one};
    else
      value += one;
  }
  return value + "\"";
}

}  // namespace

const WebhookTemplate* webhook_template(std::string_view name) {
  const auto found = std::find_if(templates().begin(), templates().end(),
                                  [&](const WebhookTemplate& one) { return one.name == name; });
  return found == templates().end() ? nullptr : &*found;
}

std::vector<std::string> webhook_template_names() {
  std::vector<std::string> names;
  for (const WebhookTemplate& one : templates()) names.push_back(one.name);
  return names;
}

bool AlertTarget::wants(const watch::Alert& alert) const {
  const auto found = std::find(kSeverities.begin(), kSeverities.end(), alert.severity);
  return found - kSeverities.begin() >= least_severity;
}

const char* AlertTarget::kind() const {
  if (terminals) return "terminal";
  return webhook.empty() ? "command" : "webhook";
}

namespace {

std::string public_part(const AlertTarget& target) {
  const std::string& webhook = target.webhook;
  if (target.terminals) return text("the terminal of the owner");
  if (webhook.empty()) return target.command.empty() ? "" : printable(target.command.front());
  std::string host = webhook.substr(0, webhook.find_first_of("/?#", webhook.find("//") + 2));
  const auto at = host.rfind('@');  // before the '@': user and password
  if (at != std::string::npos) host = host.substr(0, host.find("//") + 2) + host.substr(at + 1);
  return printable(host);
}

}  // namespace

std::string AlertTarget::shown() const {
  const std::string all = public_part(*this);
  return place == 0 ? all : text("{} ([[alerts]] number {})", all, place);
}

void tell_apart(std::vector<AlertTarget>& targets) {
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < targets.size(); ++i) alike[public_part(targets[i])].push_back(i);
  for (const auto& [part, places] : alike)
    for (const std::size_t i : places)
      targets[i].place = places.size() == 1 ? 0 : static_cast<int>(i) + 1;
}

std::string AlertTarget::key() const {
  std::string all = terminals ? "terminal" : webhook;
  for (const std::string& word : command) all += word + '\0';
  all += std::to_string(least_severity) + '\0' + form.name + '\0' + form.body;
  return hex(sha256(all)).substr(0, 16);
}

std::string alerts_json(const std::vector<watch::Alert>& alerts,
                        std::optional<std::int64_t> checked_at) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.text_field("checked_at", checked_at ? output::show_time(*checked_at) : "");
  json.rows("alerts", alerts, [&](const watch::Alert& one) {
    json.field("rule", one.rule);
    json.field("severity", one.severity);
    json.field("device", one.index < 0 ? std::nullopt : std::optional(one.index));
    json.text_field("uuid", one.device);
    json.text_field("user", one.user);
    json.field("job", one.job == 0 ? std::nullopt : std::optional(one.job));
    json.field("since", output::show_time(one.since_unix_milliseconds));
    json.field("message", one.message);
    json.field("hint", one.hint);
  });
  json.close('}');
  return json.finish();
}

std::string alert_rules_json(const watch::AlertRules& rules) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.rows("rules", rules, [&](const watch::AlertRule& one) {
    json.field("rule", one.name);
    json.text_field("severity", one.severity);
    json.field("condition", one.condition());
    json.field("for_seconds", one.seconds);
    json.field("enabled", one.is_on);
    json.field("from_settings", one.is_changed);
  });
  json.close('}');
  return json.finish();
}

AlertTarget read_alert_target(TomlTable& table) {
  AlertTarget target;
  table.strings("command", target.command);
  table.string("webhook", target.webhook, false, kMostUrl);
  table.string("secret", target.secret, false, kMostSecret);
  int terminals = 0;
  table.choice("terminal", terminals, {"owner"});
  target.terminals = table.has("terminal");
  table.choice("severity", target.least_severity, {kSeverities.begin(), kSeverities.end()});
  const std::vector<std::string> names = webhook_template_names();
  int form = 0;
  table.choice("template", form, names);
  target.form = *webhook_template(names.at(static_cast<std::size_t>(form)));
  table.string("body", target.form.body, false, kMostBody);
  if (table.has("template") && table.has("body"))
    table.check(text("'template' and 'body' exclude each other"));
  const int ways = (target.webhook.empty() ? 0 : 1) + (target.command.empty() ? 0 : 1) +
                   (target.terminals ? 1 : 0);
  if (ways != 1)
    table.check(text("each [[alerts]] table needs one of 'command', 'webhook' and 'terminal'"));
  if (!target.command.empty() && target.command.front().empty())
    table.check(text("command: its first word is empty"));
  if (target.webhook.empty() && (table.has("secret") || table.has("template") || table.has("body")))
    table.check(text("'secret', 'template' and 'body' work only with 'webhook'"));
  if (!target.webhook.empty() && !is_url(target.webhook))
    table.check(text("webhook: not a URL with http:// or https://"));
  if (!target.secret.empty() && target.form.sign_key.empty())
    table.check(text("secret: messages of template '{}' cannot be signed", target.form.name));
  return target;
}

std::string_view name(AlertEvent::Kind kind) {
  switch (kind) {
    case AlertEvent::Kind::kBegun:
      return "begun";
    case AlertEvent::Kind::kEnded:
      return "ended";
    case AlertEvent::Kind::kTest:
      break;
  }
  return "test";
}

std::string sentence_of(const AlertEvent& event) {
  const watch::Alert& alert = event.alert;
  const std::string begin = event.host.empty() ? "" : printable(event.host) + ": ";
  switch (event.kind) {
    case AlertEvent::Kind::kBegun:
      return begin + text("alert: {}; details: {}", alert.message, alert.hint);
    case AlertEvent::Kind::kEnded:
      return begin + text("alert ended: {}", alert.message);
    case AlertEvent::Kind::kTest:
      break;
  }
  return begin + text("test message: alerts of this machine arrive here");
}

std::string document_of(const AlertEvent& event) {
  const watch::Alert& alert = event.alert;
  const bool is_test = event.kind == AlertEvent::Kind::kTest;
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("event", name(event.kind));
  json.text_field("host", event.host);
  json.field("time", output::show_time(event.unix_milliseconds));
  json.text_field("rule", alert.rule);
  json.text_field("severity", alert.severity);
  json.field("device", is_test || alert.index < 0 ? std::nullopt : std::optional(alert.index));
  json.text_field("uuid", alert.device);
  json.text_field("user", alert.user);
  json.field("job", alert.job == 0 ? std::nullopt : std::optional(alert.job));
  json.field("since", is_test ? std::nullopt
                              : std::optional(output::show_time(alert.since_unix_milliseconds)));
  json.field("message", is_test ? sentence_of(event) : alert.message);
  json.text_field("hint", alert.hint);
  json.close('}');
  std::string document = json.finish();
  document.pop_back();
  return document;
}

std::vector<std::string> command_for(const AlertTarget& target, const AlertEvent& event) {
  const Replacements replacements = {{"text", sentence_of(event)},
                                     {"document", document_of(event)},
                                     {"rule", event.alert.rule},
                                     {"severity", event.alert.severity},
                                     {"event", std::string(name(event.kind))},
                                     {"host", event.host}};
  std::vector<std::string> words;
  for (const std::string& word : target.command) words.push_back(filled(word, replacements));
  return words;
}

WebhookRequest request_for(const AlertTarget& target, const AlertEvent& event,
                           std::int64_t now_milliseconds) {
  const WebhookTemplate& form = target.form;
  Replacements replacements = {{"document", document_of(event)},
                               {"text", escaped(sentence_of(event))},
                               {"seconds", std::to_string(now_milliseconds / 1000)},
                               {"milliseconds", std::to_string(now_milliseconds)},
                               {"secret", target.secret},
                               {"newline", "\n"}};
  WebhookRequest request;
  request.url = target.webhook;
  request.body = filled(form.body, replacements);
  request.headers = {"Content-Type: application/json"};
  if (target.secret.empty()) return request;
  replacements.emplace_back("body", request.body);
  const std::string digest =
      hmac_sha256(filled(form.sign_key, replacements), filled(form.sign_text, replacements));
  replacements.emplace_back("hex", hex(digest));
  replacements.emplace_back("base64", base64(digest));
  replacements.emplace_back("base64_in_url", percent_encoded(base64(digest)));
  if (!form.signed_body.empty()) request.body = filled(form.signed_body, replacements);
  if (!form.signed_query.empty())
    request.url += (request.url.find('?') == std::string::npos ? "?" : "&") +
                   filled(form.signed_query, replacements);
  for (const std::string& header : form.signed_headers)
    request.headers.push_back(filled(header, replacements));
  return request;
}

std::string curl_settings(const WebhookRequest& request) {
  std::string settings = "url = " + curl_value(request.url) + "\n";
  for (const std::string& header : request.headers)
    settings += "header = " + curl_value(header) + "\n";
  return settings + "data-raw = " + curl_value(request.body) + "\n";
}

std::optional<std::string> refusal_in(const AlertTarget& target, std::string_view answer) {
  if (target.form.result_key.empty()) return std::nullopt;
  const auto document = nlohmann::json::parse(answer, nullptr, false);
  const auto result = document.is_object() ? document.find(target.form.result_key) : document.end();
  const bool is_number = result != document.end() && result->is_number_integer();
  if (is_number && *result == 0) return std::nullopt;
  return text("it answered: {}", printable(answer.substr(0, 200)));
}

}  // namespace berth::serve
