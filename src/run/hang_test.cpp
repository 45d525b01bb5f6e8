#include "run/hang.hpp"

#include <doctest/doctest.h>

#include "run/stacks.hpp"

using namespace berth::run;

namespace {

std::string stack(const char* innermost, int line) {
  return "Thread 0x00007f0000000001 (most recent call first):\n"
         "  File \"/usr/lib/python3.11/threading.py\", line 327 in wait\n\n"
         "Current thread 0x00007f0000000002 (most recent call first):\n" +
         std::string(innermost) + "  File \"/home/a/train.py\", line " + std::to_string(line) +
         " in step\n  File \"/home/a/train.py\", line 99 in <module>\n";
}

const char* const kReduce =
    "  File \"/x/dist-packages/torch/distributed/distributed_c10d.py\", line 1541 in all_reduce\n";

}  // namespace

TEST_CASE("stacks of faulthandler are read") {
  const auto threads = parse_stacks(stack(kReduce, 12));
  REQUIRE(threads.size() == 2);
  REQUIRE(threads.back().frames.size() == 3);
  CHECK(threads.back().frames.front().function == "all_reduce");
  CHECK(innermost_user_line(threads.back()) == "train.py:12 in step");
  CHECK(is_in_collective(threads.back()));
  CHECK_FALSE(is_in_collective(threads.front()));
  CHECK(parse_stacks("").empty());
  CHECK(innermost_user_line({}) == "");
}

TEST_CASE("the rank that does not wait for the others is the odd one") {
  const auto hang = find_hang({{0, false, stack(kReduce, 12), ""},
                               {1, false, stack("", 7), ""},
                               {2, false, stack(kReduce, 12), ""}});
  REQUIRE(hang);
  CHECK(hang->odd_ranks == std::vector<int>{1});
  CHECK(hang->ranks[1].where == "train.py:7 in step");
  CHECK(berth::model::hang_sentence(*hang).find("rank 1 is at train.py:7 in step") !=
        std::string::npos);
}

TEST_CASE("a rank that exited with 0 is odd, and so is one in another collective") {
  const auto left = find_hang({{0, true, "", ""}, {1, false, stack(kReduce, 12), ""}});
  REQUIRE(left);
  CHECK(left->odd_ranks == std::vector<int>{0});
  const auto other = find_hang({{0, false, stack(kReduce, 12), ""},
                                {1, false, stack(kReduce, 12), ""},
                                {2, false, stack(kReduce, 30), ""}});
  REQUIRE(other);
  CHECK(other->odd_ranks == std::vector<int>{2});
}

TEST_CASE("a rank that never connects is named, and that it has not connected") {
  const char* const connect =
      "  File \"/x/dist-packages/torch/distributed/rendezvous.py\", line 177 in "
      "_create_c10d_store\n"
      "  File \"/x/dist-packages/torch/distributed/distributed_c10d.py\", line 754 in "
      "init_process_group\n";
  const auto hang = find_hang({{0, false, stack(connect, 12), ""},
                               {1, false, stack("", 7), ""},
                               {2, true, "", ""},
                               {3, false, "", ""}});
  REQUIRE(hang);
  CHECK(hang->is_connecting);
  CHECK(hang->odd_ranks == std::vector<int>{1, 2, 3});
  const std::string words = berth::model::hang_sentence(*hang);
  CHECK(words.find("rank 1 has not connected and is at train.py:7 in step, rank 2 has ended with "
                   "exit code 0 and never connected, rank 3 has not connected") !=
        std::string::npos);
  const auto all = find_hang({{0, false, stack(connect, 12), ""}});
  REQUIRE(all);
  CHECK(berth::model::hang_sentence(*all).find("all wait for ranks to connect") !=
        std::string::npos);
  auto slow =
      find_slow_ranks({{0, false, stack(connect, 12), ""}, {1, false, stack("", 7), "", "", true}});
  REQUIRE(slow);
  CHECK(berth::model::hang_sentence(*slow).find("rank 1 has not connected and is busy at") !=
        std::string::npos);
  // Rank 1 waits in a later collective, so all ranks have already connected.
  CHECK_FALSE(find_hang({{0, false, stack(connect, 12), ""}, {1, false, stack(kReduce, 7), ""}})
                  ->is_connecting);
}

