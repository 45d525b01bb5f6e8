#include "top/queue.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::top;

namespace {

std::string shown_queue(const Queue& queue, int row, bool has_row, int most = 20) {
  std::string all;
  for (const Line& line : queue_lines(queue, row, has_row, 120, most)) {
    for (const Span& span : line) all += span.text;
    all += "\n";
  }
  return all;
}

constexpr const char* kJobs = R"({"schema":1,"jobs":[
  {"id":7,"user":"lin","name":null,"command":["python","train.py"],"state":"waiting",
   "submitted":"2023-11-14T22:13:20Z"},
  {"id":8,"user":"zhao","name":"sweep","command":null,"state":"held","submitted":null},
  {"id":6,"user":"lin","command":["a\u001b[2J"],"state":"running","started":"2023-11-14T22:12:20Z"},
  {"id":5,"user":"lin","command":["old"],"state":"done"}]})";
constexpr std::int64_t kLater = 1'700'000'060'000;

}  // namespace

TEST_CASE("the queue shows what runs, then what waits, for how long, and why") {
  Queue queue = queue_in(kJobs, kLater);
  REQUIRE(queue.jobs.size() == 3);
  CHECK(queue.jobs[0].id == 6);
  CHECK(queue.jobs[0].seconds == 120);
  CHECK(queue.jobs[1].what == "python train.py");
  CHECK(queue.jobs[1].seconds == 60);
  CHECK(queue.jobs[2].what == "sweep");
  queue.jobs[1].why = why_in(R"({"obstruction":"busy"})");
  const std::string text = shown_queue(queue, 1, true);
  CHECK(text.find(">7 waiting") != std::string::npos);
  CHECK(text.find("no suitable device is free") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("an empty queue and no broker are different") {
  CHECK(shown_queue(queue_in(R"({"jobs":[]})", 0), 0, false).find("no job") != std::string::npos);
  CHECK(shown_queue({}, 0, false).find("no broker") != std::string::npos);
  for (const char* wrong : {"", "[]", "{\"jobs\":[{}]}", "{\"jobs\":[{\"id\":-1}]}"})
    CHECK_FALSE(queue_in(wrong, 0).has_broker);
  CHECK(why_in("nonsense").empty());
}

TEST_CASE("a long queue scrolls with the selected row") {
  Queue queue;
  queue.has_broker = true;
  for (std::uint64_t id = 1; id <= 100; ++id)
    queue.jobs.push_back({id, "lin", "x", "waiting", 0, ""});
  CHECK(shown_queue(queue, 99, true, 10).find(">100") != std::string::npos);
  CHECK(queue_lines(queue, 50, true, 120, 10).size() == 10);
  CHECK(queue_lines(queue, 50, true, 120, 1).size() == 1);
  CHECK(queue_lines(queue, 0, false, 120, 0).size() == 101);  // no limit
}
