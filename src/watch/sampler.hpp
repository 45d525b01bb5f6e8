// Sampler: one thread that reads the machine again and again, and publishes frames. It reads fast
// readings every second, process lists every two seconds, and the other readings every ten seconds.
// Every minute, a full snapshot finds new devices and driver errors.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "inventory/observe.hpp"
#include "watch/frame.hpp"

namespace berth::watch {

struct SamplerOptions {
  std::chrono::milliseconds interval{1000};
  /// Called in the sampler's thread after each new process list, to add the processes' jobs.
  std::function<void(model::Snapshot&)> decorate = {};
  /// Called in the sampler's thread with each frame; it must not block for long.
  std::function<void(const FramePtr&)> on_frame = {};
  std::chrono::milliseconds initialisation_deadline{30'000};
  bool xids = false;  // whether frames contain Xids from NVML and the kernel log
  /// How far an earlier process has read the kernel log. Older Xids are not in the frames and are
  /// not counted; only the time of the last one is kept.
  LogPosition log_seen = {};
  bool pcie_throughput = false;
  /// Whether to publish a first frame without processes while /proc is still being read
  /// (Frame::is_early).
  bool early_frame = false;
};

class Sampler {
 public:
  Sampler(inventory::Sources sources, SamplerOptions options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Returns the newest frame; nullptr if there is none yet.
  [[nodiscard]] FramePtr newest() const;
  /// Waits for a frame whose number is above `after`; nullptr if the limit is reached first.
  [[nodiscard]] FramePtr wait(std::uint64_t after, std::chrono::milliseconds limit) const;

 private:
  class Work;
  void publish(FramePtr frame);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  FramePtr newest_;
  bool over_ = false;
  inventory::Sources sources_;
  SamplerOptions options_;
  std::thread thread_;
};

}  // namespace berth::watch
