#include "cli/trace_events.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/json.hpp"
#include "base/text_parts.hpp"

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

TraceEvents events_of_one(TraceFormat format = TraceFormat::kJson) {
  return TraceEvents(format, "job 7", {"GPU 0"}, [](std::int64_t pid) {
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
  // Launches before the trace began are not in its sums.
  CHECK(sums.devices[0].sum.launches == 50);
  CHECK(sums.devices[0].sum.copied_to_bytes == 50'000);
  CHECK_FALSE(sums.devices[0].is_timed);
  CHECK(sums.processes.at(0).launches == 50);
}

TEST_CASE("processes that start, end and take the place of others are counted once") {
  TraceEvents events = events_of_one();
  events.add(job_with({{0, 5, 50, true, {counts(kMiB, 100)}}, {1, 4, 40, false, {counts(0, 9)}}}),
             microseconds(0));
  // Process 5 has ended, and process 6 reuses its table entry without resetting the counters.
  // Process 7 is new.
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

namespace {

/// A field of a protobuf message as read from the bytes: its number, and a number or bytes as its
/// value.
struct Field {
  std::uint64_t number = 0, value = 0;
  std::string_view bytes;
};
std::uint64_t varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    REQUIRE(!from.empty());
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
}
std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> out;
  while (!message.empty()) {
    const std::uint64_t key = varint(message);
    Field field{key >> 3U, 0, {}};
    if ((key & 7U) == 0) {
      field.value = varint(message);
    } else {
      const std::uint64_t size = (key & 7U) == 1 ? 8 : varint(message);
      REQUIRE(message.size() >= size);
      field.bytes = message.substr(0, size);
      message.remove_prefix(size);
    }
    out.push_back(field);
  }
  return out;
}
Field field_of(std::string_view message, std::uint64_t number) {
  for (const Field& one : fields_of(message))
    if (one.number == number) return one;
  return {};
}

}  // namespace

TEST_CASE("a trace of packets has a track for each counter below its process") {
  TraceEvents events = events_of_one(TraceFormat::kPackets);
  events.add(job_with({{0, 5, 50, true, {counts(10 * kMiB, 100)}}}), microseconds(0));
  std::string bytes = events.take();
  events.add(job_with({{0, 5, 50, true, {counts(20 * kMiB, 150)}}}), microseconds(500'000));
  bytes += events.take() + events.end();
  std::map<std::uint64_t, std::string> names;
  std::map<std::uint64_t, std::uint64_t> parents;
  std::map<std::string, std::vector<std::pair<std::uint64_t, Field>>> values;
  for (const Field& one : fields_of(bytes)) {
    REQUIRE(one.number == 1);  // field 1 of Trace: packet
    if (const auto track = field_of(one.bytes, 60).bytes; !track.empty()) {
      const auto process = field_of(track, 3).bytes;
      const std::uint64_t uuid = field_of(track, 1).value;
      names[uuid] = process.empty() ? field_of(track, 2).bytes : field_of(process, 6).bytes;
      parents[uuid] = field_of(track, 5).value;
      if (!process.empty()) CHECK(field_of(process, 1).value == 5);
      continue;
    }
    const auto event = field_of(one.bytes, 11).bytes;
    CHECK(field_of(event, 9).value == 4);  // type = TYPE_COUNTER
    const std::uint64_t track = field_of(event, 11).value;
    const Field count = field_of(event, 30);
    values[names.at(parents.at(track)) + "/" + names.at(track)].push_back(
        {field_of(one.bytes, 8).value, count.number != 0 ? count : field_of(event, 44)});
  }
  const std::string kProcess = berth::printable("py\"\n\xff");
  const auto& memory = values.at(kProcess + "/GPU 0 memory");
  REQUIRE(memory.size() == 2);
  CHECK(memory[0].first == 0);
  CHECK(memory[0].second.value == 10 * kMiB);
  CHECK(memory[1].first == 500'000'000);
  CHECK(memory[1].second.value == 20 * kMiB);
  CHECK(values.at("job 7/GPU 0 memory used").size() == 2);
  CHECK(values.at("job 7/GPU 0 memory limit").size() == 1);
  double rate = 0;
  std::memcpy(&rate, values.at(kProcess + "/GPU 0 kernels and graphs").back().second.bytes.data(),
              sizeof rate);
  CHECK(rate == 100.0);
}

TEST_CASE("the name of a trace file decides its format") {
  CHECK(trace_format_of("a.json") == TraceFormat::kJson);
  CHECK(trace_format_of("a.pftrace") == TraceFormat::kPackets);
  CHECK(trace_format_of("/dev/null") == TraceFormat::kPackets);
}
