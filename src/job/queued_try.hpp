// The next try of a queued job in another lease. A queued job with --retries contains a `berth
// run`, which cannot take another lease. If the next try needs other devices, or memory that others
// hold, this `berth run` asks the broker to put the whole job back into the queue, and ends. When
// the job starts again, its new `berth run` continues with the tries of the old one.
#pragma once

#include <chrono>
#include <cstdint>

#include "job/device_totals.hpp"
#include "job/job.hpp"
#include "job/next_try.hpp"
#include "job/plan.hpp"
#include "job/spec.hpp"

namespace berth::job {

/// Whether this `berth run` runs inside a queued job, and the job may get other devices.
[[nodiscard]] bool may_go_back(const Spec& spec, const Plan& plan, const Caller& caller);
/// The request of the queued job. Request::without lists the devices that the job already avoids,
/// because a try has failed on them.
[[nodiscard]] model::Request wish_in_queue(const Plan& plan);

/// What all tries so far used together.
struct UsedSoFar {
  std::chrono::milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;
  DeviceTotals devices;
};
/// Asks the broker for the next try, and stores the earlier tries for it in
/// plan.supervision->earlier. False if the next try must be in this lease; a note says why.
[[nodiscard]] bool go_back(Plan& plan, const NextTry& next, const UsedSoFar& used,
                           const Caller& caller);
/// Prepares the first start in this lease, so that it continues the tries in spec.earlier.
void continue_tries(Spec& spec, Plan& plan);

}  // namespace berth::job
