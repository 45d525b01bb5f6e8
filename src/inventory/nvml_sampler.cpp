#include <csignal>
#include <utility>

#include "inventory/nvml_child.hpp"
#include "inventory/nvml_collector.hpp"
#include "inventory/nvml_reader.hpp"

namespace berth::inventory {

struct NvmlSampler::State {
  NvmlChild child;
  frames::Parser parser;
  std::vector<model::XidEvent> xids;
  bool is_ready = false;
};

NvmlSampler::NvmlSampler(const Sources& sources, std::vector<std::string> uuids,
                         std::chrono::milliseconds interval, SamplePace pace)
    : state_(std::make_unique<State>()) {
  std::erase(uuids, "");
  if (uuids.empty() || sources.nvml_library.empty()) return;
  const std::vector<system::PciDevice> gpus = nvidia_gpus(system::scan_pci(sources.roots));
  if (all_asleep(gpus)) return;
  NvmlTask task;
  task.library = sources.nvml_library;
  task.only_addresses = awake_beside_asleep(gpus);
  task.interval = std::max(interval, std::chrono::milliseconds(10));
  task.wanted = std::move(uuids);
  task.pace = pace;
  state_->child = start_nvml_child(task);
}

NvmlSampler::~NvmlSampler() {
  end_nvml_child(state_->child);
}

void NvmlSampler::ask_now() {
  if (state_->child.pid > 0 && state_->child.pipe) ::kill(state_->child.pid, kSampleNow);
}

int NvmlSampler::descriptor() const {
  return state_->child.pipe.get();
}

std::vector<DeviceSample> NvmlSampler::take() {
  std::vector<DeviceSample> samples;
  State& state = *state_;
  if (!state.child.pipe) return samples;
  const bool open = read_frames(state.child, state.parser);
  while (auto frame = state.parser.next()) {
    if (auto* device = std::get_if<frames::Device>(&*frame)) {
      device->device.processes_unknown = device->no_process_list;
      samples.push_back({std::move(device->device), std::move(device->processes),
                         device->unix_milliseconds, device->no_process_list, device->has_throttle,
                         device->has_all, device->driver_microseconds});
    } else if (auto* event = std::get_if<frames::Event>(&*frame)) {
      state.xids.push_back(std::move(event->xid));
    } else if (std::holds_alternative<frames::Ready>(*frame)) {
      state.is_ready = true;
    }
  }
  if (!open || state.parser.damaged()) end_nvml_child(state.child);
  return samples;
}

bool NvmlSampler::is_ready() const {
  return state_->is_ready;
}

std::vector<model::XidEvent> NvmlSampler::take_xids() {
  return std::exchange(state_->xids, {});
}

}  // namespace berth::inventory
