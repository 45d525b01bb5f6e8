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

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, as in the child
using std::chrono::milliseconds;

constexpr milliseconds kSlow{1000};
// The child always gets this much time to write data that did not fit into the pipe, even if
// finish() is called after the deadline.
constexpr milliseconds kGrace{100};
constexpr int kMostCrashes = 4;

NvmlTask task_for(const Sources& sources, const Options& options,
                  const std::vector<system::PciDevice>& gpus) {
  NvmlTask task;
  task.library = sources.nvml_library;
  task.only_addresses = awake_beside_asleep(gpus);
  // The child stops reading after 6/7 of the deadline, and uses the remaining 1/7 to send its
  // answers.
  task.look_within = options.device_deadline * 6 / 7;
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
  bool asked = false;  // whether the driver is queried at all
  Clock::time_point started = Clock::now();
  NvmlChild child = {};
  frames::Parser parser = {};
  Collector collector{gpus, task.only_addresses};

  [[nodiscard]] Clock::time_point deadline(Clock::time_point finishing) const;
  /// Reads frames from the child. Returns true at end of file.
  bool collect();
  Ending wait();
  /// Waits for the child. After a crash, reads the missing devices again within the same deadline.
  Ending wait_and_ask_again();
};

Clock::time_point NvmlReader::State::deadline(Clock::time_point finishing) const {
  if (!collector.owes_since())
    return std::max(started + options.initialisation_deadline, finishing + kGrace);
  // Use the time since which the child owes an answer, if it is plausible.
  const Clock::time_point said{std::chrono::nanoseconds(*collector.owes_since())};
  const Clock::time_point since = std::clamp(said, started, Clock::now());
  return std::max(since + options.device_deadline, finishing + kGrace);
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
    const bool may_tell = !told_slow && !collector.owes_since();
    if (may_tell) until = std::min(until, started + kSlow);
    const auto left = std::chrono::ceil<milliseconds>(until - now).count();
    pollfd pipe{child.pipe.get(), POLLIN, 0};
    const int ready = poll(&pipe, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (ready > 0) {
      if (collect() && !collector.over()) return {false, true, ending_of(child)};
    } else if (may_tell && Clock::now() >= started + kSlow) {
      options.on_slow(text("the NVIDIA driver is starting, which can take half a minute"));
      told_slow = true;
    } else if (Clock::now() >= deadline(finishing)) {
      break;
    }
  }
  return {};
}

// One faulty GPU must not hide the others. If the child crashed, it is unknown which device's
// thread caused the crash. So the missing devices are read again one at a time. The first device
// without an answer is the cause, and is skipped from then on.
Ending NvmlReader::State::wait_and_ask_again() {
  const Ending first = wait();
  Ending last = first;
  std::vector<std::uint32_t> sick;
  for (int crashes = 1; crashes <= kMostCrashes && last.closed && last.signal > 0; ++crashes) {
    std::vector<std::uint32_t> missing = collector.unfinished();
    for (const std::uint32_t position : sick) std::erase(missing, position);
    if (crashes > 1 && !missing.empty()) {
      sick.push_back(missing.front());
      missing.erase(missing.begin());
    }
    if (missing.empty()) break;
    task.one_by_one = std::move(missing);
    end_nvml_child(child);
    child = start_nvml_child(task);
    if (child.pid < 0) break;
    parser = {};
    last = wait();
  }
  return collector.unfinished().empty() ? last : first;
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
  if (!ending.no_child) ending = state.wait_and_ask_again();
  return state.collector.report(state.sources, state.options, ending);
}

}  // namespace berth::inventory
