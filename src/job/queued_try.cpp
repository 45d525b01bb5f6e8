#include "job/queued_try.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"
#include "model/tries.hpp"
#include "policy/candidates.hpp"
#include "run/retry.hpp"
#include "run/supervisor.hpp"

namespace berth::job {
namespace {

using std::chrono::milliseconds;

std::int64_t unix_now() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Whether one of the devices has one of these unit ids.
bool is_any_of(const std::vector<int>& devices, const std::vector<std::string>& units,
               const model::Snapshot& snapshot) {
  return std::any_of(
      snapshot.devices.begin(), snapshot.devices.end(), [&](const model::Device& one) {
        return std::find(devices.begin(), devices.end(), one.index) != devices.end() &&
               std::find(units.begin(), units.end(), policy::unit_id(one, nullptr)) != units.end();
      });
}

}  // namespace

bool may_go_back(const Spec& spec, const Plan& plan, const Caller& caller) {
  return caller.keep_tries && plan.lease && !plan.lease->is_ours() &&
         plan.lease->whole_job().queued && plan.lease->whole_job().request.devices.empty() &&
         !plan.engine && !plan.placement.devices.empty() && spec.job.request.devices.empty();
}

model::Request wish_in_queue(const Plan& plan) {
  model::Request request = plan.lease->whole_job().request;
  request.without = plan.lease->whole_job().avoids;
  return request;
}

bool go_back(Plan& plan, const NextTry& next, const UsedSoFar& used, const Caller& caller) {
  constexpr milliseconds kAtMost(10'000);
  const run::Supervision& had = *plan.supervision;
  const model::Try& last = had.earlier.all.back();
  const auto number = static_cast<int>(had.earlier.all.size()) + 1;
  const auto pause = run::pause_before_try(number, had.backoff_least, had.backoff_most);
  const auto asked = plan.lease->ask_for_next_try(
      {number, std::string(model::name(last.kind)), next.without, pause}, kAtMost);
  if (!asked) {
    caller.note(text("the job stays on its GPUs: {} ({})", asked.error().message, asked.error().id),
                {});
    return false;
  }
  run::EarlierTries earlier;
  earlier.tries = had.earlier;
  earlier.change = next.change;
  earlier.batch_scale = last.batch_scale;
  earlier.without = next.without;
  earlier.ended_unix_milliseconds = unix_now();
  earlier.wall = used.wall;
  earlier.cpu = used.cpu;
  earlier.peak_rss_bytes = used.peak_rss_bytes;
  earlier.devices = used.devices.devices();
  earlier.device_wall = used.devices.wall();
  earlier.held_seconds = used.devices.held_seconds();
  if (!caller.keep_tries(earlier)) return false;
  caller.note(
      text("try {} of {} ended: {}; the job goes back to the queue, and the next one starts "
           "in {} or later",
           number - 1, had.most_tries, model::name(last.kind), show_duration(pause)),
      {});
  return true;
}

void continue_tries(Spec& spec, Plan& plan) {
  if (!spec.earlier || !plan.supervision) return;
  const run::EarlierTries& had = *spec.earlier;
  run::Supervision& again = *plan.supervision;
  const auto& devices = plan.placement.devices;
  again.earlier = had.tries;
  again.change = had.change;
  again.batch_scale = had.batch_scale;
  again.waited = milliseconds(std::max<std::int64_t>(0, unix_now() - had.ended_unix_milliseconds));
  // If no other devices are left, the broker gives the job the same devices again. Then the next
  // try changes nothing.
  if (had.change == model::TryChange::kOtherDevice &&
      (devices.empty() || is_any_of(devices, had.without, plan.snapshot)))
    again.change = model::TryChange::kNothing;
  if (had.change == model::TryChange::kWaitedForMemory &&
      memory_of_others(devices, plan.snapshot) > 0) {
    again.change = model::TryChange::kSmallerBatch;
    again.batch_scale = smaller_scale(again.batch_scale);
  }
  if (again.batch_scale < 1) spec.variables[kBatchScale] = show_scale(again.batch_scale);
}

}  // namespace berth::job
