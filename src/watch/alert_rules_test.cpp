#include "watch/alert_rules.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/toml_table.hpp"
#include "watch/alerts.hpp"

using namespace berth;
using namespace berth::watch;

namespace {

Result<AlertRules> rules_of(std::string_view document) {
  AlertRules rules = built_in_alert_rules();
  auto read = TomlTable::read(document, "berth.toml", "docs/watch.md", [&](TomlTable& top) {
    top.named_tables("alert_rule", [&](const std::string& name, TomlTable& table) {
      read_alert_rule(name, table, rules);
    });
  });
  if (!read) return read.error();
  return rules;
}

Frame frame_at(double seconds, double celsius, std::uint64_t milliwatts) {
  model::Device device;
  device.index = 0;
  device.uuid = "GPU-1";
  device.health = model::Health::kOk;
  device.readings.temperature_celsius = celsius;
  device.readings.power_milliwatts = milliwatts;
  Frame frame;
  frame.seconds = seconds;
  frame.snapshot.unix_milliseconds = static_cast<std::int64_t>(1'700'000'000'000 + seconds * 1000);
  frame.snapshot.devices.push_back(device);
  model::DeviceProcess process;
  process.device = 0;
  process.pid = 77;
  process.uid = 1001;
  process.user = "lin";
  process.kind.compute = true;
  frame.snapshot.processes.push_back(process);
  return frame;
}

}  // namespace

TEST_CASE("settings change a built-in rule and keep its gap") {
  const auto rules =
      rules_of("[alert_rule.hot]\nabove = 80\nfor = \"5s\"\nseverity = \"critical\"");
  REQUIRE(rules);
  const AlertRule* hot = find_rule(*rules, "hot");
  CHECK(hot->limit == 80);
  CHECK(hot->end == 75);
  CHECK(hot->condition() == "temperature_celsius above 80, ends at 75");
  AlertWatch watch({}, *rules);
  CHECK(watch.add(frame_at(0, 82, 0)).begun.empty());
  const auto begun = watch.add(frame_at(5, 82, 0)).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].severity == "critical");
  REQUIRE(begun[0].owners.size() == 1);
  CHECK(begun[0].owners[0].user == "lin");
  CHECK(begun[0].owners[0].pids == std::vector<std::int64_t>{77});
  CHECK(watch.add(frame_at(6, 78, 0)).ended.empty());
  CHECK(watch.add(frame_at(7, 75, 0)).ended.size() == 1);
}

TEST_CASE("a rule of one's own watches any reading, in both directions") {
  const auto rules = rules_of(
      "[alert_rule.thirsty]\nreading = \"power_milliwatts\"\nabove = 300e3\nfor = \"0s\"\n"
      "[alert_rule.cold]\nreading = \"temperature_celsius\"\nbelow = 20\nends = 25\nfor = \"0s\"\n"
      "message = \"the room is cold\"");
  REQUIRE(rules);
  AlertWatch watch({}, *rules);
  const auto begun = watch.add(frame_at(0, 15, 310'000)).begun;
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].message == "GPU 0: the room is cold");
  CHECK(begun[1].message == "GPU 0: power_milliwatts is above 300000");
  const auto ended = watch.add(frame_at(1, 22, 290'000)).ended;
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].rule == "thirsty");
  CHECK(watch.add(frame_at(2, 26, 0)).ended.size() == 1);
}

TEST_CASE("a built-in rule that is turned around says what it watches now") {
  const auto rules = rules_of("[alert_rule.hot]\nbelow = 20\nfor = \"0s\"");
  REQUIRE(rules);
  AlertWatch watch({}, *rules);
  const auto begun = watch.add(frame_at(0, 15, 0)).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].message == "GPU 0: temperature_celsius is below 20");
}

TEST_CASE("a rule of one's own must hold for ten seconds unless it says otherwise") {
  const auto rules = rules_of("[alert_rule.warm]\nreading = \"temperature_celsius\"\nabove = 60");
  REQUIRE(rules);
  AlertWatch watch({}, *rules);
  CHECK(watch.add(frame_at(0, 61, 0)).begun.empty());
  CHECK(watch.add(frame_at(9, 61, 0)).begun.empty());
  CHECK(watch.add(frame_at(10, 61, 0)).begun.size() == 1);
}

