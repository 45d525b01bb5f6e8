// Turns an alert into the form in which it is delivered: a sentence, a JSON document, the arguments
// of a command, or the request for a webhook. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/toml_table.hpp"
#include "watch/alerts.hpp"

namespace berth::serve {

/// How a kind of service wants its messages (data/webhooks.toml).
struct WebhookTemplate {
  std::string name, body, signed_body, signed_query, sign_key, sign_text, result_key;
  std::vector<std::string> signed_headers;
};
/// The kind of service with this name; nullptr if there is none.
[[nodiscard]] const WebhookTemplate* webhook_template(std::string_view name);
[[nodiscard]] std::vector<std::string> webhook_template_names();

/// One [[alerts]] table of the settings: a command, a webhook, or terminals.
struct AlertTarget {
  std::vector<std::string> command;
  std::string webhook;     // a URL
  bool terminals = false;  // terminals of the users whose processes are on the device
  WebhookTemplate form;
  std::string secret;      // "": requests are not signed
  int least_severity = 0;  // 0: info, 1: warning, 2: critical
  int place = 0;  // number of its table in the file if another target looks the same; if not, 0

  [[nodiscard]] bool wants(const watch::Alert& alert) const;
  /// The kind of target: "command", "webhook" or "terminal".
  [[nodiscard]] const char* kind() const;
  /// A name for people, without the parts of a URL that may be secret: "https://hooks.example" or
  /// "mail". If targets differ only in such parts, their number in the file is added:
  /// "https://hooks.example ([[alerts]] number 2)".
  [[nodiscard]] std::string shown() const;
  /// Identifies the target. Equal for targets with the same command or URL, severity and form.
  /// Contains no secrets.
  [[nodiscard]] std::string key() const;
};
/// Sets AlertTarget::place. `targets`: all targets of the file, in the order of the file.
void tell_apart(std::vector<AlertTarget>& targets);
/// The document of `berth alerts --json`. `checked_at`: when the devices were last read, in Unix
/// milliseconds; nullopt: not yet.
[[nodiscard]] std::string alerts_json(const std::vector<watch::Alert>& alerts,
                                      std::optional<std::int64_t> checked_at);
/// The document of `berth alerts --rules --json`.
[[nodiscard]] std::string alert_rules_json(const watch::AlertRules& rules);
/// Reads a target from a table. Problems are recorded in the table.
[[nodiscard]] AlertTarget read_alert_target(TomlTable& table);

struct AlertEvent {
  enum class Kind : unsigned char { kBegun, kEnded, kTest };
  Kind kind = Kind::kBegun;
  watch::Alert alert;
  std::int64_t unix_milliseconds = 0;
  std::string host;
};
/// The name of the kind: "begun", "ended" or "test".
[[nodiscard]] std::string_view name(AlertEvent::Kind kind);
[[nodiscard]] std::string sentence_of(const AlertEvent& event);
[[nodiscard]] std::string document_of(const AlertEvent& event);
/// The arguments of the target's command, with {text}, {document}, {rule}, {severity}, {event} and
/// {host} replaced.
[[nodiscard]] std::vector<std::string> command_for(const AlertTarget& target,
                                                   const AlertEvent& event);

struct WebhookRequest {
  std::string url, body;
  std::vector<std::string> headers;
};
/// `now_milliseconds`: the Unix time, which becomes part of the signature.
[[nodiscard]] WebhookRequest request_for(const AlertTarget& target, const AlertEvent& event,
                                         std::int64_t now_milliseconds);
/// The request as settings of curl, which reads them from stdin, so that no secret appears in
/// curl's command line.
[[nodiscard]] std::string curl_settings(const WebhookRequest& request);
/// Why the service refused the message, according to its answer; nullopt: it did not refuse.
[[nodiscard]] std::optional<std::string> refusal_in(const AlertTarget& target,
                                                    std::string_view answer);

}  // namespace berth::serve
