// Samples the running job for its report: processes in /proc, NVIDIA devices through the driver's
// reader process, AMD and Intel devices in sysfs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inventory/nvml_reader.hpp"
#include "inventory/sysfs_sampler.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "run/activity.hpp"
#include "run/bottleneck.hpp"
#include "run/device_series.hpp"
#include "run/front.hpp"
#include "run/group_counters.hpp"
#include "run/hidden_gpus.hpp"
#include "run/job_processes.hpp"
#include "run/memory_growth.hpp"
#include "system/pid_namespace.hpp"

namespace berth::run {

class Sampler : public Watcher {
 public:
  /// Starts to sample the placement's devices, so that their energy is known before the job starts.
  /// `supervised`: the command is started by our supervisor.
  Sampler(const inventory::Sources& sources, const model::Snapshot& snapshot,
          const model::Placement& placement, bool supervised);

  /// Also samples the processes of the container whose id this file will contain; "": there is no
  /// container.
  void also_watch(std::string container_id_file) { container_id_ = std::move(container_id_file); }
  void started(pid_t keeper, pid_t workload) override;
  [[nodiscard]] std::chrono::steady_clock::time_point due() const override { return due_; }
  void look() override;
  void ended() override;
  [[nodiscard]] int descriptor() const override {
    return hidden_ ? hidden_->descriptor() : driver_.descriptor();
  }

  /// The memory of the job's processes, according to the driver's newest samples.
  struct Held {
    int device;
    std::uint64_t bytes;
    std::vector<MemoryUser> users;
    std::int64_t unix_milliseconds;
  };
  [[nodiscard]] std::vector<Held> held() const;

  /// Fills in the results: peak RSS, devices, gpu_use and its method, libraries, suggestions.
  void fill(model::Report& report, const model::Snapshot& snapshot);

  /// Fills in what limited the job. Call it last: it uses the rest of the report.
  void fill_bottlenecks(model::Report& report, const model::Snapshot& snapshot) const;

  // time between two samples of /proc
  static constexpr std::chrono::milliseconds kInterval{100};
  // time between two samples of /proc after the first 10 s
  static constexpr std::chrono::milliseconds kCalmInterval{250};
  // time between two samples of the devices
  static constexpr std::chrono::milliseconds kDeviceInterval{500};

 private:
  using Clock = std::chrono::steady_clock;

  void take_driver_samples();
  void wait_for_last_samples();
  void take_sysfs_samples(Clock::time_point now);
  [[nodiscard]] model::Absence why_no_sample(const model::Device& device,
                                             std::chrono::milliseconds wall) const;
  [[nodiscard]] model::Absence why_not_seen(const model::Device& device) const;
  void say_how(model::Report& report) const;
  [[nodiscard]] model::GpuUse decide() const;

  inventory::NvmlSampler driver_;
  inventory::SysfsSampler sysfs_;
  std::optional<HiddenGpus> hidden_;  // set for a job without a device
  std::optional<system::PidTranslator> translator_;
  std::vector<DeviceSeries> series_;
  std::optional<JobProcesses> processes_;
  std::int64_t ended_unix_milliseconds_ = 0;  // when the command ended; 0: it has not ended
  [[nodiscard]] std::vector<RankActivity> rank_activities(const model::Report& report) const;
  [[nodiscard]] DeviceEvidence device_evidence(const DeviceSeries& series,
                                               const model::Report& report) const;

  bool supervised_;
  MemorySeries memory_;
  std::optional<Activity> activity_;
  std::map<std::string, QuotaPeriods> quota_before_;
  Clock::time_point start_{}, due_{}, sysfs_due_{}, last_look_{};
  Clock::duration longest_gap_{0};  // longest time between two samples of /proc since the start
  int driver_samples_ = 0;          // number of samples of NVIDIA devices since the start
  int samples_before_nodes_ = 0;    // driver samples before the first NVIDIA node was seen
  bool nodes_seen_ = false;
  std::string container_id_;
};

}  // namespace berth::run
