// The guard as an OpenCL layer: the loader (libOpenCL.so.1) loads it with OPENCL_LAYERS and passes
// every call through it. It charges memory to the job's quota, and counts work.
#pragma once

#include "preload/opencl/abi.hpp"
#include "preload/region.hpp"

namespace berth::guard::cl {

using namespace berth::opencl;

/// The layer's wrappers.
#define HOOK(result, name, parameters) result name parameters;
#include "preload/opencl/hooks.inc"
#undef HOOK

/// The functions behind this layer; nullptr: the loader or driver lacks it.
namespace real {
#define HOOK(result, name, parameters) extern decltype(&cl::name) name;
#include "preload/opencl/hooks.inc"
#undef HOOK
#define CALL(result, name, parameters) extern result(*name) parameters;
#include "preload/opencl/calls.inc"
#undef CALL
}  // namespace real

/// The device's index in the region (the memory shared with `berth run`); -1: it has no limit. A
/// part of a device has the index of the whole device.
[[nodiscard]] int place_of(DeviceId device);
/// The index in the region of the queue's device; -1: the device has no limit.
[[nodiscard]] int place_of_queue(Queue queue);
/// A set of limited devices, with one bit for the index of each in the region.
using Places = std::uint32_t;
[[nodiscard]] Places places_of(Context context);
/// Finds the extension's function of this name. Asks the platform of the context's first device.
/// nullptr: not known.
[[nodiscard]] void* extension_of(Context context, const char* name);
/// The events that a command waits for.
struct WaitList {
  Uint count;
  const Event* events;
};
struct Command;
/// Whether the job's processes take turns on the device.
[[nodiscard]] bool has_share(int place);
/// Waits until the job may send a command. nullptr: the command cannot be counted.
[[nodiscard]] Command* begin_command(int place, Queue queue, const WaitList& wait_for);
/// Call it after the driver's function. The guard owns a reference to `event`. If `event` is
/// nullptr, the driver has refused the command.
void command_sent(Command* command, Queue queue, Event event);
/// Does not use the times of the command's event, because they are not the times of its work. Call
/// this before the driver's function.
void ignore_times(Command* command);
/// Call it in a child after fork(). It forgets the parent's commands.
void forget_shares();

/// Counts the device time of a command that is being sent. If the program requests no event for the
/// command, the guard requests one. If the job has a share, first waits until the command may be
/// sent.
class Timed {
 public:
  /// `place`: the index of the device in the region; -1: not counted. `event`: the argument of the
  /// driver's function.
  Timed(int place, Queue queue, const WaitList& wait_for, Event*& event);
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  /// Call it before the driver's function, if the times of the command's event are not the times of
  /// its work.
  void ignore_event_times() {
    if (command_ != nullptr) ignore_times(command_);
  }
  /// Call it once, after the driver's function. `is_sent`: whether the driver took the command.
  void sent(bool is_sent);

 private:
  int place_;
  Queue queue_;
  Command* command_ = nullptr;  // set only if the job has a share
  Event own_ = nullptr;
  Event* event_ = nullptr;
};
/// Call it in a child after fork(). It forgets the parent's commands.
void forget_time();
/// What the program should call instead of an extension's function.
[[nodiscard]] void* instead_of(const char* name, void* function);
/// What the program should call instead of an extension's function that sends commands.
[[nodiscard]] void* instead_of_command(const char* name, void* function);
/// Call it in a child after fork(). It forgets the parent's command buffers.
void forget_command_buffers();
[[nodiscard]] bool is_same(const char* a, const char* b);

}  // namespace berth::guard::cl
