#include "run/sampler.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "policy/libraries.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const model::Device* find(const model::Snapshot& snapshot, int index) {
  for (const model::Device& device : snapshot.devices)
    if (device.index == index) return &device;
  return nullptr;
}

std::vector<std::string> sampled_names(const model::Snapshot& snapshot,
                                       const model::Placement& placement) {
  std::vector<std::string> names;
  for (const int index : placement.devices) {
    const model::Device* device = find(snapshot, index);
    if (device == nullptr || device->vendor != model::Vendor::kNvidia) continue;
    names.push_back(device->uuid.empty() ? device->pci_address : device->uuid);
  }
  return names;
}

bool usable_gpu(const model::Device& device) {
  const bool right_kind =
      device.kind == model::DeviceKind::kGpu || device.kind == model::DeviceKind::kTpu;
  return right_kind && device.managed;
}

}  // namespace

Sampler::Sampler(const inventory::Sources& sources, const model::Snapshot& snapshot,
                 const model::Placement& placement)
    : devices_(sources, sampled_names(snapshot, placement), kDeviceInterval) {
  if (devices_.descriptor() >= 0) {
    translator_ = sources.simulated ? system::PidTranslator(sources.roots, system::PidView::kHost)
                                    : system::PidTranslator(sources.roots);
  }
  for (std::size_t i = 0; i < placement.devices.size(); ++i) {
    const model::Device* device = find(snapshot, placement.devices[i]);
    if (device == nullptr || device->kind == model::DeviceKind::kCpu) continue;
    series_.emplace_back(*device, i < placement.partitions.size() ? placement.partitions[i] : "");
  }
}

void Sampler::started(pid_t keeper, pid_t) {
  start_ = Clock::now();
  due_ = start_ + milliseconds(5);
  processes_.emplace(keeper);
}

void Sampler::look() {
  take_device_samples();
  const auto now = Clock::now();
  if (!processes_ || now < due_) return;
  processes_->look(now);
  const auto& nodes = processes_->traces().nodes;
  if (!nodes_seen_ && std::any_of(nodes.begin(), nodes.end(), is_nvidia_node)) {
    nodes_seen_ = true;
    for (const DeviceSeries& one : series_) samples_before_nodes_ += one.samples();
  }
  // More often in the first second, for programs that are over soon; never more than one part in
  // fifty of one core.
  const auto cost = Clock::now() - now;
  const auto interval = now - start_ < milliseconds(1000) ? milliseconds(20) : kInterval;
  due_ = now + std::max<Clock::duration>(interval, 50 * cost);
}

void Sampler::take_device_samples() {
  const auto ours = [this](const model::DeviceProcess& process) {
    if (process.pid) return processes_->contains(*process.pid);
    if (!process.host_pid || !translator_) return false;
    const auto pid = translator_->find(*process.host_pid).pid;
    return pid && processes_->contains(*pid);
  };
  for (const inventory::NvmlReport& report : devices_.take())
    for (const model::Device& device : report.devices)
      for (DeviceSeries& one : series_)
        if (one.is_of(device))
          one.add(device, report.processes, report.unix_milliseconds, processes_.has_value(), ours);
}

model::GpuUse Sampler::decide() const {
  using model::GpuUse;
  int samples = 0;
  for (const DeviceSeries& one : series_) {
    if (one.listed()) return GpuUse::kSeen;
    samples += one.samples();
  }
  if (!processes_ || processes_->looks() == 0) return GpuUse::kNotChecked;
  const auto& nodes = processes_->traces().nodes;
  if (std::any_of(nodes.begin(), nodes.end(),
                  [](const auto& node) { return !is_nvidia_node(node); }))
    return GpuUse::kSeen;
  // A CUDA program opens NVIDIA's nodes when it only asks for GPUs. The driver lists it when it has
  // work there; where that list speaks of our processes and had time to, it decides.
  const bool list_decides = translator_ && translator_->view() != system::PidView::kForeign &&
                            samples - samples_before_nodes_ >= 2;
  if (nodes_seen_ && !list_decides) return GpuUse::kSeen;
  return processes_->unreadable() ? GpuUse::kNotChecked : GpuUse::kNotSeen;
}

void Sampler::fill(model::Report& report, const model::Snapshot& snapshot) {
  take_device_samples();
  report.gpus_here = std::any_of(snapshot.devices.begin(), snapshot.devices.end(), usable_gpu);
  report.gpu_use = decide();
  report.interval = kInterval;
  for (const DeviceSeries& one : series_) report.devices.push_back(one.use());
  int samples = 0;
  for (const DeviceSeries& one : series_) samples += one.samples();
  report.gpu_use_method =
      samples > 0 ? text(
                        "the driver's list of processes every {} ms, open device nodes "
                        "and loaded libraries every {} ms",
                        kDeviceInterval.count(), kInterval.count())
                  : text("open device nodes and loaded libraries every {} ms", kInterval.count());
  if (!processes_) return;
  report.looks = processes_->looks();
  report.peak_rss_bytes = std::max(report.peak_rss_bytes, processes_->peak_rss_bytes());
  if (report.looks == 0) report.gpu_use_method = text("the program ended before the first look");
  const auto& files = processes_->traces().files;
  policy::LibraryAdvice advice = policy::advise({files.begin(), files.end()}, snapshot);
  report.libraries = std::move(advice.libraries);
  if (report.gpu_use == model::GpuUse::kNotSeen && !report.on_cpu_by_request)
    report.suggestions = std::move(advice.suggestions);
}

}  // namespace berth::run
