// Calls NVIDIA's driver in a forked child without inherited descriptors, with one thread per
// device. A call into a faulty driver can hang, crash or corrupt memory. Only the child is affected
// then, and the device is reported as "no answer".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "inventory/device_sample.hpp"
#include "inventory/observe.hpp"
#include "model/snapshot.hpp"
#include "model/xid_event.hpp"
#include "system/pci.hpp"

namespace berth::inventory {

struct NvmlReport {
  model::Driver driver;
  // The devices in PCI order; Device::index is not set yet. GPUs on the bus that the driver does
  // not list are left out: they have another kernel driver, or do not belong to this container. If
  // the driver itself fails, all GPUs on the bus are included and marked as failed.
  std::vector<model::Device> devices;
  // The processes on these devices. DeviceProcess::device is an index in `devices`. Only the fields
  // that the driver fills are set.
  std::vector<model::DeviceProcess> processes;
  std::int64_t unix_milliseconds = 0;  // when the devices were read; 0: unknown
  std::uint32_t left_out = 0;          // number of additional devices, which are not read
};

/// Scans once. Start it before reading anything else and finish it last, so that the driver works
/// in parallel.
class NvmlReader {
 public:
  /// `pci`: the devices from scan_pci(). Suspended NVIDIA GPUs are not accessed, and are reported
  /// as asleep.
  NvmlReader(const Sources& sources, const Options& options,
             const std::vector<system::PciDevice>& pci);
  ~NvmlReader();
  NvmlReader(const NvmlReader&) = delete;
  NvmlReader& operator=(const NvmlReader&) = delete;
  /// Waits at most until the deadlines in `options`.
  [[nodiscard]] NvmlReport finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Samples continuously from one child: memory, utilization, temperature, power and energy at every
/// tick; processes and slower values as often as `pace` says.
class NvmlSampler {
 public:
  /// Samples the devices with these uuids or PCI addresses every `interval`. If the list is empty,
  /// starts no child. A GPU that is asleep now is left out, because sampling would wake it.
  NvmlSampler(const Sources& sources, std::vector<std::string> uuids,
              std::chrono::milliseconds interval, SamplePace pace = {});
  ~NvmlSampler();
  NvmlSampler(const NvmlSampler&) = delete;
  NvmlSampler& operator=(const NvmlSampler&) = delete;
  /// Requests one extra sample of each device immediately.
  void ask_now();
  /// A descriptor that becomes readable when a sample is available. -1 if no device is sampled, or
  /// if take() has found that the driver failed.
  [[nodiscard]] int descriptor() const;
  /// Returns the samples since the last call, oldest first. Each sample is of one device, because
  /// devices are sampled independently. Never blocks.
  [[nodiscard]] std::vector<DeviceSample> take();
  /// Whether the driver is initialized, as seen by take().
  [[nodiscard]] bool is_ready() const;
  /// Returns the Xids that the last call of take() received.
  [[nodiscard]] std::vector<model::XidEvent> take_xids();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth::inventory
