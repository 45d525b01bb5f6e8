#include "inventory/nvml_reader.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "base/text.hpp"
#include "inventory/nvml_child.hpp"
#include "inventory/nvml_collector.hpp"

namespace berth::inventory {

namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, as the child's time
using std::chrono::milliseconds;

constexpr milliseconds kSlow{1000};
// Where finish() is called after the deadline, what the child could not write into a full pipe yet
// still gets that long.
constexpr milliseconds kGrace{100};

NvmlTask task_for(const Sources& sources, const Options& options,
                  const std::vector<system::PciDevice>& gpus) {
  NvmlTask task;
  task.library = sources.nvml_library;
  task.only_addresses = awake_beside_asleep(gpus);
  task.processes = options.processes;
  task.pcie_throughput = options.pcie_throughput;
  return task;
}

}  // namespace

struct NvmlReader::State {
  Sources sources;
  Options options;
  std::vector<system::PciDevice> gpus;
  NvmlTask task;
  bool asked = false;  // the driver is asked at all
  Clock::time_point started = Clock::now();
  NvmlChild child = {};
  frames::Parser parser = {};
  Collector collector{gpus, task.only_addresses};

  [[nodiscard]] Clock::time_point deadline(Clock::time_point finishing) const;
  /// True where the pipe has ended.
  bool collect();
  Ending wait();
};

Clock::time_point NvmlReader::State::deadline(Clock::time_point finishing) const {
  if (!collector.ready())
    return std::max(started + options.initialisation_deadline, finishing + kGrace);
  // The child's word on when it was, as far as it can be true.
  const Clock::time_point said{std::chrono::nanoseconds(collector.ready()->monotonic_nanoseconds)};
  const Clock::time_point ready = std::clamp(said, started, Clock::now());
  return std::max(ready + options.device_deadline, finishing + kGrace);
}

bool NvmlReader::State::collect() {
  const bool open = read_frames(child, parser);
  while (auto frame = parser.next()) collector.take(std::move(*frame));
  return !open || parser.damaged();
}

Ending NvmlReader::State::wait() {
  const Clock::time_point finishing = Clock::now();
  bool told_slow = !options.on_slow;
  while (!collector.over()) {
    const Clock::time_point now = Clock::now();
    Clock::time_point until = deadline(finishing);
    const bool may_tell = !told_slow && !collector.ready();
    if (may_tell) until = std::min(until, started + kSlow);
    const auto left = std::chrono::ceil<milliseconds>(until - now).count();
    pollfd pipe{child.pipe.get(), POLLIN, 0};
    const int ready = poll(&pipe, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (ready > 0) {
      if (collect()) return {false, true, ending_of(child)};
    } else if (may_tell && Clock::now() >= started + kSlow) {
      options.on_slow(text("the NVIDIA driver is starting, which can take half a minute"));
      told_slow = true;
    } else if (Clock::now() >= deadline(finishing)) {
      break;
    }
  }
  return {};
}

NvmlReader::NvmlReader(const Sources& sources, const Options& options,
                       const std::vector<system::PciDevice>& pci)
    : state_(std::make_unique<State>(State{sources, options, nvidia_gpus(pci), {}})) {
  state_->task = task_for(sources, options, state_->gpus);
  state_->collector = Collector(state_->gpus, state_->task.only_addresses);
  state_->asked = !sources.nvml_library.empty() && !all_asleep(state_->gpus);
  if (state_->asked) state_->child = start_nvml_child(state_->task);
}

NvmlReader::~NvmlReader() {
  end_nvml_child(state_->child);
}

NvmlReport NvmlReader::finish() {
  State& state = *state_;
  if (!state.asked) return state.collector.report_unasked(state.sources);
  Ending ending;
  ending.no_child = state.child.pid < 0;
  if (!ending.no_child) ending = state.wait();
  return state.collector.report(state.sources, state.options, ending);
}

}  // namespace berth::inventory
