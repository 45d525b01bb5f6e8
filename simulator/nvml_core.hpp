// The simulated driver's inside: what every exported function needs. C++20 without libstdcxx: this
// library is loaded into other people's programs, so it may need nothing but libc, and must not
// throw, allocate per call, or print.
#pragma once

#include "simulator/nvml_names.hpp"
#include "vendor/nvml/abi.hpp"
#include "wire/sim_load.hpp"

/// A handle is an address that can be looked up again, so that a wrong one is INVALID_ARGUMENT and
/// not a crash.
struct nvmlDevice_st {
  std::uint32_t device;     // in the state
  std::uint32_t partition;  // on the device; kNone: the device itself
};

namespace berth::simulator {

namespace wire = berth::wire::sim;

#define NVML(name) extern "C" __attribute__((visibility("default"))) nvmlReturn_t name

/// What a call wants from a device.
struct Ask {
  std::uint32_t ability = wire::kAbilities;  // fails with NOT_SUPPORTED where the device lacks it;
                                             // kAbilities: none needed
  bool identity = false;    // answered from the driver's memory: works on a hung device
  bool partitions = false;  // a MIG device may be asked, too
};
inline constexpr Ask kIdentity{wire::kAbilities, true, false};
inline constexpr Ask kIdentityOfAny{wire::kAbilities, true, true};
inline constexpr Ask kPlain{};

/// One call: counts it, and finds out whether it may go on.
class Call {
 public:
  /// A call that concerns the driver as a whole.
  explicit Call(Function function, bool arguments_ok = true);
  Call(Function function, nvmlDevice_t handle, bool arguments_ok, Ask ask = kPlain);

  [[nodiscard]] bool ok() const { return result_ == NVML_SUCCESS; }
  [[nodiscard]] nvmlReturn_t result() const { return result_; }
  [[nodiscard]] std::uint64_t now() const { return now_; }
  [[nodiscard]] const wire::Device& device() const;
  [[nodiscard]] std::uint32_t number() const { return handle_->device; }
  [[nodiscard]] std::uint32_t partition() const { return handle_->partition; }
  [[nodiscard]] bool on_partition() const { return handle_->partition != wire::kNone; }
  [[nodiscard]] wire::Moment moment() const;

 private:
  void begin(Function function, bool arguments_ok);
  void apply_faults(const Ask& ask);

  nvmlDevice_t handle_ = nullptr;
  nvmlReturn_t result_ = NVML_SUCCESS;
  std::uint64_t now_ = 0;
};

/// `return`s unless the call may go on.
#define ENTER(name, ...)                    \
  const Call call(f_##name, ##__VA_ARGS__); \
  if (!call.ok()) return call.result()

[[nodiscard]] const wire::View& view();
/// Nanoseconds since `berth sim` started, or where its time stands still.
[[nodiscard]] std::uint64_t now();
void sleep_for(std::uint64_t nanoseconds);
/// Blocks until the process ends.
void hang();
[[nodiscard]] bool same(const char* a, const char* b);
/// Copies with the terminator; INSUFFICIENT_SIZE where it does not fit.
[[nodiscard]] nvmlReturn_t put_text(const char* from, char* into, std::uint32_t size);
/// The handle of a device or partition that exists.
[[nodiscard]] nvmlDevice_t handle_of(std::uint32_t device, std::uint32_t partition = wire::kNone);
/// NVIDIA's devices of the machine, as the driver counts them.
[[nodiscard]] std::uint32_t nvidia_devices();
/// Counts that a sleeping device was woken.
void touch(std::uint32_t device);
[[nodiscard]] nvmlReturn_t initialise(Function function, std::uint32_t flags);
[[nodiscard]] nvmlReturn_t shut_down();
/// What a function that is not modelled answers.
[[nodiscard]] nvmlReturn_t not_modelled(Function function);

}  // namespace berth::simulator
