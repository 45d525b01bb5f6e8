// Driver values that only `berth doctor` reads: states that make a GPU unusable or slow. Never
// changes a setting. A child process, whose memory the driver may have corrupted, sends these
// structs through a pipe. So they are plain bytes.
#pragma once

#include <cstdint>

#include "vendor/nvml/value.hpp"

namespace berth::nvml {

/// The result of a driver call. `value` is valid only if `code` is NVML_SUCCESS.
struct Answer {
  std::uint32_t code = NVML_ERROR_FUNCTION_NOT_FOUND;
  std::uint64_t value = 0;

  [[nodiscard]] bool ok() const { return code == NVML_SUCCESS; }
  /// Whether the GPU or the driver does not support this call.
  [[nodiscard]] bool has_none() const {
    return code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_FUNCTION_NOT_FOUND;
  }
};

struct Details {
  Answer domain, bus, slot;      // numbers of the PCI address
  Answer fabric;                 // NVML_GPU_FABRIC_STATE_…
  Answer fabric_status;          // result of the registration with the NVLink fabric
  Answer virtualization;         // NVML_GPU_VIRTUALIZATION_MODE_…
  Answer unlicensed;             // number of features that are enabled without a licence
  Answer bar1_bytes;             //
  Answer display_active;         //
  Answer retired_pages_pending;  //
  Answer power_limit_default;    // milliwatts
  Answer clock_application, clock_application_default;  // graphics clock in MHz
};
[[nodiscard]] Details read_details(Look& look);

/// Confidential computing: a state of the driver, not of a device.
struct Confidential {
  Answer on, ready;
};
[[nodiscard]] Confidential read_confidential(const Api& api);

/// Returns the peer-to-peer status of two devices (NVML_P2P_STATUS_…). If the two directions
/// differ, returns the worse one.
[[nodiscard]] Answer read_peer(Look& look, nvmlDevice_t other);

}  // namespace berth::nvml
