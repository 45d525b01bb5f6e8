#include "inventory/nvml_child.hpp"
#include "inventory/nvml_collector.hpp"
#include "inventory/nvml_reader.hpp"

namespace berth::inventory {

struct NvmlSampler::State {
  NvmlChild child;
  frames::Parser parser;
};

namespace {

NvmlReport report_of(frames::Device&& frame) {
  NvmlReport report;
  report.driver.state = "ok";
  report.unix_milliseconds = frame.unix_milliseconds;
  for (model::DeviceProcess& process : frame.processes) process.device = 0;
  report.processes = std::move(frame.processes);
  report.devices.push_back(std::move(frame.device));
  return report;
}

}  // namespace

NvmlSampler::NvmlSampler(const Sources& sources, std::vector<std::string> uuids,
                         std::chrono::milliseconds interval)
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
  state_->child = start_nvml_child(task);
}

NvmlSampler::~NvmlSampler() {
  end_nvml_child(state_->child);
}

int NvmlSampler::descriptor() const {
  return state_->child.pipe.get();
}

std::vector<NvmlReport> NvmlSampler::take() {
  std::vector<NvmlReport> reports;
  State& state = *state_;
  if (!state.child.pipe) return reports;
  const bool open = read_frames(state.child, state.parser);
  while (auto frame = state.parser.next()) {
    if (auto* device = std::get_if<frames::Device>(&*frame)) {
      reports.push_back(report_of(std::move(*device)));
    }
  }
  if (!open || state.parser.damaged()) end_nvml_child(state.child);
  return reports;
}

}  // namespace berth::inventory
