#include "serve/otlp.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"

using namespace berth;

TEST_CASE(
    "headers for OTLP: what the variable of OpenTelemetry has, and nothing that HTTP forbids") {
  using Headers = std::vector<std::string>;
  CHECK(serve::otlp_headers("authorization=Bearer%20a%3Db, x-scope = team ,") ==
        Headers{"authorization: Bearer a=b", "x-scope: team"});
  CHECK(serve::otlp_headers("a=b=c") == Headers{"a: b=c"});
  CHECK(serve::otlp_headers("")->empty());
  for (const char* wrong : {"name", "=value", "a=", "a=%0d%0aX: y", "a=%00", "a=%4", "a=%zz",
                            "a b=c", "a:=b", "a=\x01"})
    CHECK_FALSE(serve::otlp_headers(wrong));
  CHECK_FALSE(serve::otlp_headers("a=" + std::string(9000, 'b')));
}

TEST_CASE("metrics as OTLP: gauges, counters as sums, labels with escapes") {
  const auto document = nlohmann::json::parse(serve::otlp_json(
      "# HELP a_ratio What it is.\n# TYPE a_ratio gauge\na_ratio{device=\"0\",name=\"a \\\"b\\\", "
      "c\\\\\"} 0.5\na_ratio{device=\"1\"} 1\n# TYPE b_total counter\nb_total 7\n# TYPE c gauge\n",
      {"box", "1.2", 5, 9}));
  const auto& resource = document["resourceMetrics"][0];
  CHECK(resource["resource"]["attributes"][2]["value"]["stringValue"] == "box");
  const auto& metrics = resource["scopeMetrics"][0]["metrics"];
  REQUIRE(metrics.size() == 2);  // a metric without series is left out
  const auto& points = metrics[0]["gauge"]["dataPoints"];
  REQUIRE(points.size() == 2);
  CHECK(metrics[0]["name"] == "a_ratio");
  CHECK(points[0]["attributes"][1]["key"] == "name");
  CHECK(points[0]["attributes"][1]["value"]["stringValue"] == "a \"b\", c\\");
  CHECK(points[0]["asDouble"] == 0.5);
  CHECK(points[1]["timeUnixNano"] == "9");
  const auto& sum = metrics[1]["sum"];
  CHECK(sum["isMonotonic"] == true);
  CHECK(sum["aggregationTemporality"] == 2);
  CHECK(sum["dataPoints"][0]["startTimeUnixNano"] == "5");
  CHECK(sum["dataPoints"][0]["asDouble"] == 7);
  CHECK(sum["dataPoints"][0]["attributes"].empty());
}
