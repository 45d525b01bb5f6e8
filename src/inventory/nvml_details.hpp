// Reads values from NVIDIA's driver that only `berth doctor` needs. A separate child runs one
// thread per device and sends each answer immediately. Values that arrive after the deadline are
// unknown. Changes nothing on the devices.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "vendor/nvml/details.hpp"

namespace berth::inventory {

struct DeviceDetails {
  std::string pci_address;  // such as "0000:81:00.0"; "": unknown
  nvml::Details answers;
  /// NVML_P2P_STATUS_… between this device and each later one; nullopt: unknown
  std::vector<std::optional<std::uint64_t>> peers;
};
struct NvmlDetails {
  bool complete = false;                           // every device has answered
  std::optional<nvml::Confidential> confidential;  // nullopt: the driver gave no answer
  std::vector<std::optional<DeviceDetails>>
      devices;  // details of each device, by the driver's index
};

class NvmlDetailsAsked {
 public:
  /// Forks a child and starts reading. If possible, call this while the process has only one
  /// thread.
  explicit NvmlDetailsAsked(const std::string& library);
  /// Kills the child. If it is stuck in the kernel, does not wait for its end.
  ~NvmlDetailsAsked();
  NvmlDetailsAsked(const NvmlDetailsAsked&) = delete;
  NvmlDetailsAsked& operator=(const NvmlDetailsAsked&) = delete;

  [[nodiscard]] NvmlDetails finish(std::chrono::milliseconds deadline);

 private:
  std::chrono::steady_clock::time_point start_;
  pid_t child_ = -1;
  Descriptor pipe_;
};

}  // namespace berth::inventory
