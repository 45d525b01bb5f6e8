#include "serve/alert_message.hpp"

#include <doctest/doctest.h>

#include "base/digest.hpp"
#include "base/json.hpp"
#include "serve/settings.hpp"

using namespace berth;
using namespace berth::serve;
using Json = nlohmann::json;

namespace {

AlertEvent event(AlertEvent::Kind kind = AlertEvent::Kind::kBegun) {
  AlertEvent event;
  event.kind = kind;
  event.host = "lab1";
  event.unix_milliseconds = 1'700'000'000'000;
  event.alert.rule = "device_down";
  event.alert.severity = "critical";
  event.alert.device = "GPU-1";
  event.alert.index = 3;
  event.alert.message = "GPU 3 is \"lost\"\nor {body} does not answer";
  event.alert.hint = "berth health --device 3";
  event.alert.since_unix_milliseconds = 1'700'000'000'000;
  return event;
}

AlertTarget webhook(const std::string& lines) {
  const auto settings = parse_settings(
      "[[alerts]]\nwebhook = \"https://hooks.example/T0/B1?key=2\"\n" + lines, "berth.toml");
  REQUIRE_MESSAGE(settings, (settings ? "" : settings.error().message));
  return settings->alerts.at(0);
}

constexpr std::int64_t kSigned = 1'700'000'123'456;

}  // namespace

TEST_CASE("every shipped template makes a JSON document that has the sentence, whatever is in it") {
  const auto names = webhook_template_names();
  CHECK(names.size() == 5);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto request = request_for(webhook("template = \"" + name + "\""), event(), kSigned);
    const Json body = Json::parse(request.body);
    CHECK(request.url == "https://hooks.example/T0/B1?key=2");
    CHECK(request.headers == std::vector<std::string>{"Content-Type: application/json"});
    CHECK(body.dump().find("GPU 3 is \\\"lost\\\"\\nor {body} does not answer") !=
          std::string::npos);
  }
}

TEST_CASE("the JSON document of an event has the alert, and null for what a test lacks") {
  const Json begun = Json::parse(document_of(event()));
  CHECK(begun["event"] == "begun");
  CHECK(begun["rule"] == "device_down");
  CHECK(begun["device"] == 3);
  CHECK(begun["time"] == "2023-11-14T22:13:20.000Z");
  CHECK(begun["user"].is_null());
  AlertEvent test;
  test.kind = AlertEvent::Kind::kTest;
  const Json document = Json::parse(document_of(test));
  CHECK(document["event"] == "test");
  CHECK(document["device"].is_null());
  CHECK(document["since"].is_null());
  CHECK(document["rule"].is_null());
}

TEST_CASE("a secret signs the time and the body") {
  const auto request = request_for(webhook("secret = \"s3cret\""), event(), kSigned);
  CHECK(request.headers.at(1) == "X-Berth-Timestamp: 1700000123");
  CHECK(request.headers.at(2) ==
        "X-Berth-Signature: sha256=" + hex(hmac_sha256("s3cret", "1700000123." + request.body)));
}

TEST_CASE("DingTalk and Feishu are signed in their own ways") {
  const auto ding =
      request_for(webhook("template = \"dingtalk\"\nsecret = \"SEC1\""), event(), kSigned);
  CHECK(ding.url == "https://hooks.example/T0/B1?key=2&timestamp=1700000123456&sign=" +
                        percent_encoded(base64(hmac_sha256("SEC1", "1700000123456\nSEC1"))));
  const auto lark =
      request_for(webhook("template = \"feishu\"\nsecret = \"SEC1\""), event(), kSigned);
  const Json body = Json::parse(lark.body);
  CHECK(body["timestamp"] == "1700000123");
  CHECK(body["sign"] == base64(hmac_sha256("1700000123\nSEC1", "")));
}

TEST_CASE("an own body may be anything, and braces that are no placeholder stay") {
  const auto request =
      request_for(webhook("body = '{\"content\":\"{text}\",\"x\":{\"{nothing}\":{}}}'"),
                  event(AlertEvent::Kind::kEnded), kSigned);
  const Json body = Json::parse(request.body);
  CHECK(body["content"].get<std::string>().starts_with("lab1: alert ended: GPU 3"));
  CHECK(body["x"].contains("{nothing}"));
}

TEST_CASE("the settings of curl keep quotes and newlines inside their value") {
  const std::string settings = curl_settings({"https://x.example/", "a\"b\\c\nurl = d", {"H: i"}});
  CHECK(settings ==
        "url = \"https://x.example/\"\nheader = \"H: i\"\ndata-raw = \"a\\\"b\\\\c\\nurl = d\"\n");
}

TEST_CASE("services that answer 200 to what they refuse are understood") {
  const AlertTarget ding = webhook("template = \"dingtalk\"");
  CHECK_FALSE(refusal_in(ding, R"({"errcode":0,"errmsg":"ok"})"));
  CHECK(refusal_in(ding, R"({"errcode":310000,"errmsg":"sign not match"})"));
  CHECK(refusal_in(ding, "<html>"));
  CHECK(refusal_in(ding, R"({"errcode":"0"})"));
  CHECK_FALSE(refusal_in(webhook(""), "anything"));
}

TEST_CASE("the words of a command are filled in, and a severity keeps lesser alerts away") {
  const auto settings = parse_settings(R"([[alerts]]
command = ["mail", "-s", "{severity} {rule} on {host}", "root"]
severity = "warning"
)",
                                       "berth.toml");
  REQUIRE(settings);
  const AlertTarget& target = settings->alerts.at(0);
  CHECK(command_for(target, event()) ==
        std::vector<std::string>{"mail", "-s", "critical device_down on lab1", "root"});
  watch::Alert alert;
  for (const auto& [severity, wanted] :
       {std::pair{"info", false}, {"warning", true}, {"critical", true}}) {
    alert.severity = severity;
    CHECK(target.wants(alert) == wanted);
  }
  CHECK(target.shown() == "mail");
}

TEST_CASE("what is shown of a webhook has neither its path nor its password") {
  AlertTarget target;
  for (const auto& [url, shown] :
       {std::pair{"https://hooks.example/T0/B1", "https://hooks.example"},
        {"https://hooks.example?key=secret", "https://hooks.example"},
        {"http://user:pass@10.0.0.1:8080/x@y", "http://10.0.0.1:8080"}}) {
    target.webhook = url;
    CHECK(target.shown() == shown);
  }
}

TEST_CASE("settings of alerts that cannot work are refused") {
  for (const char* wrong :
       {"", "command = []", "command = [\"\"]", "command = [\"a\"]\nwebhook = \"http://a\"",
        "webhook = \"ftp://a\"", "webhook = \"https://\"", "webhook = \"https://a b\"",
        "webhook = \"http://a\"\ntemplate = \"irc\"", "command = [\"a\"]\nsecret = \"b\"",
        "webhook = \"http://a\"\ntemplate = \"slack\"\nsecret = \"b\"",
        "webhook = \"http://a\"\ntemplate = \"slack\"\nbody = \"b\"", "terminal = \"everyone\"",
        "terminal = \"owner\"\ncommand = [\"a\"]", "terminal = \"owner\"\nsecret = \"b\"",
        "webhook = \"http://a\"\nseverity = \"bad\"", "webhook = \"http://a\"\nurl = \"b\""})
    CHECK_MESSAGE(!parse_settings("[[alerts]]\n" + std::string(wrong), "berth.toml"), wrong);
}
