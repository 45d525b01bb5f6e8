// What the driver's own library answered in a child with a deadline. A static scan does not query
// it; then every fact here is unreadable with error 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// One GPU, as NVML reports it.
struct GpuAnswer {
  std::string pci_address;
  Fact<int> error;    // NVML's code if the GPU returns an error (15: lost); absent: none
  Fact<bool> silent;  // it was queried and did not answer in time
  Fact<std::string> name, uuid;
  Fact<std::string> compute_capability;  // "8.6"
  Fact<std::uint64_t> memory_total_bytes, memory_used_bytes;
  Fact<std::uint64_t> processes_memory_bytes;  // sum over the listed processes
  Fact<double> utilization_percent;
  Fact<std::string> compute_mode;  // "default", "exclusive process", "prohibited"
  Fact<bool> persistence;
  Fact<bool> mig_enabled, mig_pending;           // current mode, and mode after the next reset
  Fact<std::vector<std::string>> mig_instances;  // uuids
  Fact<std::vector<std::string>> throttle;       // "hw_thermal", "sw_power_cap", …
  Fact<std::uint64_t> ecc_uncorrected;           // volatile counter
  Fact<bool> remap_pending, remap_failed, retired_pages_pending;
  Fact<std::uint64_t> power_limit_milliwatts, power_limit_default_milliwatts;
  Fact<std::uint64_t> clock_graphics_locked_mhz, clock_graphics_max_mhz;
  Fact<std::uint64_t> bar1_bytes;
  Fact<bool> display_active;
  Fact<std::string> vgpu_licence;  // "licensed", "unlicensed"; absent: no vGPU
  Fact<std::string> fabric_state;  // "completed", "in progress", "not started"; absent: no fabric
  Fact<bool> cc_ready;             // confidential computing; absent: off
};

struct DriverAnswers {
  /// Berth's error id if the library does not answer at all ("E0302": it cannot be loaded);
  /// otherwise absent.
  Fact<std::string> failure;
  Fact<int> nvml_init;             // NVML's code, 0: success; absent: no libnvidia-ml.so.1
  Fact<std::string> nvml_message;  // NVML's message ("Driver/library version mismatch")
  Fact<std::string> driver_version;
  Fact<std::string> cuda_version;  // the highest supported version: "12.2"
  Fact<std::vector<GpuAnswer>> gpus;
  Fact<int> cuda_init;  // result of cuInit(0); absent: no libcuda.so.1
  Fact<std::vector<std::string>> peer_pairs_unsupported;  // "0-1"
};

}  // namespace berth::doctor
