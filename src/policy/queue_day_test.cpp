// Simulates a day of 16 users and 8 GPUs, and compares the queue with a perfectly fair machine
// (day_for_tests.hpp).
#include <doctest/doctest.h>

#include <algorithm>

#include "policy/day_for_tests.hpp"

using namespace berth::policy;
using namespace berth::policy::day;

namespace {

std::vector<double> weights_of_a_lab() {
  std::vector<double> out;
  for (int user = 0; user < 16; ++user) out.push_back(1 + user % 3);
  return out;
}

/// Counts the jobs that waited more than twice as long as on the ideal machine, plus the length of
/// the longest job.
int waited_too_long(const Day& day) {
  const Played played = play(day);
  const auto fluid = fluid_ends(day);
  milliseconds longest{0};
  for (const Job& job : day.jobs) longest = std::max(longest, job.length);
  return static_cast<int>(std::count_if(day.jobs.begin(), day.jobs.end(), [&](const Job& job) {
    const milliseconds fluid_wait =
        std::max(fluid.at(job.id) - job.queued - job.length, milliseconds(0));
    return played.started.at(job.id) - job.queued > 2 * fluid_wait + longest;
  }));
}

}  // namespace

TEST_CASE("No job of a day waits longer than twice the fluid machine's wait and the longest job") {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    CHECK(waited_too_long(random_day(random, weights_of_a_lab(), 0.7)) == 0);
  }
  std::mt19937 random(1);
  CHECK(waited_too_long(random_day(random, weights_of_a_lab(), 0.95)) == 0);
}

// The ideal machine runs a user's short job beside a long one whenever a part of a device is free.
// A real machine cannot do that. All jobs that wait too long are such short jobs, of a minute or
// two.
TEST_CASE("On days with full load or overload, hardly any job waits longer than that") {
  std::size_t jobs = 0;
  int too_long = 0;
  for (const double load : {0.95, 1.2})
    for (unsigned seed = 1; seed <= 4; ++seed) {
      std::mt19937 random(seed);
      const Day day = random_day(random, weights_of_a_lab(), load);
      jobs += day.jobs.size();
      too_long += waited_too_long(day);
    }
  CHECK(too_long <= static_cast<int>(jobs) / 400);
}

// Jobs last at most ten minutes, because only a part of a job counts if it still runs at the end of
// the day.
TEST_CASE("Users who always want more get GPU time within 5 % of their weights in a day") {
  for (unsigned seed = 1; seed <= 2; ++seed) {
    std::mt19937 random(seed);
    Day day;
    day.weights = weights_of_a_lab();
    JobId id = 0;
    for (int user = 0; user < 16; ++user)
      for (double wanted = 0.15 * day.devices * seconds_of(day.end); wanted > 0;) {
        Job job{.id = ++id, .user = user, .length = seconds(60 + random() % 540)};
        job.devices = random() % 10 == 0 ? 2 : 1;
        job.has_limit = random() % 2 == 0;
        wanted -= seconds_of(job.length) * job.devices;
        day.jobs.push_back(job);
      }
    const Played played = play(day);
    double all = 0, weights = 0;
    for (const double one : played.device_seconds) all += one;
    for (const double one : day.weights) weights += one;
    CHECK(all >= 0.97 * day.devices * seconds_of(day.end));
    for (std::size_t user = 0; user < day.weights.size(); ++user) {
      CAPTURE(seed);
      CAPTURE(user);
      const double due = all * day.weights[user] / weights;
      CHECK(played.device_seconds[user] == doctest::Approx(due).epsilon(0.05));
    }
  }
}
