#include "compare/trial.hpp"

#include <doctest/doctest.h>

namespace berth::compare {
namespace {

constexpr const char* kReport = R"({"outcome":{"class":"failed","exit_code":3,"signal":null},
 "wall_seconds":1.5,"cpu_seconds":null,"peak_rss_bytes":1024,"threads":2,"gpu_use":"seen",
 "devices":[{"name":"A","memory_peak_bytes":100,"energy_millijoules":5},
            {"name":null,"memory_peak_bytes":50,"energy_millijoules":null}]})";

}  // namespace

TEST_CASE("figures of a report: sums over devices, and unknown stays unknown") {
  const auto trial = read_report(kReport);
  REQUIRE(trial);
  REQUIRE(trial->figures);
  CHECK(trial->exit_code == 3);
  CHECK(trial->figures->wall_seconds == 1.5);
  CHECK_FALSE(trial->figures->cpu_seconds);
  CHECK(trial->figures->memory_bytes == 1024);
  CHECK(trial->figures->device_memory_bytes == 150);
  CHECK_FALSE(trial->figures->energy_millijoules);
  CHECK(trial->figures->devices == std::vector<std::string>{"A", ""});
}

TEST_CASE("a run that did not start says why") {
  const auto trial =
      read_report(R"({"error":{"id":"E0417","code":"refused","message":"too many","hint":null}})");
  REQUIRE(trial);
  CHECK_FALSE(trial->figures);
  CHECK(trial->refusal->id == "E0417");
  CHECK(trial->refusal->code == ErrorCode::kRefused);
  CHECK(trial->refusal->message == "too many");
}

TEST_CASE("a text that is not a report is an error") {
  for (const char* bad : {"", "{", "[]", "{}", R"({"outcome":{"class":1,"exit_code":"x"}})",
                          R"({"outcome":{"class":"ok","exit_code":1e300}})"})
    CHECK(read_report(bad).has_value() == false);
}

}  // namespace berth::compare
