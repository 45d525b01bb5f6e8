#include "run/activity.hpp"

#include <doctest/doctest.h>

#include "run/signal_probe.hpp"

using namespace berth::run;
using std::chrono::milliseconds;

namespace {

constexpr pid_t kKeeper = 10;
const auto kStart = Activity::Clock::time_point();

SeenProcess process(pid_t pid, pid_t parent, char state, const char* name = "python3",
                    milliseconds cpu = milliseconds(2000)) {
  return {pid, parent, name, state, cpu};
}

}  // namespace

TEST_CASE("a main process runs, waits for its workers, or for a disk") {
  Activity activity(kKeeper, false, kStart);
  activity.add({process(20, kKeeper, 'R'), process(21, 20, 'R')}, kStart + milliseconds(1000));
  activity.add({process(20, kKeeper, 'S'), process(21, 20, 'R'), process(22, 20, 'S')},
               kStart + milliseconds(3000));
  activity.add({process(20, kKeeper, 'D'), process(21, 20, 'S')}, kStart + milliseconds(4000));
  activity.add({process(20, kKeeper, 'S')}, kStart + milliseconds(5000));
  const MainActivity all = activity.all();
  CHECK(all.seconds == 5);
  CHECK(all.runs == 1);
  CHECK(all.waits_for_workers == 2);
  CHECK(all.on_disk == 1);
  CHECK(all.workers == 6);
  CHECK(all.busy_workers == 2);
}

TEST_CASE("a shell that only starts the program is not the main process") {
  Activity activity(kKeeper, false, kStart);
  activity.add({process(20, kKeeper, 'S', "sh", milliseconds(3)), process(21, 20, 'R')},
               kStart + milliseconds(1000));
  CHECK(activity.all().runs == 1);
  CHECK(activity.all().waits_for_workers == 0);
}

TEST_CASE("a program with one worker is not a launcher") {
  Activity activity(kKeeper, false, kStart);
  SUBCASE("it forked the worker") {
    activity.add({process(20, kKeeper, 'S', "python3", milliseconds(90)), process(21, 20, 'R')},
                 kStart + milliseconds(1000));
  }
  SUBCASE("it has worked itself") {
    activity.add({process(20, kKeeper, 'S'), process(21, 20, 'R', "ffmpeg")},
                 kStart + milliseconds(1000));
  }
  CHECK(activity.all().waits_for_workers == 1);
}

TEST_CASE("each rank is a main process, and the supervisor and its helpers are none") {
  Activity activity(kKeeper, true, kStart);
  activity.add({process(20, kKeeper, 'S', "berth"), process(21, 20, 'S', "berth"),
                process(22, 20, 'S', kSignalProbeName), process(30, 20, 'R'), process(31, 20, 'S')},
               kStart + milliseconds(1000));
  REQUIRE(activity.mains().size() == 2);
  CHECK(activity.mains().at(30).runs == 1);
  CHECK(activity.mains().at(31).runs == 0);
}

TEST_CASE("parents in a circle end the search") {
  Activity activity(kKeeper, false, kStart);
  activity.add(
      {process(20, kKeeper, 'S'), process(21, 22, 'R'), process(22, 21, 'R'), process(20, 20, 'R')},
      kStart + milliseconds(1000));
  CHECK(activity.all().seconds == 1);
}
