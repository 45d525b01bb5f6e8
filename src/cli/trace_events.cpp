#include "cli/trace_events.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace berth::cli {
namespace {

using guard::LiveCounts;

/// How much a counter has grown. If it is smaller than before, the job has overwritten it, so the
/// result is 0.
std::uint64_t grown(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

/// All counters that only grow: their sums over the trace are shown.
constexpr std::array kSums{
    &LiveCounts::allocations,     &LiveCounts::frees,
    &LiveCounts::refusals,        &LiveCounts::launches,
    &LiveCounts::copies,          &LiveCounts::fills,
    &LiveCounts::copied_to_bytes, &LiveCounts::copied_from_bytes,
    &LiveCounts::copied_on_bytes, &LiveCounts::copied_other_bytes,
    &LiveCounts::filled_bytes,    &LiveCounts::device_nanoseconds,
};

LiveCounts difference(const LiveCounts& now, const LiveCounts& before) {
  LiveCounts out;
  for (const auto one : kSums) out.*one = grown(now.*one, before.*one);
  return out;
}

void add_to(LiveCounts& sum, const LiveCounts& more) {
  for (const auto one : kSums) sum.*one += more.*one;
}

/// The rate per second, rounded to tenths. Rounding makes a steady rate equal in all samples, so
/// that it is written only once.
double rate(double count, double seconds) {
  return seconds > 0 ? std::round(count / seconds * 10) / 10 : 0.0;
}
double rate(std::uint64_t count, double seconds) {
  return rate(static_cast<double>(count), seconds);
}

}  // namespace

TraceEvents::TraceEvents(TraceFormat format, const std::string& job,
                         std::vector<std::string> devices,
                         std::function<std::string(std::int64_t)> name_of)
    : name_of_(std::move(name_of)), writer_(trace_writer(format, job)) {
  for (std::string& name : devices) {
    TraceDevice device;
    device.name = std::move(name);
    sums_.devices.push_back(std::move(device));
  }
}

void TraceEvents::put(std::int64_t pid, const std::string& name,
                      const std::vector<TraceValue>& values) {
  std::vector<TraceValue>& before = written_[{pid, name}];
  if (before == values) return;
  before = values;
  writer_->add_counter(pid, name, at_, values);
}

TraceProcess& TraceEvents::process_of(std::int64_t pid) {
  for (TraceProcess& one : sums_.processes)
    if (one.pid == pid) return one;
  TraceProcess process;
  process.pid = pid;
  process.name = name_of_(pid);
  writer_->add_process(pid, process.name);
  sums_.processes.push_back(std::move(process));
  return sums_.processes.back();
}

void TraceEvents::add_process(const guard::LiveProcess& process, double seconds) {
  Place& before = places_[process.place];
  before.counts.resize(process.devices.size());
  if (sums_.samples == 0) before.counts = process.devices;
  // The process had already ended at the previous sample, or before the trace began.
  const bool is_past =
      !process.lives && (sums_.samples == 0 || (!before.lives && before.start == process.start));
  before.start = process.start;
  before.lives = process.lives;
  if (is_past) return;
  TraceProcess& own = process_of(process.pid);
  std::uint64_t memory = 0;
  for (std::size_t d = 0; d < process.devices.size() && d < sums_.devices.size(); ++d) {
    const LiveCounts& now = process.devices[d];
    const LiveCounts more = difference(now, before.counts[d]);
    TraceDevice& device = sums_.devices[d];
    add_to(device.sum, more);
    own.launches += more.launches;
    memory += now.memory_bytes;
    put(process.pid, device.name + " memory", {{"", "bytes", now.memory_bytes}});
    put(process.pid, device.name + " kernels and graphs",
        {{"", "per second", rate(more.launches, seconds)}});
    put(process.pid, device.name + " copies",
        {{"to", "bytes/s", rate(more.copied_to_bytes, seconds)},
         {"from", "bytes/s", rate(more.copied_from_bytes, seconds)},
         {"on", "bytes/s", rate(more.copied_on_bytes, seconds)},
         {"other", "bytes/s", rate(more.copied_other_bytes, seconds)}});
    device.is_timed = device.is_timed || now.device_nanoseconds > 0;
    if (device.is_timed)
      put(process.pid, device.name + " device time",
          {{"", "percent", rate(static_cast<double>(more.device_nanoseconds) / 1e7, seconds)}});
  }
  own.peak_bytes = std::max(own.peak_bytes, memory);
  before.counts = process.devices;
}

void TraceEvents::add(const guard::LiveJob& job, std::chrono::microseconds at) {
  const double seconds = static_cast<double>((at - at_).count()) / 1e6;
  at_ = at;
  for (std::size_t d = 0; d < job.devices.size() && d < sums_.devices.size(); ++d) {
    sums_.devices[d].is_timed = sums_.devices[d].is_timed || job.devices[d].share_permille;
    sums_.devices[d].limit_bytes = job.devices[d].memory_bytes;
  }
  for (const guard::LiveProcess& process : job.processes) add_process(process, seconds);
  for (std::size_t d = 0; d < job.devices.size() && d < sums_.devices.size(); ++d) {
    TraceDevice& device = sums_.devices[d];
    std::uint64_t used = job.devices[d].hidden_bytes;
    std::uint64_t spilled = 0;
    for (const guard::LiveProcess& process : job.processes) {
      if (d >= process.devices.size()) continue;
      used += process.devices[d].memory_bytes;
      spilled += process.devices[d].spilled_bytes;
    }
    device.peak_bytes = std::max(device.peak_bytes, used);
    if (job.devices[d].may_spill)
      device.spilled_peak_bytes = std::max(device.spilled_peak_bytes.value_or(0), spilled);
    std::vector<TraceValue> values{{"used", "bytes", used}};
    if (device.limit_bytes) values.push_back({"limit", "bytes", *device.limit_bytes});
    if (device.spilled_peak_bytes) values.push_back({"spilled", "bytes", spilled});
    put(kTracedJob, device.name + " memory", values);
  }
  ++sums_.samples;
}

}  // namespace berth::cli
