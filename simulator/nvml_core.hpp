// Internals of the simulated driver. C++20 without libstdc++: the library is loaded into other
// programs, so it may need only libc, and must not throw, allocate per call, or print.
#pragma once

#include "simulator/nvml_names.hpp"
#include "vendor/nvml/abi.hpp"
#include "wire/sim_cuda.hpp"
#include "wire/sim_load.hpp"
#include "wire/sim_mig.hpp"

/// A handle is an address that is looked up before use, so a wrong handle causes INVALID_ARGUMENT
/// instead of a crash.
struct nvmlDevice_st {
  std::uint32_t device;     // index in the state
  std::uint32_t partition;  // position in the device's list of partitions in the machine file, or
                            // kFirstMade + index in wire::MigDevice; kNone: the device itself
};

namespace berth::simulator {

namespace wire = berth::wire::sim;

/// CLOCK_MONOTONIC in nanoseconds.
[[nodiscard]] std::uint64_t clock_now();

/// Positions from this number on are partitions that programs made. Smaller positions are
/// partitions of the machine file.
inline constexpr std::uint32_t kFirstMade = 0x1000;

#define NVML(name) extern "C" __attribute__((visibility("default"))) nvmlReturn_t name

/// What a call requires of a device.
struct Ask {
  // a device without this ability returns NOT_SUPPORTED; kAbilities: no ability is required
  std::uint32_t ability = wire::kAbilities;
  bool identity =
      false;  // the value comes from the driver's memory, so the call also works on a hung device
  bool partitions = false;  // the call is also allowed for a MIG device
};
inline constexpr Ask kIdentity{wire::kAbilities, true, false};
inline constexpr Ask kIdentityOfAny{wire::kAbilities, true, true};
inline constexpr Ask kPlain{};

/// A partition of the machine file, or one that a program made.
[[nodiscard]] wire::Partition partition_of(std::uint32_t device, std::uint32_t position);

/// One call to the driver: counts it, and decides whether it may continue.
class Call {
 public:
  /// For a call that concerns no single device.
  explicit Call(Function function, bool arguments_ok = true);
  Call(Function function, nvmlDevice_t handle, bool arguments_ok, Ask ask = kPlain);

  [[nodiscard]] bool ok() const { return result_ == NVML_SUCCESS; }
  [[nodiscard]] nvmlReturn_t result() const { return result_; }
  [[nodiscard]] std::uint64_t now() const { return now_; }
  [[nodiscard]] const wire::Device& device() const;
  [[nodiscard]] std::uint32_t number() const { return handle_->device; }
  [[nodiscard]] std::uint32_t partition() const { return handle_->partition; }
  [[nodiscard]] bool on_partition() const { return handle_->partition != wire::kNone; }
  [[nodiscard]] wire::Partition partition_info() const {
    return partition_of(number(), partition());
  }
  [[nodiscard]] wire::Moment moment() const;

 private:
  void begin(Function function, bool arguments_ok);
  void apply_faults(const Ask& ask);

  nvmlDevice_t handle_ = nullptr;
  nvmlReturn_t result_ = NVML_SUCCESS;
  std::uint64_t now_ = 0;
};

/// Counts the call, and returns from the function if the call may not continue.
#define ENTER(name, ...)                    \
  const Call call(f_##name, ##__VA_ARGS__); \
  if (!call.ok()) return call.result()

[[nodiscard]] const wire::View& view();
/// The shared table of partitions that programs made; nullptr if programs cannot make any.
[[nodiscard]] wire::MigShared* mig_region();
/// Whether there is a GPU instance at this index of the table, and it has a compute instance.
[[nodiscard]] bool is_made(std::uint32_t device, std::uint32_t place);
/// The shared memory with the CUDA use of all programs in the simulation. nullptr if CUDA is not
/// simulated.
[[nodiscard]] wire::CudaShared* cuda_region();
/// Calls visit(pid, bytes) for each program that uses CUDA on this device. They use the whole
/// device, never a MIG partition.
template <typename Visit>
void for_cuda_users(std::uint32_t device, Visit visit) {
  wire::CudaShared* region = cuda_region();
  if (region == nullptr || device >= wire::kCudaDevices) return;
  const wire::CudaLock lock(*region);
  wire::bury_now_and_then(*region, clock_now());
  for (std::uint32_t i = 0; i < region->processes; ++i) {
    const wire::CudaProcess& process = region->process[i];
    if (process.contexts[device] > 0) visit(process.pid, process.used[device]);
  }
}
/// Calls visit(pid, percent) for each program with kernels on the device in the newest sample
/// period.
template <typename Visit>
void for_cuda_shares(std::uint32_t device, Visit visit) {
  wire::CudaShared* region = cuda_region();
  if (region == nullptr || device >= wire::kCudaDevices) return;
  const wire::CudaLock lock(*region);
  const std::uint64_t now = clock_now();
  wire::bury_now_and_then(*region, now);
  wire::work_until(*region, device, now);
  for (std::uint32_t i = 0; i < region->processes; ++i) {
    const wire::CudaProcess& process = region->process[i];
    const std::uint32_t percent = wire::cuda_utilization(process.queue[device].samples, now);
    if (process.pid != 0 && percent > 0) visit(process.pid, percent);
  }
}
/// Percent of the newest sample period in which programs of the simulated CUDA worked on the
/// device.
[[nodiscard]] inline std::uint32_t cuda_utilization(std::uint32_t device) {
  wire::CudaShared* region = cuda_region();
  if (region == nullptr || device >= wire::kCudaDevices) return 0;
  const wire::CudaLock lock(*region);
  const std::uint64_t now = clock_now();
  wire::bury_now_and_then(*region, now);
  wire::work_until(*region, device, now);
  return wire::cuda_utilization(region->device[device].samples, now);
}
/// Nanoseconds since `berth sim` started. If an option sets a fixed time: that time.
[[nodiscard]] std::uint64_t now();
void sleep_for(std::uint64_t nanoseconds);
/// Never returns: blocks until the process ends.
void hang();
[[nodiscard]] bool same(const char* a, const char* b);
/// Copies the text with its terminator. Returns INSUFFICIENT_SIZE if it does not fit.
[[nodiscard]] nvmlReturn_t put_text(const char* from, char* into, std::uint32_t size);
/// The handle of an existing device or partition.
[[nodiscard]] nvmlDevice_t handle_of(std::uint32_t device, std::uint32_t partition = wire::kNone);
/// The number of NVIDIA devices, in the driver's order.
[[nodiscard]] std::uint32_t nvidia_devices();
/// Counts a wake-up if the device is asleep.
void touch(std::uint32_t device);
[[nodiscard]] nvmlReturn_t initialise(Function function, std::uint32_t flags);
[[nodiscard]] nvmlReturn_t shut_down();
/// The result of a function that is not simulated.
[[nodiscard]] nvmlReturn_t not_modelled(Function function);

}  // namespace berth::simulator
