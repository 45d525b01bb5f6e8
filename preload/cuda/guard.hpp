// The guard: a library that `berth run` preloads into a job. It wraps the CUDA driver, counts the
// job's device memory and time, and limits both to what the job was given. It needs only libc. If
// anything in it fails, it lets the program continue and reports that.
#pragma once

#include "preload/ledger.hpp"
#include "vendor/cuda/abi.hpp"

namespace berth::guard {

/// A driver function that the guard wraps.
struct Hook {
  const char* name;
  void* wrapper;
  void** real;
};
[[nodiscard]] const Hook* hooks(std::size_t& count);
[[nodiscard]] const Hook* hook_named(const char* name);
/// What the program should call for the driver's `function`: its wrapper, or `function` itself.
[[nodiscard]] void* instead_of(void* function);
/// Finds the driver's functions; false without a driver.
[[nodiscard]] bool load_driver();
/// What the program should call for NVML's `function`: its wrapper, or `function` itself. `caller`:
/// an address in the code that asks.
[[nodiscard]] void* instead_of_nvml(const char* name, void* function, const void* caller);
/// libc's own dlsym.
[[nodiscard]] void* libc_dlsym(void* library, const char* name);
/// A driver function that the guard calls but does not wrap.
[[nodiscard]] void* driver_function(const char* name);

/// The device's index in the region (the memory shared with `berth run`); -1: it has no limit.
[[nodiscard]] int place_of(CUdevice device);
/// The device of this thread's context, and the context; {-1, nullptr}: there is none.
struct Here {
  CUdevice device;
  CUcontext context;
};
[[nodiscard]] Here here();

[[nodiscard]] CUcontext current_context();

/// Call begin_work() before work is sent to the current context's device, and end_work() after it
/// was sent. `at`: the result of begin_work().
[[nodiscard]] int begin_work(CUstream stream);
void end_work(int at, Work work, std::uint64_t bytes);
/// Call it when a context was destroyed: its address may be reused.
void forget_contexts();
/// Call these in a child after fork(), because turns, memory and graphs belong to the parent.
void forget_turns();
void forget_memory();
void forget_graphs();
/// Whether work on this stream is captured into a graph. Such work is not sent yet, and recording
/// our events would break the capture.
[[nodiscard]] bool is_captured(CUstream stream);
/// In functions *_ptsz and *_ptds, a null stream means the thread's default stream.
[[nodiscard]] inline CUstream per_thread(CUstream stream) {
  return stream == nullptr ? reinterpret_cast<CUstream>(2) : stream;
}
/// Call it when graphs may have lost memory, because their contexts or addresses were freed.
void recount_graphs();
/// How much managed memory the driver was asked to move to the device, and in how many calls.
struct Moved {
  std::uint64_t bytes, calls;
};
/// Asks the driver to move the job's memory beyond the quota to the device: the largest allocations
/// first, and at most `most` bytes.
[[nodiscard]] Moved move_to_device(int place, CUdevice device, std::uint64_t most, CUstream stream);
void tell_device_full(int place, std::uint64_t bytes);
/// Call them around a call in which the program waits for its work. Meanwhile, another job may take
/// the device.
void begin_wait();
void end_wait();

}  // namespace berth::guard
