// The NVIDIA driver is called in a forked child without inherited descriptors, one thread per
// device, because a call into a sick driver can hang for ever, crash or scribble; here such a
// device is only a row that says "no answer".
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
  // In PCI order; Device::index is not set yet. GPUs on the bus that the driver does not speak of
  // (another kernel driver, not in this container) are not among them, unless the driver itself is
  // in trouble: then they are here with that as their state.
  std::vector<model::Device> devices;
  // DeviceProcess::device = position in `devices`; only the driver's part is filled.
  std::vector<model::DeviceProcess> processes;
  std::int64_t unix_milliseconds = 0;  // when the devices were read; 0 unknown
};

/// Looks once. Start it before reading anything else and finish it last: the driver works
/// meanwhile.
class NvmlReader {
 public:
  /// `pci`: the bus (scan_pci); NVIDIA GPUs that are suspended there are not touched, and reported
  /// asleep.
  NvmlReader(const Sources& sources, const Options& options,
             const std::vector<system::PciDevice>& pci);
  ~NvmlReader();
  NvmlReader(const NvmlReader&) = delete;
  NvmlReader& operator=(const NvmlReader&) = delete;
  /// Waits at most for the deadlines in `options`.
  [[nodiscard]] NvmlReport finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Looks again and again from one child, for `berth run`: memory and SM share of processes,
/// utilization, power, energy.
class NvmlSampler {
 public:
  /// Samples the devices with these uuids (or PCI addresses) every `interval`. None: nothing is
  /// started. A GPU that sleeps now is not sampled, because that would wake it.
  NvmlSampler(const Sources& sources, std::vector<std::string> uuids,
              std::chrono::milliseconds interval);
  ~NvmlSampler();
  NvmlSampler(const NvmlSampler&) = delete;
  NvmlSampler& operator=(const NvmlSampler&) = delete;
  /// Readable when a sample waits; -1 where nothing is sampled, also (after a take()) when the
  /// driver failed.
  [[nodiscard]] int descriptor() const;
  /// The samples since the last call, oldest first, each of one device, because none waits for
  /// another; never blocks.
  [[nodiscard]] std::vector<DeviceSample> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth::inventory
