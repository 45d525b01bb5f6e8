#include "watch/sampler.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "base/units.hpp"
#include "inventory/attribution.hpp"
#include "inventory/numbering.hpp"
#include "inventory/nvml_reader.hpp"
#include "inventory/sysfs_sampler.hpp"
#include "system/cpu_state.hpp"
#include "system/host.hpp"
#include "watch/budget.hpp"
#include "watch/cpu_load.hpp"
#include "watch/guard_shares.hpp"
#include "watch/join.hpp"
#include "watch/kernel_log.hpp"
#include "watch/process_cache.hpp"
#include "watch/silence.hpp"

namespace berth::watch {

namespace {

using Clock = std::chrono::steady_clock;
using model::Device;
using model::Health;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLookEvery(60);
/// Seconds between full snapshots in two cases: a device has a problem, or the processes of a
/// device are only in full snapshots (AMD, Intel).
constexpr seconds kLookOften(5);
/// Seconds between restarts of the reader child. It is restarted if it has exited, or if it does
/// not see a device that has returned.
constexpr seconds kRestartEvery(10);
constexpr milliseconds kCpuBudgetEvery(4000);
/// If this thread wakes up later than planned by more than this, the process or the machine was
/// stopped.
constexpr milliseconds kPause(500);

double seconds_of(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::int64_t unix_now() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double thread_seconds() {
  rusage usage = {};
  if (::getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

bool is_sampled_by_driver(const Device& device) {
  return device.vendor == model::Vendor::kNvidia && device.managed &&
         device.kind == model::DeviceKind::kGpu && device.health != Health::kAsleep &&
         !key_of(device).empty();
}

bool is_from_proc(const Device& device) {
  return device.managed &&
         (device.vendor == model::Vendor::kAmd || device.vendor == model::Vendor::kIntel);
}

}  // namespace

/// The data and functions that only the sampler's thread uses.
class Sampler::Work {
 public:
  Work(Sampler& sampler)
      : owner_(sampler),
        sources_(sampler.sources_),
        options_(sampler.options_),
        start_(Clock::now()),
        silence_(sampler.options_.interval, sampler.options_.initialisation_deadline),
        kernel_log_(sources_.simulated || !options_.xids ? "" : sources_.roots.dev + "/kmsg",
                    sources_.roots.proc + "/sys/kernel/random/boot_id", options_.log_seen),
        cache_(sources_.roots, sources_.simulated) {}

  void run() {
    take_look(look(options_.initialisation_deadline));
    if (options_.early_frame) publish_early();
    mind_driver();
    for (auto due = Clock::now();;) {
      tick(Clock::now());
      due += interval();
      due = std::max(due, Clock::now());
      if (wait_until(due)) return;
    }
  }

 private:
  /// Waits until `due`. Returns true if the sampler must end. If a device becomes silent during the
  /// wait, immediately publishes a frame.
  bool wait_until(Clock::time_point due) {
    for (;;) {
      const auto until = std::min(due, next_silence());
      {
        std::unique_lock hold(owner_.mutex_);
        if (owner_.changed_.wait_until(hold, until, [this] { return owner_.over_; })) return true;
      }
      const auto now = Clock::now();
      if (now - until > kPause) silence_.add_pause(now - until);
      if (now >= due) return false;
      take_samples(now);
      if (mark_silent_devices(now)) publish_frame(now);
    }
  }

  [[nodiscard]] milliseconds interval() const { return options_.interval * budget_.stretch(); }

  /// Reduces the sampling rate while sampling costs more than the budget. Later increases it again,
  /// up to the requested rate.
  void keep_budget(const Cost& cost) {
    const auto devices = static_cast<int>(
        std::count_if(snapshot_.devices.begin(), snapshot_.devices.end(), is_sampled_by_driver));
    if (!budget_.add(cost.wall_seconds, cost.cpu_seconds, cost.driver_seconds, devices)) return;
    silence_.set_interval(interval());
    driver_.reset();
    mind_driver();
  }

  [[nodiscard]] Clock::time_point next_silence() const {
    auto next = Clock::time_point::max();
    for (const Device& device : snapshot_.devices)
      if (is_heard(device)) next = std::min(next, silence_.silent_at(key_of(device)));
    return next;
  }

  /// Whether the device is sampled by its driver and has answered.
  static bool is_heard(const Device& device) {
    return is_sampled_by_driver(device) && device.health != Health::kLost &&
           device.health != Health::kNoAnswer;
  }

  [[nodiscard]] model::Snapshot look(milliseconds patience) const {
    inventory::Options options;
    options.process_details = options.process_users = false;  // ProcessCache reads these values
    options.holders = false;
    options.opencl = inventory::OpenCl::kNever;
    options.pcie_throughput = options_.pcie_throughput;
    options.initialisation_deadline = patience;
    return inventory::observe(sources_, options);
  }

  void take_look(model::Snapshot snapshot) {
    looked_at_ = Clock::now();
    ++looks_;
    keep_identity(snapshot_, snapshot);
    const bool is_other = keys_of(snapshot) != keys_of(snapshot_);
    if (is_other) driver_.reset();
    keep_answers(snapshot);
    snapshot_ = std::move(snapshot);
    notes_ = snapshot_.notes;
    rows_.clear();
    for (const model::DeviceProcess& row : snapshot_.processes) rows_[row.device].push_back(row);
    for (Device& device : snapshot_.devices) {
      device.slow_unix_milliseconds = snapshot_.unix_milliseconds;
      if (is_heard(device)) silence_.seen(key_of(device), looked_at_);
    }
    lists_are_new_ = true;
    if (is_other) sysfs_.emplace(sources_, snapshot_.devices);
  }

  /// Keeps the readings of devices that answer samples but not the full snapshot. A full snapshot
  /// reads more, so a slow driver may answer too late.
  void keep_answers(model::Snapshot& now) const {
    for (Device& device : now.devices) {
      if (device.health != Health::kNoAnswer || !is_sampled_by_driver(device)) continue;
      const auto same = std::find_if(
          snapshot_.devices.begin(), snapshot_.devices.end(),
          [&](const Device& one) { return is_heard(one) && key_of(one) == key_of(device); });
      if (same == snapshot_.devices.end()) continue;
      const int index = device.index;
      device = *same;
      device.index = index;
    }
  }

  static std::vector<std::string> keys_of(const model::Snapshot& snapshot) {
    std::vector<std::string> keys;
    for (const Device& device : snapshot.devices)
      if (is_sampled_by_driver(device) || is_from_proc(device)) keys.push_back(key_of(device));
    return keys;
  }

  /// Starts the child that reads the driver. Does nothing if the child works.
  void mind_driver() {
    std::vector<std::string> wanted;
    bool is_missed = false;  // full snapshots have a device, but the child sends no samples of it
    for (const Device& device : snapshot_.devices) {
      if (!is_sampled_by_driver(device)) continue;
      wanted.push_back(key_of(device));
      is_missed = is_missed || (is_heard(device) &&
                                silence_.is_missed(key_of(device), looked_at_, kRestartEvery));
    }
    const bool has_child = driver_ && driver_->descriptor() >= 0;
    if (wanted.empty() || (has_child && !is_missed)) return;
    if (driver_ && looked_at_ - driver_started_ < kRestartEvery) return;
    driver_started_ = looked_at_;
    driver_.reset();
    const auto ticks = [this](milliseconds every) {
      return static_cast<std::uint32_t>(
          std::max<std::int64_t>(1, every.count() / interval().count()));
    };
    driver_ = std::make_unique<inventory::NvmlSampler>(
        sources_, std::move(wanted), interval(),
        inventory::SamplePace{ticks(seconds(2)), ticks(seconds(10)), 1, options_.xids,
                              options_.pcie_throughput});
    silence_.begin(Clock::now());
  }

  void tick(Clock::time_point now) {
    mind_look(now);
    take_samples(now);
    take_xids();
    if (sysfs_ && !sysfs_->empty())
      for (inventory::DeviceSample& sample : sysfs_->take({})) take_sample(std::move(sample));
    mark_silent_devices(now);
    read_cpu(now);
    publish_frame(now);
  }

  void take_samples(Clock::time_point now) {
    if (!driver_) return;
    for (inventory::DeviceSample& sample : driver_->take()) {
      // The clock may have been set since the sample, so limit the elapsed time to a plausible
      // range.
      const Clock::duration passed = milliseconds(unix_now() - sample.unix_milliseconds);
      const auto took = std::chrono::microseconds(sample.driver_microseconds);
      silence_.sampled(key_of(sample.device),
                       now - std::clamp<Clock::duration>(passed, took, took + interval()), took);
      take_sample(std::move(sample));
    }
    if (driver_->is_ready()) silence_.ready(now);
    if (driver_->descriptor() < 0) silence_.stop();
  }

  void take_xids() {
    xids_ = driver_ ? driver_->take_xids() : std::vector<model::XidEvent>{};
    std::vector<LoggedXid> logged = kernel_log_.take();
    if (!options_.xids || (xids_.empty() && logged.empty() && totals_)) return;
    auto totals = totals_ ? std::make_shared<XidTotals>(*totals_) : std::make_shared<XidTotals>();
    totals->has_kernel_log = kernel_log_.is_open();
    totals->log = kernel_log_.position();
    // Only the first call has records from before the start. Later records are new, even if the
    // clock was set back or differs from the kernel's clock.
    const std::int64_t start = totals_ ? std::numeric_limits<std::int64_t>::min() : started_at_;
    for (const model::XidEvent& one : xids_) totals->add(one, start);
    for (LoggedXid& one : logged) {
      totals->add(one.event, one.is_new ? start : std::numeric_limits<std::int64_t>::max());
      if (one.is_new) xids_.push_back(std::move(one.event));
    }
    totals_ = std::move(totals);
    std::erase_if(xids_, [](const auto& one) { return one.code == model::kXidsReported; });
  }

  void mind_look(Clock::time_point now) {
    if (look_.valid()) {
      if (look_.wait_for(seconds(0)) != std::future_status::ready) return;
      take_look(look_.get());
      mind_driver();
      return;
    }
    const bool is_urgent =
        (driver_ && driver_->descriptor() < 0) ||
        std::any_of(snapshot_.devices.begin(), snapshot_.devices.end(), [](const Device& one) {
          return is_from_proc(one) || one.health == Health::kLost ||
                 one.health == Health::kNoAnswer || one.health == Health::kAsleep;
        });
    if (now - looked_at_ < (is_urgent ? kLookOften : kLookEvery)) return;
    look_ = std::async(std::launch::async, [this] { return look(seconds(2)); });
  }

  void take_sample(inventory::DeviceSample sample) {
    driver_seconds_ += sample.driver_microseconds / 1e6;
    for (Device& device : snapshot_.devices) {
      if (key_of(device) != key_of(sample.device) || key_of(device).empty()) continue;
      join(sample, device);
      // Samples of other vendors' devices have no process list. So keep the list of the last full
      // snapshot.
      const bool is_asked =
          is_sampled_by_driver(device) && sample.no_process_list != model::Absence::kNotAsked;
      if (!is_asked) continue;
      // If the list cannot be read any more, drop the old rows, because their processes may have
      // ended.
      device.processes_unknown = sample.no_process_list;
      for (model::DeviceProcess& row : sample.processes) row.device = device.index;
      rows_[device.index] = std::move(sample.processes);
      lists_are_new_ = true;
    }
  }

  /// Marks the devices that have become silent. Returns true if there is at least one.
  bool mark_silent_devices(Clock::time_point now) {
    bool has_new = false;
    for (Device& device : snapshot_.devices) {
      if (!is_sampled_by_driver(device) || device.health == Health::kLost) continue;
      const std::string key = key_of(device);
      const double age = seconds_of(silence_.age(key, now));
      if (is_heard(device) && !silence_.is_silent(key, now)) {
        device.age_seconds = silence_.is_old(key, now) ? std::optional(age) : std::nullopt;
        continue;
      }
      const bool is_new = is_heard(device);
      mark_silent(age, device);
      if (!is_new) continue;
      has_new = lists_are_new_ = true;
      for (model::DeviceProcess& row : rows_[device.index])
        row.sm_percent = model::Absence::kNoAnswer;
    }
    return has_new;
  }

  /// Computes the memory that belongs to no process, for devices with a new process list. Other
  /// devices keep the value of the last full snapshot.
  void find_unattributed() {
    std::vector<model::Unattributed> rows;
    for (const Device& device : snapshot_.devices) {
      const auto before =
          std::find_if(snapshot_.unattributed.begin(), snapshot_.unattributed.end(),
                       [&](const model::Unattributed& one) { return one.device == device.index; });
      const bool is_kept = before != snapshot_.unattributed.end();
      if (!is_sampled_by_driver(device)) {
        if (is_kept) rows.push_back(std::move(*before));
        continue;
      }
      const auto bytes = inventory::unaccounted_bytes(device, snapshot_.processes);
      if (bytes == 0) continue;
      const bool is_foreign =
          (is_kept && before->cause == "other_namespace") ||
          std::any_of(snapshot_.processes.begin(), snapshot_.processes.end(),
                      [&](const auto& one) { return one.device == device.index && !one.pid; });
      rows.push_back(
          inventory::explain(device, bytes, snapshot_.processes, {}, {is_foreign, false}));
    }
    snapshot_.unattributed = std::move(rows);
  }

  void read_cpu(Clock::time_point now) {
    for (Device& device : snapshot_.devices) {
      if (device.kind != model::DeviceKind::kCpu) continue;
      if (now - cpu_read_at_ > kCpuBudgetEvery - options_.interval / 2) {
        cpu_read_at_ = now;
        snapshot_.host.cpu = system::read_cpu_budget(sources_.roots);
        system::read_cpu_state(sources_.roots, snapshot_.host, device);
        device.slow_unix_milliseconds = unix_now();
      }
      device.readings.utilization_percent =
          cpu_.read(sources_.roots.proc).over(seconds_of(now - cpu_used_at_));
      cpu_used_at_ = now;
    }
  }

  void publish_early() {
    auto frame = std::make_shared<Frame>();
    frame->number = ++number_;
    frame->is_early = true;
    frame->snapshot = snapshot_;
    frame->snapshot.processes.clear();
    frame->snapshot.unix_milliseconds = unix_now();
    owner_.publish(std::move(frame));
  }

  void publish_frame(Clock::time_point now) {
    auto frame = std::make_shared<Frame>();
    if (std::exchange(lists_are_new_, false)) {
      snapshot_.processes.clear();
      for (const auto& [device, rows] : rows_)
        snapshot_.processes.insert(snapshot_.processes.end(), rows.begin(), rows.end());
      cache_.fill(snapshot_.processes, now);
      inventory::sort_processes(snapshot_.processes);
      find_unattributed();
      plausibility_.check(snapshot_);
      snapshot_.notes = notes_;
      if (budget_.stretch() > 1)
        snapshot_.notes.push_back(
            text("readings cost more than their budget, so they are taken only every {}",
                 show_duration(interval())));
      if (options_.decorate) options_.decorate(snapshot_);
      guard_shares_.fill(snapshot_.processes, now);
      frame->has_new_processes = true;
    }
    snapshot_.unix_milliseconds = unix_now();
    frame->number = ++number_;
    frame->seconds = seconds_of(now - start_);
    frame->snapshot = snapshot_;
    frame->xids = std::exchange(xids_, {});
    frame->xid_totals = totals_;
    frame->cost = {thread_seconds(), driver_seconds_, looks_, seconds_of(now - start_),
                   seconds_of(interval())};
    const Cost cost = frame->cost;
    owner_.publish(std::move(frame));
    keep_budget(cost);
  }

  Sampler& owner_;
  const inventory::Sources& sources_;
  const SamplerOptions& options_;
  Clock::time_point start_, looked_at_, driver_started_, cpu_read_at_, cpu_used_at_;
  Silence silence_;
  Budget budget_{seconds_of(options_.interval)};
  model::Snapshot snapshot_;
  std::vector<std::string> notes_;  // from the last full snapshot
  // Device index → processes from the driver.
  std::map<int, std::vector<model::DeviceProcess>> rows_;
  std::unique_ptr<inventory::NvmlSampler> driver_;
  std::optional<inventory::SysfsSampler> sysfs_;
  std::vector<model::XidEvent> xids_;
  std::shared_ptr<const XidTotals> totals_;
  const std::int64_t started_at_ = unix_now();
  KernelLog kernel_log_;
  ProcessCache cache_;
  Plausibility plausibility_;
  GuardShares guard_shares_;
  CpuLoad cpu_;
  bool lists_are_new_ = false;
  std::uint64_t number_ = 0, looks_ = 0;
  double driver_seconds_ = 0;
  // Declared last, so that it ends before the members that it uses.
  std::future<model::Snapshot> look_;
};

Sampler::Sampler(inventory::Sources sources, SamplerOptions options)
    : sources_(std::move(sources)),
      options_(std::move(options)),
      thread_([this] { Work(*this).run(); }) {}

Sampler::~Sampler() {
  {
    const std::lock_guard hold(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Sampler::publish(FramePtr frame) {
  {
    const std::lock_guard hold(mutex_);
    newest_ = frame;
  }
  changed_.notify_all();
  if (options_.on_frame) options_.on_frame(frame);
}

FramePtr Sampler::newest() const {
  const std::lock_guard hold(mutex_);
  return newest_;
}

FramePtr Sampler::wait(std::uint64_t after, milliseconds limit) const {
  std::unique_lock hold(mutex_);
  const auto is_newer = [&] { return newest_ && newest_->number > after; };
  return changed_.wait_for(hold, limit, is_newer) ? newest_ : nullptr;
}

}  // namespace berth::watch
