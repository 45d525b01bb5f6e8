// What the doctor asks of a GPU beyond its readings: states that keep it from being used, or slow
// it. Nothing is ever set. Plain bytes, because they cross a pipe from a child that a driver may
// have scribbled over.
#pragma once

#include <cstdint>

#include "vendor/nvml/value.hpp"

namespace berth::nvml {

/// What a call returned; `value` means something for NVML_SUCCESS alone.
struct Answer {
  std::uint32_t code = NVML_ERROR_FUNCTION_NOT_FOUND;
  std::uint64_t value = 0;

  [[nodiscard]] bool ok() const { return code == NVML_SUCCESS; }
  /// The GPU or the driver has no such thing.
  [[nodiscard]] bool has_none() const {
    return code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_FUNCTION_NOT_FOUND;
  }
};

struct Details {
  Answer domain, bus, slot;                             // where it is on the bus
  Answer fabric;                                        // NVML_GPU_FABRIC_STATE_…
  Answer fabric_status;                                 // of the registration
  Answer virtualization;                                // NVML_GPU_VIRTUALIZATION_MODE_…
  Answer unlicensed;                                    // enabled features without a licence
  Answer bar1_bytes;                                    //
  Answer display_active;                                //
  Answer retired_pages_pending;                         //
  Answer power_limit_default;                           // milliwatts
  Answer clock_application, clock_application_default;  // MHz, of the graphics clock
};
[[nodiscard]] Details read_details(Look& look);

/// Of the driver as a whole.
struct Confidential {
  Answer on, ready;
};
[[nodiscard]] Confidential read_confidential(const Api& api);

/// NVML_P2P_STATUS_… of the worse direction.
[[nodiscard]] Answer read_peer(Look& look, nvmlDevice_t other);

}  // namespace berth::nvml