TEST_CASE("ranks that do not wait for each other do not hang") {
  CHECK_FALSE(find_hang({{0, false, stack("", 7), ""}, {1, false, stack("", 7), ""}}));
  CHECK_FALSE(find_hang({{0, false, "", ""}, {1, false, "", ""}}));
}

TEST_CASE("a busy rank that lets the others wait is slow, not hung") {
  RankState waits{0, false, stack(kReduce, 12), "futex_do_wait"};
  RankState spins{1, false, stack("", 7), ""};
  spins.is_busy = true;
  const auto slow = find_slow_ranks({waits, spins});
  REQUIRE(slow);
  CHECK(slow->is_slow);
  CHECK(slow->odd_ranks == std::vector<int>{1});
  CHECK(berth::model::hang_sentence(*slow).find("rank 1 is busy at train.py:7 in step") !=
        std::string::npos);
  spins.stack.clear();
  // the busy rank has no stack, so the reason is unknown
  CHECK_FALSE(find_slow_ranks({waits, spins}));
  RankState idles{2, false, stack("", 40), ""};
  spins.stack = stack("", 7);
  CHECK_FALSE(find_slow_ranks({waits, spins, idles}));  // the idle rank waits for no other rank
  CHECK_FALSE(find_slow_ranks({spins}));
}

TEST_CASE("a rank that has ended is named as such") {
  const auto hang = find_hang({{0, false, stack(kReduce, 12), ""}, {1, true, "", ""}});
  REQUIRE(hang);
  CHECK(berth::model::hang_sentence(*hang).find("rank 1 has ended with exit code 0") !=
        std::string::npos);
}

namespace {

RankCollective in(int rank, std::int64_t number, const char* state, bool is_idle = false) {
  return {rank, false, is_idle,
          berth::model::Collective{"all_reduce", "default_pg", number, state}};
}

using Answers = std::vector<RankCollective>;
std::optional<StuckCollective> stuck(const Answers& same) {
  return find_stuck_collective(same, same);
}

}  // namespace

TEST_CASE("a collective that all ranks have started and that does not end is a hang") {
  const auto all = stuck({in(0, 7, "started"), in(1, 7, "started")});
  REQUIRE(all);
  CHECK(all->odd_ranks.empty());
  CHECK(all->is_started);
  CHECK_FALSE(all->is_slow);
  const auto unknown = stuck({in(0, 7, "scheduled"), in(1, 7, "started")});
  REQUIRE(unknown);
  CHECK_FALSE(unknown->is_started);
}

TEST_CASE("a rank that is not in the collective is named, and is slow if it is busy") {
  const auto busy = stuck({in(0, 7, "started"), in(1, 6, "completed"), in(2, 7, "started")});
  REQUIRE(busy);
  CHECK(busy->odd_ranks == std::vector<int>{1});
  CHECK(busy->is_slow);
  const auto idle = stuck({in(0, 7, "started"), in(1, 6, "completed", true)});
  REQUIRE(idle);
  CHECK(idle->odd_ranks == std::vector<int>{1});
  CHECK_FALSE(idle->is_slow);
  const auto left = stuck({in(0, 7, "started"), {1, true, false, std::nullopt}});
  REQUIRE(left);
  CHECK(left->odd_ranks == std::vector<int>{1});
  CHECK_FALSE(left->is_slow);
  // The order of collectives differs: rank 2 is in another one.
  const auto other = stuck({in(0, 7, "started"), in(1, 7, "started"), in(2, 9, "started")});
  REQUIRE(other);
  CHECK(other->odd_ranks == std::vector<int>{2});
  CHECK_FALSE(other->is_slow);
}

TEST_CASE("progress, work between collectives and a missing answer are no hang") {
  CHECK_FALSE(find_stuck_collective({in(0, 7, "started"), in(1, 7, "started")},
                                    {in(0, 8, "started"), in(1, 8, "started")}));
  CHECK_FALSE(find_stuck_collective({in(0, 7, "scheduled")}, {in(0, 7, "started")}));
  CHECK_FALSE(stuck({in(0, 7, "completed"), in(1, 7, "completed")}));
  CHECK_FALSE(stuck({in(0, 7, "started"), {1, false, false, std::nullopt}}));
  CHECK_FALSE(find_stuck_collective({}, {in(0, 7, "started")}));
}
