// Looks at the job while it runs, for the report: its processes in /proc, and its devices through
// the driver's own child.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "inventory/nvml_reader.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "run/device_series.hpp"
#include "run/front.hpp"
#include "run/job_processes.hpp"
#include "system/pid_namespace.hpp"

namespace berth::run {

class Sampler : public Watcher {
 public:
  /// Begins to sample the placement's NVIDIA devices, so that their energy is known from before the
  /// start.
  Sampler(const inventory::Sources& sources, const model::Snapshot& snapshot,
          const model::Placement& placement);

  void started(pid_t keeper, pid_t workload) override;
  [[nodiscard]] std::chrono::steady_clock::time_point due() const override { return due_; }
  void look() override;
  [[nodiscard]] int descriptor() const override { return devices_.descriptor(); }

  /// Fills what the looks tell: peak RSS, devices, gpu_use and its method, libraries, suggestions.
  void fill(model::Report& report, const model::Snapshot& snapshot);

  static constexpr std::chrono::milliseconds kInterval{100};        // of the looks at /proc
  static constexpr std::chrono::milliseconds kDeviceInterval{500};  // of the driver's samples

 private:
  void take_device_samples();
  [[nodiscard]] model::GpuUse decide() const;

  inventory::NvmlSampler devices_;
  std::optional<system::PidTranslator> translator_;
  std::vector<DeviceSeries> series_;
  std::optional<JobProcesses> processes_;
  std::chrono::steady_clock::time_point start_{}, due_{};
  int samples_before_nodes_ = 0;  // driver samples when the first NVIDIA node was seen
  bool nodes_seen_ = false;
};

}  // namespace berth::run
