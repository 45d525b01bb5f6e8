// Calls NVIDIA's driver in a forked child without inherited descriptors, with one thread per
// device. A call into a faulty driver can hang, crash or corrupt memory; here such a device is only
// a row that says "no answer".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "inventory/device_sample.hpp"
#include "inventory/observe.hpp"
#include "model/snapshot.hpp"
#include "system/pci.hpp"

namespace berth::inventory {

struct NvmlReport {
  model::Driver driver;
  // In PCI order; Device::index is not set yet. Excludes GPUs on the bus that the driver does not
  // list (another kernel driver, or not in this container). If the driver itself fails, includes
  // them with that state.
  std::vector<model::Device> devices;
  // DeviceProcess::device is an index in `devices`; only the driver's fields are filled.
  std::vector<model::DeviceProcess> processes;
  std::int64_t unix_milliseconds = 0;  // when the devices were read; 0 unknown
  std::uint32_t left_out = 0;          // further devices that are not read
};

/// Scans once. Start it before reading anything else and finish it last, so that the driver works
/// in parallel.
class NvmlReader {
 public:
  /// `pci`: the bus (scan_pci). Suspended NVIDIA GPUs are not touched, and are reported as asleep.
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
/// tick; processes and the rest as `pace` says.
class NvmlSampler {
 public:
  /// Samples the devices with these uuids (or PCI addresses) every `interval`; starts nothing if
  /// there are none. A GPU that is asleep now is not sampled, because that would wake it.
  NvmlSampler(const Sources& sources, std::vector<std::string> uuids,
              std::chrono::milliseconds interval, SamplePace pace = {});
  ~NvmlSampler();
  NvmlSampler(const NvmlSampler&) = delete;
  NvmlSampler& operator=(const NvmlSampler&) = delete;
  /// Requests one extra sample of each device immediately.
  void ask_now();
  /// Readable when a sample is available; -1 if nothing is sampled, or (after a take()) if the
  /// driver failed.
  [[nodiscard]] int descriptor() const;
  /// The samples since the last call, oldest first. Each is of one device, because devices are
  /// sampled independently. Never blocks.
  [[nodiscard]] std::vector<DeviceSample> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth::inventory
