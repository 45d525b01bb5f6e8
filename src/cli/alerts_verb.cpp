// `berth alerts`: the daemon's current alerts about devices.
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/verbs.hpp"
#include "client/lease.hpp"
#include "output/table.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

std::string text_in(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? printable(found->get<std::string>()) : "";
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

}  // namespace

Result<int> run_alerts(const Context& context) {
  auto broker = client::broker_here(client::IfNone::kGlance);
  if (!broker)
    return Error{ErrorCode::kUnavailable, "E0988", text("no broker runs, so no alerts are checked"),
                 "berth serve"};
  const auto answer = broker->call("GET", "/v1/alerts");
  if (!answer) return answer.error();
  const Json document = Json::parse(answer->body, nullptr, false);
  const auto alerts = document.is_object() ? document.find("alerts") : document.end();
  if (answer->status != 200 || alerts == document.end() || !alerts->is_array())
    return client::error_in(answer->body)
        .value_or(Error{ErrorCode::kUnavailable, "E0988",
                        text("the broker that runs does not watch for alerts"), "berth serve"});
  if (context.json) {
    context.out(document.dump() + "\n");
    return alerts->empty() ? 0 : 1;
  }
  if (alerts->empty()) {
    context.out(text("no alerts") + "\n");
    return 0;
  }
  output::Table table({{text("since (UTC)")},
                       {text("severity")},
                       {text("what")},
                       {text("command to look further")}});
  for (const Json& one : *alerts) {
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
