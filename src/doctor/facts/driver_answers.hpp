// Answers of NVIDIA's library to calls in a child process, which has a deadline. A static scan does
// not start the child process, so every fact here is then unreadable with error 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// The facts of one GPU, as NVML reports them. Each row has a type, a name, and a message for
/// "could not be read". The list generates the members of GpuAnswer, the keys of driver.json, and
/// the texts of messages.
#define BERTH_GPU_FACTS(FACT)                                                          \
  /* NVML's code if the GPU returns an error (15: lost); absent: none */               \
  FACT(int, error, msgid("whether a GPU answers"))                                     \
  /* it was queried and did not answer in time */                                      \
  FACT(bool, silent, msgid("whether a GPU answers"))                                   \
  FACT(std::string, name, msgid("the GPUs' names"))                                    \
  FACT(std::string, uuid, msgid("the GPUs' names"))                                    \
  /* "8.6" */                                                                          \
  FACT(std::string, compute_capability, msgid("the GPUs' compute capability"))         \
  FACT(std::uint64_t, memory_total_bytes, msgid("the GPUs' memory"))                   \
  FACT(std::uint64_t, memory_used_bytes, msgid("memory that is in use"))               \
  /* sum over the listed processes */                                                  \
  FACT(std::uint64_t, processes_memory_bytes, msgid("GPU memory of each process"))     \
  FACT(double, utilization_percent, msgid("how busy the GPUs are"))                    \
  /* "default", "exclusive process", "prohibited" */                                   \
  FACT(std::string, compute_mode, msgid("the GPUs' compute mode"))                     \
  FACT(bool, persistence, msgid("persistence mode"))                                   \
  /* current mode */                                                                   \
  FACT(bool, mig_enabled, msgid("whether MIG is on"))                                  \
  /* mode after the next reset */                                                      \
  FACT(bool, mig_pending, msgid("whether MIG is on"))                                  \
  /* uuids */                                                                          \
  FACT(std::vector<std::string>, mig_instances, msgid("MIG's instances"))              \
  /* "hw_thermal", "sw_power_cap", … */                                              \
  FACT(std::vector<std::string>, throttle, msgid("what slows the GPUs down"))          \
  /* volatile counter */                                                               \
  FACT(std::uint64_t, ecc_uncorrected, msgid("memory errors of the GPUs"))             \
  FACT(bool, remap_pending, msgid("remapped memory rows"))                             \
  FACT(bool, remap_failed, msgid("remapped memory rows"))                              \
  FACT(bool, retired_pages_pending, msgid("retired memory pages"))                     \
  FACT(std::uint64_t, power_limit_milliwatts, msgid("the GPUs' power limits"))         \
  FACT(std::uint64_t, power_limit_default_milliwatts, msgid("the GPUs' power limits")) \
  FACT(std::uint64_t, clock_graphics_locked_mhz, msgid("locked clocks"))               \
  FACT(std::uint64_t, clock_graphics_max_mhz, msgid("the highest clocks"))             \
  FACT(std::uint64_t, bar1_bytes, msgid("how much of a GPU's memory the host sees"))   \
  FACT(bool, display_active, msgid("whether a GPU drives the desktop"))                \
  /* "licensed", "unlicensed"; absent: no vGPU */                                      \
  FACT(std::string, vgpu_licence, msgid("a vGPU's licence"))                           \
  /* "completed", "in progress", "not started"; absent: no fabric */                   \
  FACT(std::string, fabric_state, msgid("the state of the NVLink fabric"))             \
  /* confidential computing; absent: off */                                            \
  FACT(bool, cc_ready, msgid("confidential computing"))

/// The facts that NVML reports once for the whole driver, with rows as in BERTH_GPU_FACTS.
#define BERTH_DRIVER_FACTS(FACT)                                                              \
  /* Berth's error id if the library does not answer at all ("E0302": it cannot be loaded) */ \
  FACT(std::string, failure, msgid("why the driver does not answer"))                         \
  /* NVML's code, 0: success; absent: no libnvidia-ml.so.1 */                                 \
  FACT(int, nvml_init, msgid("whether NVML can be opened"))                                   \
  /* NVML's message ("Driver/library version mismatch") */                                    \
  FACT(std::string, nvml_message, msgid("why the driver does not answer"))                    \
  FACT(std::string, driver_version, msgid("the driver's version"))                            \
  /* the highest supported version: "12.2" */                                                 \
  FACT(std::string, cuda_version, msgid("the driver's CUDA version"))                         \
  /* result of cuInit(0); absent: no libcuda.so.1 */                                          \
  FACT(int, cuda_init, msgid("the result of CUDA's cuInit()"))                                \
  /* "0-1" */                                                                                 \
  FACT(std::vector<std::string>, peer_pairs_unsupported, msgid("direct transfers between GPUs"))

#define BERTH_FACT(type, key, words) Fact<type> key;

struct GpuAnswer {
  std::string pci_address;
  BERTH_GPU_FACTS(BERTH_FACT)
};

struct DriverAnswers {
  BERTH_DRIVER_FACTS(BERTH_FACT)
  Fact<std::vector<GpuAnswer>> gpus;
};

#undef BERTH_FACT

}  // namespace berth::doctor
