// Simulates a day of a lab on the queue, and on an ideal "fluid" machine, to measure fairness.
//
// The fluid machine can give any part of a device to any job at any time. It divides all devices
// among the waiting users by weight. A job never gets more than it requested, and a user's jobs run
// in order. No real queue can do that, but Berth's queue should come close.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <random>
#include <vector>

#include "policy/queue.hpp"

namespace berth::policy::day {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Job {
  JobId id = 0;
  int user = 0;
  Instant queued{0};
  milliseconds length{0};
  int devices = 1;
  /// Whether the job has a time limit. It is twice `length`, because users set generous limits.
  bool has_limit = false;
};

struct Day {
  int devices = 8;
  Instant end = std::chrono::hours(24);
  std::vector<double> weights;  // weights of the users in fair share
  std::vector<Job> jobs;        // ordered by Job::queued
};

struct Played {
  std::map<JobId, Instant> started;
  std::vector<double> device_seconds;  // GPU time of each user until Day::end
  double idle_device_seconds = 0;      // time for which devices were idle although a job waited
};

inline Pool machine_of(const Day& day) {
  Pool pool;
  pool.devices.resize(static_cast<std::size_t>(day.devices));
  return pool;
}

inline double seconds_of(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

inline Played play(const Day& day, QueueRules rules = {}) {
  Queue queue(machine_of(day), rules);
  for (std::size_t user = 0; user < day.weights.size(); ++user)
    queue.set_user(static_cast<int>(user), {.weight = day.weights[user]});
  using End = std::pair<Instant, std::size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  std::map<JobId, std::size_t> at;
  for (std::size_t i = 0; i < day.jobs.size(); ++i) at[day.jobs[i].id] = i;
  Played out;
  out.device_seconds.resize(day.weights.size());
  std::size_t arrived = 0;
  Instant now{0};
  while (arrived < day.jobs.size() || !ends.empty()) {
    const Instant before = now;
    now = ends.empty() ? day.jobs[arrived].queued : ends.top().first;
    if (arrived < day.jobs.size()) now = std::min(now, day.jobs[arrived].queued);
    if (queue.waiting_count() > 0 && now <= day.end) {
      int free = 0;
      for (const Slot& slot : queue.pool().devices) free += slot.leases == 0 ? 1 : 0;
      out.idle_device_seconds += free * seconds_of(now - before);
    }
    for (; !ends.empty() && ends.top().first == now; ends.pop())
      queue.ended(day.jobs[ends.top().second].id, now);
    for (; arrived < day.jobs.size() && day.jobs[arrived].queued == now; ++arrived) {
      const Job& job = day.jobs[arrived];
      queue.add({.id = job.id,
                 .user = job.user,
                 .demand = {.devices = job.devices},
                 .time_limit = job.has_limit ? std::optional(2 * job.length) : std::nullopt,
                 .queued = now});
    }
    while (const auto start = queue.next(now)) {
      const Job& job = day.jobs[at.at(start->job)];
      queue.started(job.id, start->devices, now);
      out.started[job.id] = now;
      ends.emplace(now + job.length, at.at(job.id));
      const Instant counted = std::min(now + job.length, day.end);
      if (counted > now)
        out.device_seconds[static_cast<std::size_t>(job.user)] +=
            seconds_of(counted - now) * job.devices;
    }
  }
  return out;
}

/// When each job would end on the ideal machine, which can give any part of a device to a job.
inline std::map<JobId, Instant> fluid_ends(const Day& day) {
  constexpr milliseconds kStep = seconds(30);
  struct Left {
    const Job* job;
    double device_seconds;
  };
  std::vector<std::vector<Left>> lines(day.weights.size());
  std::map<JobId, Instant> out;
  std::size_t arrived = 0, waiting = 0;
  for (Instant now{0}; arrived < day.jobs.size() || waiting > 0; now += kStep) {
    for (; arrived < day.jobs.size() && day.jobs[arrived].queued <= now; ++arrived, ++waiting) {
      const Job& job = day.jobs[arrived];
      lines[static_cast<std::size_t>(job.user)].push_back(
          {&job, seconds_of(job.length) * job.devices});
    }
    // Divide the step's device time among the waiting users by weight. The part that a user cannot
    // use goes to the other users.
    double left = day.devices * seconds_of(kStep);
    std::vector<std::vector<double>> given(lines.size());
    for (std::size_t u = 0; u < lines.size(); ++u) given[u].resize(lines[u].size());
    while (left > 1e-6) {
      std::vector<double> wants(lines.size());
      double weights = 0;
      for (std::size_t u = 0; u < lines.size(); ++u) {
        for (std::size_t i = 0; i < lines[u].size(); ++i)
          wants[u] += std::min(lines[u][i].job->devices * seconds_of(kStep) - given[u][i],
                               lines[u][i].device_seconds);
        if (wants[u] > 1e-9) weights += day.weights[u];
      }
      if (weights == 0) break;
      const double share = left / weights;
      for (std::size_t u = 0; u < lines.size(); ++u) {
        double mine = std::min(wants[u], share * day.weights[u]);
        left -= mine;
        for (std::size_t i = 0; i < lines[u].size(); ++i) {
          const double part =
              std::min({mine, lines[u][i].device_seconds,
                        lines[u][i].job->devices * seconds_of(kStep) - given[u][i]});
          given[u][i] += part;
          lines[u][i].device_seconds -= part;
          mine -= part;
        }
      }
    }
    for (auto& line : lines)
      std::erase_if(line, [&](const Left& one) {
        if (one.device_seconds > 1e-9) return false;
        out[one.job->id] = now + kStep;
        --waiting;
        return true;
      });
  }
  return out;
}

/// Makes jobs of random lengths and sizes. All jobs together need `load` times the device time of a
/// day.
inline Day random_day(std::mt19937& random, std::vector<double> weights, double load) {
  Day day;
  day.weights = std::move(weights);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  double wanted = load * day.devices * seconds_of(day.end);
  const int users = static_cast<int>(day.weights.size());
  while (wanted > 0) {
    Job job;
    job.user = below(users);
    job.queued = minutes(below(24 * 60));
    job.length = seconds(60 + below(3) * below(3) * below(1800));
    job.devices = below(10) == 0 ? 2 : 1;
    job.has_limit = below(2) == 0;
    wanted -= seconds_of(job.length) * job.devices;
    day.jobs.push_back(job);
  }
  std::stable_sort(day.jobs.begin(), day.jobs.end(),
                   [](const Job& a, const Job& b) { return a.queued < b.queued; });
  for (std::size_t i = 0; i < day.jobs.size(); ++i) day.jobs[i].id = i + 1;
  return day;
}

}  // namespace berth::policy::day
