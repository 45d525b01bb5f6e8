// HiddenGpus: whether a job that got no GPU uses one anyway. Variables such as CUDA_VISIBLE_DEVICES
// hide GPUs only from programs that read the variables. Evidence: the device nodes that its
// processes hold, and the driver's own list of processes. The driver is asked only once a process
// of the job has loaded a library of the driver or opened a node, so an ordinary program on the CPU
// costs nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "inventory/nvml_reader.hpp"
#include "model/snapshot.hpp"
#include "run/device_series.hpp"
#include "run/gpu_files.hpp"
#include "system/pid_namespace.hpp"

namespace berth::run {

class HiddenGpus {
 public:
  /// `snapshot`: all of its GPUs are hidden from the job.
  HiddenGpus(inventory::Sources sources, const model::Snapshot& snapshot);

  /// Starts to query the driver if the files that the job has opened show that it may use a GPU.
  void look(const GpuFiles& files);
  /// A descriptor that becomes readable when the driver has answered; -1: the driver is not asked.
  [[nodiscard]] int descriptor() const { return driver_ ? driver_->descriptor() : -1; }
  /// Reads the driver's answers. `is_ours`: whether this process belongs to the job.
  void take(const std::function<bool(std::int64_t pid)>& is_ours);

  /// Whether the driver has listed a process of the job.
  [[nodiscard]] bool is_listed() const;
  /// Whether the driver's lists could show the job's processes, but have not shown any since the
  /// job opened a node.
  [[nodiscard]] bool list_says_no() const;
  /// What the job used: GPUs for which the driver listed a process of the job ("GPU 0 (NVIDIA
  /// H100)"), and nodes that its processes held ("/dev/nvidia0").
  [[nodiscard]] std::vector<std::string> touched(const GpuFiles& files) const;

 private:
  struct Watched {
    DeviceSeries series;
    std::string words;
    int lists = 0;  // number of readable process lists of this GPU since the job opened a node
  };
  inventory::Sources sources_;
  std::vector<std::string> names_;  // the UUID of each GPU; the PCI address if it has no UUID
  std::vector<Watched> watched_;
  std::optional<inventory::NvmlSampler> driver_;
  std::optional<system::PidTranslator> translator_;
  bool has_node_ = false;
};

}  // namespace berth::run
