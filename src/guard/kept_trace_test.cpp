#include "guard/kept_trace.hpp"

#include <doctest/doctest.h>

namespace berth::guard {
namespace {

KeptTrace a_trace() {
  KeptTrace trace;
  trace.started_unix_milliseconds = 1'790'000'000'000;
  trace.names[12] = "python3 -c";
  LiveCounts counts;
  counts.memory_bytes = 5;
  counts.launches = 7;
  counts.device_nanoseconds = 9;
  for (const int at : {0, 500'000}) {
    auto& sample = trace.samples.emplace_back();
    sample.at = std::chrono::microseconds(at);
    sample.job.job = 3;
    sample.job.devices.push_back({"0123", 1024, std::nullopt, 11});
    sample.job.processes.push_back({1, 12, 99, true, {counts}});
  }
  return trace;
}

TEST_CASE("a kept trace is read as it was written") {
  const std::string text = text_of(a_trace());
  const auto read = parse_trace(text);
  REQUIRE(read);
  CHECK(text_of(*read) == text);
  CHECK(read->names.at(12) == "python3 -c");
  REQUIRE(read->samples.size() == 2);
  const LiveJob& job = read->samples[1].job;
  CHECK(job.devices.at(0).memory_bytes == 1024);
  CHECK(!job.devices.at(0).share_permille);
  CHECK(job.processes.at(0).devices.at(0).launches == 7);
  CHECK(job.processes.at(0).devices.at(0).device_nanoseconds == 9);
}

TEST_CASE("a damaged trace is none") {
  const std::string text = text_of(a_trace());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = '?';
    static_cast<void>(parse_trace(damaged));
    static_cast<void>(parse_trace(text.substr(0, i)));
  }
  CHECK(!parse_trace(""));
  CHECK(!parse_trace("berth-trace 1\np 1 2 3 1\n"));
  CHECK(!parse_trace("berth-trace 1\nn 12\n"));
  CHECK(!parse_trace("berth-trace 1\ns 0 1\nd a 1 2 3\np 1 2 3 1 4\n"));
  CHECK(!parse_trace("berth-trace 1\ns 0 1\nd a 1 -2 3\n"));
}

}  // namespace
}  // namespace berth::guard
