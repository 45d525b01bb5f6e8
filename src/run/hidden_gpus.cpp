#include "run/hidden_gpus.hpp"

#include <algorithm>

#include "model/device_selector.hpp"

namespace berth::run {
namespace {

constexpr std::chrono::milliseconds kInterval{500};
// the first list may be outdated, because the driver updates it only after a while
constexpr int kEnoughLists = 2;

}  // namespace

HiddenGpus::HiddenGpus(inventory::Sources sources, const model::Snapshot& snapshot)
    : sources_(std::move(sources)) {
  for (const model::Device& device : snapshot.devices) {
    if (device.vendor != model::Vendor::kNvidia || device.kind != model::DeviceKind::kGpu) continue;
    names_.push_back(device.uuid.empty() ? device.pci_address : device.uuid);
    watched_.push_back({DeviceSeries(device, ""), model::unit_words(device, "")});
    watched_.back().series.start(0);
  }
}

void HiddenGpus::look(const GpuFiles& files) {
  const bool has_node = !files.nodes.empty() || !files.gpu_nodes.empty();
  if (has_node && !has_node_)
    for (Watched& one : watched_) one.lists = 0;
  has_node_ = has_node;
  if (driver_ || names_.empty() || (!has_node && !files.has_driver)) return;
  driver_.emplace(sources_, names_, kInterval);
  if (driver_->descriptor() < 0) return;
  translator_ = sources_.simulated ? system::PidTranslator(sources_.roots, system::PidView::kHost)
                                   : system::PidTranslator(sources_.roots);
}

void HiddenGpus::take(const std::function<bool(std::int64_t pid)>& is_ours) {
  if (!driver_) return;
  const auto ours = [&](const model::DeviceProcess& process) {
    if (process.pid) return is_ours(*process.pid);
    if (!process.host_pid || !translator_) return false;
    const auto pid = translator_->find(*process.host_pid).pid;
    return pid && is_ours(*pid);
  };
  for (const inventory::DeviceSample& sample : driver_->take())
    for (Watched& one : watched_) {
      if (!one.series.is_of(sample.device)) continue;
      one.series.add(sample, ours);
      // An unreadable list says nothing about the job.
      if (!sample.no_process_list && !sample.device.processes_unknown) ++one.lists;
    }
}

bool HiddenGpus::is_listed() const {
  return std::any_of(watched_.begin(), watched_.end(),
                     [](const Watched& one) { return one.series.listed(); });
}

bool HiddenGpus::list_says_no() const {
  return translator_ && translator_->view() != system::PidView::kForeign && !is_listed() &&
         std::all_of(watched_.begin(), watched_.end(),
                     [](const Watched& one) { return one.lists >= kEnoughLists; });
}

std::vector<std::string> HiddenGpus::touched(const GpuFiles& files) const {
  std::vector<std::string> out;
  for (const Watched& one : watched_)
    if (one.series.listed()) out.push_back(one.words);
  out.insert(out.end(), files.gpu_nodes.begin(), files.gpu_nodes.end());
  out.insert(out.end(), files.nodes.begin(), files.nodes.end());
  return out;
}

}  // namespace berth::run
