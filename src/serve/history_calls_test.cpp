#include "serve/history_calls.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"
#include "serve/watch_json.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::serve;
using Json = nlohmann::json;

namespace {

constexpr std::int64_t kStart = 1'700'000'000;

model::DeviceProcess process_of(const char* user, const char* command) {
  model::DeviceProcess one;
  one.device = 0;
  one.user = user;
  one.kind.compute = true;
  one.command = command;
  one.sm_percent = 40;
  return one;
}

/// Two minutes in which lin and zhao use a GPU.
void write_history(const std::string& file) {
  auto history = watch::History::open(file);
  REQUIRE(history);
  for (int second = 0; second < 121; ++second) {
    watch::Frame frame;
    frame.seconds = second;
    frame.snapshot.unix_milliseconds = (kStart + second) * 1000;
    model::Device device;
    device.uuid = "GPU-abc";
    device.index = 0;
    device.readings.utilization_percent = 80;
    frame.snapshot.devices.push_back(device);
    frame.snapshot.processes = {process_of("lin", "train --secret 7"),
                                process_of("zhao", "render scene")};
    history->add(frame);
  }
}

Call call_with(std::map<std::string, std::string> query) {
  Call call;
  call.query = std::move(query);
  return call;
}

std::vector<std::string> names_in(const Reply& reply) {
  std::vector<std::string> names;
  const Json document = Json::parse(reply.body);
  for (const Json& one : document["usage"]) names.push_back(one["name"]);
  return names;
}

}  // namespace

TEST_CASE("without a step a period has about 300 points, and never too many") {
  const auto usual = period_of({}, 1'000'000);
  REQUIRE(usual);
  CHECK(usual->to - usual->from == 3600);
  for (const char* since : {"1h", "24h", "7d", "30d", "92d"}) {
    const auto period = period_of({{"since", since}}, 1'000'000'000);
    REQUIRE(period);
    const auto points = (period->to - period->from) / period->step;
    CHECK_MESSAGE(points >= 180, since);
    CHECK_MESSAGE(points <= 400, since);
  }
  const auto most = period_of({{"since", "30d"}, {"step", "1s"}}, 1'000'000'000);
  REQUIRE(most);
  CHECK((most->to - most->from) / most->step <= 1500);
  CHECK_FALSE(period_of({{"since", "soon"}}, 1'000'000));
}

TEST_CASE("a call with an unknown key is refused, and one without a history is told so") {
  const system::TemporaryTree tree;
  CHECK(history_reply(tree.path + "/no.db", call_with({{"sinse", "1h"}}), kStart).status == 400);
  CHECK(usage_reply(tree.path + "/no.db", call_with({{"by", "colour"}}), kStart, {}).status == 400);
  CHECK(history_reply(tree.path + "/no.db", call_with({}), kStart).status == 404);
}

TEST_CASE("history is the document of the verb, in steps") {
  const system::TemporaryTree tree;
  const std::string file = tree.path + "/history.db";
  write_history(file);
  const auto reply =
      history_reply(file, call_with({{"device", "0"}, {"step", "10s"}}), kStart + 120);
  REQUIRE(reply.status == 200);
  const Json device = Json::parse(reply.body)["devices"][0];
  CHECK(device["step_seconds"] == 10);
  CHECK(device["points"].size() >= 10);
  CHECK(device["points"][0]["utilization_percent"] == 80);
  CHECK(device["points"][0]["power_milliwatts"].is_null());
}

TEST_CASE("another user sees how long others held a device, but not their programs and jobs") {
  const system::TemporaryTree tree;
  const std::string file = tree.path + "/history.db";
  write_history(file);
  const std::optional<std::string> lin = "lin";
  const auto users = usage_reply(file, call_with({}), kStart + 200, lin);
  CHECK(names_in(users) == std::vector<std::string>{"lin", "zhao"});
  const auto programs = usage_reply(file, call_with({{"by", "command"}}), kStart + 200, lin);
  CHECK(names_in(programs) == std::vector<std::string>{"train"});
  const auto all = usage_reply(file, call_with({{"by", "command"}}), kStart + 200, std::nullopt);
  CHECK(names_in(all).size() == 2);
  CHECK(all.body.find("secret") == std::string::npos);
}

TEST_CASE("a graph that is wider than the readings has no stripes, and keeps the gaps") {
  watch::DeviceHistory device;
  device.step = 10;
  for (const std::int64_t time : {0, 10, 20, 40}) {
    watch::Moment moment;
    moment[static_cast<std::size_t>(watch::Series::kUtilization)] = static_cast<double>(time);
    device.moments.emplace_back(kStart + time, moment);
  }
  const Period period{kStart, kStart + 50, 0};
  const auto fine = in_parts(device, period, watch::Series::kUtilization, 15);
  const std::optional<double> none;
  CHECK(fine == std::vector<std::optional<double>>{0, 0, 0, 10, 10, 10, 20, 20, 20, none, none,
                                                   none, 40, 40, 40});
  const auto uneven = in_parts(device, period, watch::Series::kUtilization, 7);
  CHECK(uneven == std::vector<std::optional<double>>{0, 10, 20, 20, none, 40, 40});
  CHECK(in_parts(device, period, watch::Series::kUtilization, 2) ==
        std::vector<std::optional<double>>{10, 40});
}
