#include "cli/trace_events.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace berth::cli;
using berth::guard::LiveCounts;
using berth::guard::LiveJob;
using std::chrono::microseconds;

namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

LiveCounts counts(std::uint64_t memory, std::uint64_t launches) {
  LiveCounts out;
  out.memory_bytes = memory;
  out.launches = launches;
  out.copied_to_bytes = launches * 1000;
  return out;
}

LiveJob job_with(std::vector<berth::guard::LiveProcess> processes) {
  LiveJob job;
  job.devices.push_back({"00", 64 * kMiB, std::nullopt, kMiB});
  job.processes = std::move(processes);
  return job;
}

TraceEvents events_of_one() {
  return TraceEvents("job 7", {"GPU 0"}, [](std::int64_t pid) {
    return pid == 5 ? std::string("py\"\n\xff") : std::string("other");
  });
}

std::size_t count_of(const nlohmann::json& all, const std::string& phase, const std::string& name) {
  std::size_t count = 0;
  for (const auto& event : all)
    count += event.at("ph") == phase && event.at("name") == name ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a trace is JSON with the counters of each process over time") {
  TraceEvents events = events_of_one();
  events.add(job_with({{0, 5, 50, true, {counts(10 * kMiB, 100)}}}), microseconds(0));
  std::string text = events.take();
  CHECK(nlohmann::json::accept(text + "]"));
  events.add(job_with({{0, 5, 50, true, {counts(10 * kMiB, 150)}}}), microseconds(500'000));
  text += events.take() + events.end();
  const auto all = nlohmann::json::parse(text);
  CHECK(all.at(0).at("args").at("name") == "job 7");
  CHECK(count_of(all, "M", "process_name") == 2);
  // Memory did not change, so it is written once.
  CHECK(count_of(all, "C", "GPU 0 memory") == 2);
  const auto& last = *std::find_if(all.rbegin(), all.rend(), [](const auto& event) {
    return event.at("name") == "GPU 0 kernels and graphs";
  });
  CHECK(last.at("ts") == 500'000);
  CHECK(last.at("args").at("per second") == 100.0);
  const TraceSums& sums = events.sums();
  CHECK(sums.samples == 2);
  CHECK(sums.devices[0].peak_bytes == 11 * kMiB);
  // What happened before the trace is not in its sums.
  CHECK(sums.devices[0].sum.launches == 50);
  CHECK(sums.devices[0].sum.copied_to_bytes == 50'000);
  CHECK_FALSE(sums.devices[0].is_timed);
  CHECK(sums.processes.at(0).launches == 50);
}

TEST_CASE("processes that start, end and take the place of others are counted once") {
  TraceEvents events = events_of_one();
  events.add(job_with({{0, 5, 50, true, {counts(kMiB, 100)}}, {1, 4, 40, false, {counts(0, 9)}}}),
             microseconds(0));
  // 5 ended; 6 has its place and continues its sums; 7 is new.
  events.add(job_with({{0, 6, 60, true, {counts(2 * kMiB, 110)}},
                       {1, 4, 40, false, {counts(0, 9)}},
                       {2, 7, 70, true, {counts(kMiB, 3)}}}),
             microseconds(100'000));
  events.add(job_with({{0, 6, 60, false, {counts(0, 115)}},
                       {1, 4, 40, false, {counts(0, 9)}},
                       {2, 7, 70, true, {counts(kMiB, 3)}}}),
             microseconds(200'000));
  const TraceSums& sums = events.sums();
  CHECK(sums.devices[0].sum.launches == 18);
  REQUIRE(sums.processes.size() == 3);
  CHECK(sums.processes[0].pid == 5);
  CHECK(sums.processes[1].launches == 15);
  CHECK(sums.processes[2].launches == 3);
  const auto all = nlohmann::json::parse(events.take() + events.end());
  bool ended = false;
  for (const auto& event : all)
    if (event.at("pid") == 6 && event.at("name") == "GPU 0 memory")
      ended = event.at("args").at("bytes") == 0;
  CHECK(ended);
}

TEST_CASE("counters that a job spoiled do not become huge rates") {
  TraceEvents events = events_of_one();
  events.add(job_with({{0, 5, 50, true, {counts(kMiB, 1000)}}}), microseconds(0));
  events.add(job_with({{0, 5, 50, true, {counts(kMiB, 1)}}}), microseconds(100'000));
  CHECK(events.sums().devices[0].sum.launches == 0);
}
