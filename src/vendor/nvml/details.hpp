// Driver values that only the doctor reads: states that make a GPU unusable or slow. Never changes
// a setting. The structs are plain bytes, because they are sent through a pipe by a child process
// whose memory a driver may have corrupted.
#pragma once

#include <cstdint>

#include "vendor/nvml/value.hpp"

namespace berth::nvml {

/// The result of a call; `value` is valid only with NVML_SUCCESS.
struct Answer {
  std::uint32_t code = NVML_ERROR_FUNCTION_NOT_FOUND;
  std::uint64_t value = 0;

  [[nodiscard]] bool ok() const { return code == NVML_SUCCESS; }
  /// Whether the GPU or the driver does not support this.
  [[nodiscard]] bool has_none() const {
    return code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_FUNCTION_NOT_FOUND;
  }
};

struct Details {
  Answer domain, bus, slot;      // PCI location
  Answer fabric;                 // NVML_GPU_FABRIC_STATE_…
  Answer fabric_status;          // result of the registration with the fabric
  Answer virtualization;         // NVML_GPU_VIRTUALIZATION_MODE_…
  Answer unlicensed;             // number of features that are enabled without a licence
  Answer bar1_bytes;             //
  Answer display_active;         //
  Answer retired_pages_pending;  //
  Answer power_limit_default;    // milliwatts
  Answer clock_application, clock_application_default;  // graphics clock in MHz
};
[[nodiscard]] Details read_details(Look& look);

/// State of the driver as a whole.
struct Confidential {
  Answer on, ready;
};
[[nodiscard]] Confidential read_confidential(const Api& api);

/// The peer-to-peer status of two devices (NVML_P2P_STATUS_…), for the worse of the two directions.
[[nodiscard]] Answer read_peer(Look& look, nvmlDevice_t other);

}  // namespace berth::nvml