TEST_CASE("metrics have the severity that the settings give to an Xid") {
  const auto rules =
      rules_of("[alert_rule.xid_43]\nseverity = \"critical\"\n[alert_rule.xid_79]\n");
  REQUIRE(rules);
  const AlertWatch watch([](int) { return XidWords{"info", ""}; }, *rules);
  CHECK(watch.severity_of_xid(43) == "critical");
  CHECK(watch.severity_of_xid(79) == "info");
  CHECK(watch.severity_of_xid(31) == "info");
}

TEST_CASE("a rule that is switched off reports nothing, and an Xid can be one") {
  const auto rules = rules_of(
      "[alert_rule.device_down]\nenabled = false\n[alert_rule.xid_43]\nenabled = false\n"
      "[alert_rule.xid_79]\nseverity = \"info\"");
  REQUIRE(rules);
  AlertWatch watch([](int) { return XidWords{"critical", ""}; }, *rules);
  watch.add(frame_at(0, 50, 0));
  Frame frame = frame_at(1, 50, 0);
  frame.snapshot.devices[0].health = model::Health::kLost;
  const std::int64_t at = frame.snapshot.unix_milliseconds;
  for (const int code : {43, 79, 48}) frame.xids.push_back({"GPU-1", code, at});
  watch.add(frame);
  frame.seconds = 9;
  watch.add(frame);
  const auto active = watch.active();
  REQUIRE(active.size() == 2);
  CHECK(active[0].rule == "xid_48");
  CHECK(active[0].severity == "critical");
  CHECK(active[1].rule == "xid_79");
  CHECK(active[1].severity == "info");
}

TEST_CASE("as many rules as may be leave the built-in ones to be changed") {
  const auto many = [](std::size_t count) {
    std::string document;
    for (std::size_t i = 0; i < count; ++i)
      document += fmt::format("[alert_rule.a{:02}]\nreading = \"fan_percent\"\nabove = 1\n", i);
    return document + "[alert_rule.hot]\nabove = 80\n";
  };
  const std::size_t room = 64 - built_in_alert_rules().size();
  const auto rules = rules_of(many(room));
  REQUIRE(rules);
  CHECK(rules->size() == 64);
  CHECK(find_rule(*rules, "hot")->limit == 80);
  CHECK(rules_of(many(room + 1)).error().id == "E0605");
}

TEST_CASE("what cannot be meant is refused, with the line") {
  const struct {
    const char* document;
    const char* id;
    const char* line;
  } cases[] = {
      {"\n[alert_rule.hot]\nabove = \"x\"", "E0604", "berth.toml:3"},
      {"\n[alert_rule.hot]\nabove = 80\nends = 81", "E0605", "berth.toml:2"},
      {"[alert_rule.hot]\nabove = 80\nbelow = 3", "E0605", "berth.toml:1"},
      {"[alert_rule.mine]\nreading = \"temperature\"\nabove = 1", "E0605", "berth.toml:1"},
      {"[alert_rule.mine]\nabove = 1", "E0606", "berth.toml:1"},
      {"[alert_rule.mine]\nreading = \"fan_percent\"", "E0605", "berth.toml:1"},
      {"[alert_rule.device_down]\nabove = 1", "E0603", "berth.toml:2"},
      {"[alert_rule.xid_079]\nenabled = true", "E0605", "berth.toml:1"},
      {"[alert_rule.xid_79]\nfor = \"1s\"", "E0603", "berth.toml:2"},
      {"[alert_rule.Mine]\nreading = \"fan_percent\"\nabove = 1", "E0605", "berth.toml:1"},
      {"[alert_rule]\nhot = 3", "E0604", "berth.toml:2"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.document);
    const auto rules = rules_of(one.document);
    REQUIRE_FALSE(rules);
    CHECK(rules.error().id == one.id);
    CHECK(rules.error().message.starts_with(one.line));
  }
}
