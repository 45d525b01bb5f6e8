#include "run/sampler.hpp"

#include <poll.h>

#include <algorithm>

#include "base/text.hpp"
#include "model/cpu_list.hpp"
#include "model/tries.hpp"
#include "policy/libraries.hpp"
#include "policy/thread_pools.hpp"

namespace berth::run {
namespace {

using std::chrono::milliseconds;

/// Read all values only every two seconds, because the driver needs 40 ms to measure bus traffic.
constexpr inventory::SamplePace kPace{1, 4, 1};

const model::Device* find(const model::Snapshot& snapshot, int index) {
  for (const model::Device& device : snapshot.devices)
    if (device.index == index) return &device;
  return nullptr;
}

std::vector<model::Device> devices_of(const model::Snapshot& snapshot,
                                      const model::Placement& placement) {
  std::vector<model::Device> devices;
  for (const int index : placement.devices)
    if (const model::Device* device = find(snapshot, index)) devices.push_back(*device);
  return devices;
}

std::vector<std::string> driver_names(const std::vector<model::Device>& devices) {
  std::vector<std::string> names;
  for (const model::Device& device : devices)
    if (device.vendor == model::Vendor::kNvidia)
      names.push_back(device.uuid.empty() ? device.pci_address : device.uuid);
  return names;
}

std::int64_t unix_now() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool usable_gpu(const model::Device& device) {
  const bool right_kind =
      device.kind == model::DeviceKind::kGpu || device.kind == model::DeviceKind::kTpu;
  return right_kind && device.managed;
}

}  // namespace

Sampler::Sampler(const inventory::Sources& sources, const model::Snapshot& snapshot,
                 const model::Placement& placement, bool supervised)
    : driver_(sources, driver_names(devices_of(snapshot, placement)), kDeviceInterval, kPace),
      sysfs_(sources, devices_of(snapshot, placement)),
      supervised_(supervised) {
  if (driver_.descriptor() >= 0) {
    translator_ = sources.simulated ? system::PidTranslator(sources.roots, system::PidView::kHost)
                                    : system::PidTranslator(sources.roots);
  }
  for (std::size_t i = 0; i < placement.devices.size(); ++i) {
    const model::Device* device = find(snapshot, placement.devices[i]);
    if (device == nullptr || device->kind == model::DeviceKind::kCpu) continue;
    series_.emplace_back(*device, i < placement.partitions.size() ? placement.partitions[i] : "");
    if (const auto& energy = device->readings.energy_millijoules)
      series_.back().read_before(*energy, snapshot.unix_milliseconds);
  }
  if (series_.empty()) hidden_.emplace(sources, snapshot);
  take_sysfs_samples(Clock::now());
}

void Sampler::started(pid_t keeper, pid_t) {
  start_ = last_look_ = Clock::now();
  due_ = start_ + milliseconds(5);
  sysfs_due_ = start_ + milliseconds(250);
  const std::int64_t now = unix_now();
  for (DeviceSeries& one : series_) one.start(now);
  processes_.emplace(keeper);
  processes_->also_of(container_id_);
  activity_.emplace(keeper, supervised_, start_);
  quota_before_ = quota_periods();
}

void Sampler::look() {
  take_driver_samples();
  const auto now = Clock::now();
  if (!processes_ || now < due_) return;
  longest_gap_ = std::max(longest_gap_, now - last_look_);
  last_look_ = now;
  const auto begin = processor_time();
  processes_->look(now);
  activity_->add(processes_->seen(), now);
  if (processes_->memory_bytes() > 0)
    memory_.add(std::chrono::duration<double>(now - start_).count(), processes_->memory_bytes());
  if (hidden_) hidden_->look(processes_->gpu_files());
  const auto& nodes = processes_->gpu_files().nodes;
  if (!nodes_seen_ && std::any_of(nodes.begin(), nodes.end(), is_nvidia_node)) {
    nodes_seen_ = true;
    samples_before_nodes_ = driver_samples_;
  }
  // Sample more often in the first second, for short programs. Never use more than 2 % of one core.
  const auto cost = processor_time() - begin;
  const auto age = now - start_;
  const auto interval = age < milliseconds(1000)     ? milliseconds(20)
                        : age < milliseconds(10'000) ? kInterval
                                                     : kCalmInterval;
  due_ = now + std::max<Clock::duration>(interval, 50 * cost);
  processes_->count_runnable(Clock::now());
  if (!sysfs_.empty() && now >= sysfs_due_) take_sysfs_samples(Clock::now());
}

/// The last interval is a large part of a short job, so take one more sample.
void Sampler::ended() {
  constexpr std::chrono::seconds kLong(60);
  ended_unix_milliseconds_ = unix_now();
  const auto wall = Clock::now() - start_;
  if (wall >= DeviceSeries::kSettled && wall < kLong) driver_.ask_now();
}

void Sampler::wait_for_last_samples() {
  constexpr milliseconds kPatience(150);
  if (ended_unix_milliseconds_ == 0 || driver_.descriptor() < 0) return;
  const auto misses_its_end = [this](const DeviceSeries& one) {
    return one.samples() > 0 && one.last_sample() < ended_unix_milliseconds_;
  };
  const auto until = Clock::now() + kPatience;
  while (driver_.descriptor() >= 0 && std::any_of(series_.begin(), series_.end(), misses_its_end)) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    pollfd waits{driver_.descriptor(), POLLIN, 0};
    if (left <= 0 || ::poll(&waits, 1, static_cast<int>(left)) <= 0) return;
    take_driver_samples();
  }
}

void Sampler::take_sysfs_samples(Clock::time_point now) {
  const auto our_pid = [this](const model::DeviceProcess& process) {
    const bool is_ours = processes_ && process.pid && processes_->contains(*process.pid);
    return is_ours ? process.pid : std::nullopt;
  };
  const auto pids = processes_ ? processes_->pids() : std::vector<std::int64_t>();
  for (const inventory::DeviceSample& sample : sysfs_.take(pids))
    for (DeviceSeries& one : series_)
      if (one.is_of(sample.device)) one.add(sample, our_pid);
  const auto cost = Clock::now() - now;
  sysfs_due_ = now + std::max<Clock::duration>(kDeviceInterval, 50 * cost);
}

void Sampler::take_driver_samples() {
  if (hidden_ && processes_)
    hidden_->take([this](std::int64_t pid) { return processes_->contains(pid); });
  const auto our_pid = [this](const model::DeviceProcess& process) -> std::optional<std::int64_t> {
    auto pid = process.pid;
    if (!pid && process.host_pid && translator_) pid = translator_->find(*process.host_pid).pid;
    return pid && processes_->contains(*pid) ? pid : std::nullopt;
  };
  for (const inventory::DeviceSample& sample : driver_.take())
    for (DeviceSeries& one : series_) {
      if (!one.is_of(sample.device)) continue;
      if (ended_unix_milliseconds_ != 0 && sample.unix_milliseconds >= ended_unix_milliseconds_) {
        one.finish(sample);
        continue;
      }
      const int before = one.samples();
      one.add(sample, our_pid);
      // If the process list could not be read, it says nothing about the job.
      if (!sample.device.processes_unknown) driver_samples_ += one.samples() - before;
    }
}

std::vector<Sampler::Held> Sampler::held() const {
  std::vector<Held> out;
  for (const DeviceSeries& one : series_)
    if (const auto bytes = one.memory_now())
      out.push_back({one.index(), *bytes, one.users_now(), one.last_sample()});
  return out;
}

model::GpuUse Sampler::decide() const {
  using model::GpuUse;
  if (std::any_of(series_.begin(), series_.end(),
                  [](const DeviceSeries& one) { return one.listed(); }))
    return GpuUse::kSeen;
  if (hidden_ && hidden_->is_listed()) return GpuUse::kSeen;
  if (!processes_ || processes_->looks() == 0) return GpuUse::kNotChecked;
  const auto& nodes = processes_->gpu_files().nodes;
  if (std::any_of(nodes.begin(), nodes.end(),
                  [](const auto& node) { return !is_nvidia_node(node); }))
    return GpuUse::kSeen;
  // A CUDA program opens NVIDIA's nodes even if it only checks for GPUs. The driver lists the
  // program only once it has work on the GPU. If the list can identify our processes and had time
  // to update, the list decides.
  const bool list_decides = hidden_
                                ? hidden_->list_says_no()
                                : translator_ && translator_->view() != system::PidView::kForeign &&
                                      driver_samples_ - samples_before_nodes_ >= 2;
  if (nodes_seen_ && !list_decides) return GpuUse::kSeen;
  return processes_->unreadable() ? GpuUse::kNotChecked : GpuUse::kNotSeen;
}

model::Absence Sampler::why_no_sample(const model::Device& device, milliseconds wall) const {
  using model::Absence;
  using model::Vendor;
  if (device.health == model::Health::kAsleep) return Absence::kAsleep;
  if (device.vendor != Vendor::kNvidia) return Absence::kNotSupported;
  const bool silent = driver_.descriptor() < 0 || wall >= 4 * kDeviceInterval;
  return silent ? Absence::kNoAnswer : Absence::kTooShort;
}

model::Absence Sampler::why_not_seen(const model::Device& device) const {
  if (!processes_ || processes_->looks() == 0) return model::Absence::kTooShort;
  // In a container the driver may use the host's pids; then our processes cannot be identified.
  const bool foreign = translator_ && translator_->view() == system::PidView::kForeign;
  return foreign && device.vendor == model::Vendor::kNvidia ? model::Absence::kNotSupported
                                                            : model::Absence::kNotSeen;
}

void Sampler::say_how(model::Report& report) const {
  if (report.looks == 0) {
    report.gpu_use_method = text("the program ended before the first check");
    return;
  }
  // The time from the last look to the end was not observed either.
  auto unseen = std::max<Clock::duration>(longest_gap_, start_ + report.wall - last_look_);
  // Without the driver's list, only the files and nodes of the job's processes show the use of a
  // GPU.
  if (hidden_) unseen = std::max(unseen, processes_->longest_uninspected());
  const auto gap = std::chrono::ceil<milliseconds>(unseen).count();
  report.how_often =
      text_n("checked once, with a gap of up to {1} ms",
             "checked {0} times, with gaps of up to {1} ms", report.looks, report.looks, gap);
  report.gpu_use_method = text("open device nodes and loaded libraries: {}", report.how_often);
  if (driver_samples_ > 0 || (hidden_ && hidden_->descriptor() >= 0))
    report.gpu_use_method +=
        text("; the driver's list of processes: every {} ms", kDeviceInterval.count());
}

void Sampler::fill(model::Report& report, const model::Snapshot& snapshot) {
  take_driver_samples();
  if (report.wall >= DeviceSeries::kSettled && report.wall < std::chrono::seconds(60))
    wait_for_last_samples();
  report.gpus_here = std::any_of(snapshot.devices.begin(), snapshot.devices.end(), usable_gpu);
  report.gpu_use = decide();
  // A device that only OpenCL lists has no node and no driver's list, so it is not known whether
  // the job used it.
  const bool unseen = std::any_of(series_.begin(), series_.end(), [&](const DeviceSeries& one) {
    return find(snapshot, one.index())->kind == model::DeviceKind::kOpenCl;
  });
  if (unseen && report.gpu_use == model::GpuUse::kNotSeen)
    report.gpu_use = model::GpuUse::kNotChecked;
  if (report.wall >= DeviceSeries::kSettled)
    for (const inventory::DeviceSample& sample : sysfs_.take({}))
      for (DeviceSeries& one : series_)
        if (one.is_of(sample.device)) one.finish(sample);
  if (const auto growth = growth_of(memory_)) report.memory_growth.push_back(*growth);
  for (const DeviceSeries& one : series_) {
    const model::Device* device = find(snapshot, one.index());
    model::DeviceUse use = one.use(why_no_sample(*device, report.wall));
    // Energy counters are updated in steps, so the energy of a job shorter than kSettled would be
    // wrong.
    if (report.wall < DeviceSeries::kSettled && use.energy_millijoules)
      use.energy_millijoules = model::Absence::kTooShort;
    if (use.memory_peak_bytes.why == model::Absence::kNotSeen)
      use.memory_peak_bytes.why = why_not_seen(*device);
    if (auto growth = growth_of(one.memory())) {
      growth->device = use.device;
      growth->words = use.words;
      report.memory_growth.push_back(*std::move(growth));
    }
    report.devices.push_back(std::move(use));
  }
  report.looks = processes_ ? processes_->looks() : 0;
  say_how(report);
  if (!processes_) return;
  if (hidden_ && report.gpu_use != model::GpuUse::kNotChecked)
    report.gpus_touched = hidden_->touched(processes_->gpu_files());
  if (processes_->peak_memory_bytes() > report.peak_rss_bytes) {
    report.peak_rss_bytes = processes_->peak_memory_bytes();
    report.peak_is_pss = processes_->peak_is_pss();
  }
  const auto& files = processes_->gpu_files().files;
  policy::LibraryAdvice advice = policy::advise({files.begin(), files.end()}, snapshot);
  report.libraries = std::move(advice.libraries);
  policy::ThreadPools pools = policy::thread_pools({files.begin(), files.end()});
  report.threading = {std::move(pools.pools), std::move(pools.blas), std::nullopt, std::nullopt};
  if (processes_->most_threads() > 0) {
    report.threading.most = processes_->most_threads();
    report.threading.most_of_all = processes_->most_threads_of_all();
  }
  if (report.gpu_use == model::GpuUse::kNotSeen && !report.on_cpu_by_request)
    report.suggestions = std::move(advice.suggestions);
}

std::vector<RankActivity> Sampler::rank_activities(const model::Report& report) const {
  std::vector<RankActivity> ranks;
  if (!report.tries || !report.tries->has_ranks || report.tries->all.empty()) return ranks;
  for (const model::RankEnd& end : report.tries->all.back().ranks) {
    const auto seen = activity_->mains().find(static_cast<pid_t>(end.pid));
    if (seen != activity_->mains().end() && seen->second.seconds >= kShortestJudged / 2)
      ranks.push_back({end.rank, seen->second.part(seen->second.runs)});
  }
  return ranks;
}

DeviceEvidence Sampler::device_evidence(const DeviceSeries& series,
                                        const model::Report& report) const {
  DeviceEvidence evidence;
  evidence.strain = series.strain();
  for (const model::DeviceUse& use : report.devices) {
    if (use.device != series.index()) continue;
    evidence.words = use.words;
    if (use.utilization_mean_percent) evidence.busy = *use.utilization_mean_percent / 100;
  }
  if (!report.guarded || report.guarded->programs == 0) return evidence;
  for (const model::GuardedDevice& one : report.guarded->devices) {
    if (one.device != series.index()) continue;
    evidence.launches = one.launches;
    evidence.copies = one.copies;
    evidence.share_permille = one.share_permille;
    if (one.share_permille)
      evidence.own_seconds = static_cast<double>(one.device_nanoseconds) / 1e9;
    evidence.waited_seconds = static_cast<double>(one.waited_nanoseconds) / 1e9;
  }
  return evidence;
}

void Sampler::fill_bottlenecks(model::Report& report, const model::Snapshot& snapshot) const {
  Evidence evidence;
  evidence.wall_seconds = static_cast<double>(report.wall.count()) / 1000;
  if (report.cpu_known) evidence.cpu_seconds = static_cast<double>(report.cpu.count()) / 1000;
  const auto cpus = model::parse_cpu_list(report.cpus);
  evidence.cores = report.cpus.empty() || !cpus ? snapshot.host.cpu.cores_usable
                                                : static_cast<int>(cpus->size());
  evidence.quota_part = stopped_part(quota_before_, quota_periods());
  evidence.device_unused = report.gpu_use == model::GpuUse::kNotSeen && !report.devices.empty();
  evidence.has_reference_blas =
      report.threading.blas == std::vector<std::string>{policy::kReferenceBlas};
  evidence.registers_stacks = supervised_;
  evidence.has_number = report.job.has_value();
  if (activity_) {
    evidence.main = activity_->all();
    evidence.ranks = rank_activities(report);
    evidence.mains = std::max(1, static_cast<int>(evidence.ranks.size()));
  }
  if (processes_) {
    evidence.runnable = processes_->mean_runnable();
    evidence.disk_bytes = static_cast<double>(processes_->disk_bytes());
  }
  for (const DeviceSeries& one : series_) evidence.devices.push_back(device_evidence(one, report));
  Bottlenecks bottlenecks = find_bottlenecks(evidence);
  report.bottlenecks = std::move(bottlenecks.found);
  report.bottlenecks_unknown = std::move(bottlenecks.unknown);
}

}  // namespace berth::run
