// The doctor's questions to NVIDIA's driver that nobody else asks. A child of its own, beside the
// one that reads devices: one thread a device, each answer on its way as soon as it is there, and
// what has not come by the deadline is not known. It only reads.
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
  std::string pci_address;  // "0000:81:00.0"; "" the driver did not say
  nvml::Details answers;
  /// NVML_P2P_STATUS_… with every device after this one; nullopt: it did not say.
  std::vector<std::optional<std::uint64_t>> peers;
};
struct NvmlDetails {
  bool complete = false;                              // every device has answered
  std::optional<nvml::Confidential> confidential;     // nullopt: no answer
  std::vector<std::optional<DeviceDetails>> devices;  // by the driver's index
};

class NvmlDetailsAsked {
 public:
  /// Forks and starts to ask; best called while this process has one thread.
  explicit NvmlDetailsAsked(const std::string& library);
  /// Ends the child, if it can die.
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
