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

/// The device's index in the region; -1: it has no limit. A part of a device has the index of the
/// whole device.
[[nodiscard]] int place_of(DeviceId device);
/// The queue's device; -1: it has no limit.
[[nodiscard]] int place_of_queue(Queue queue);
/// A set of places in the region, one bit each: the limited devices of a context.
using Places = std::uint32_t;
[[nodiscard]] Places places_of(Context context);
/// The extension's function of this name from the platform of the context's first device; nullptr:
/// not known.
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
/// Call it after the driver's function. `event` has a reference for the guard; nullptr: the driver
/// refused the command.
void command_sent(Command* command, Queue queue, Event event);
/// Does not use the times of the command's event, because they are not the times of its work. Call
/// this before the driver's function.
void ignore_times(Command* command);
/// In a child after fork().
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
  /// See ignore_times().
  void ignore_event_times() {
    if (command_ != nullptr) ignore_times(command_);
  }
  /// Call it after the driver's function, once.
  void sent(bool is_sent);

 private:
  int place_;
  Queue queue_;
  Command* command_ = nullptr;  // the job has a share
  Event own_ = nullptr;
  Event* event_ = nullptr;
};
/// In a child after fork().
void forget_time();
/// What the program should call instead of an extension's function.
[[nodiscard]] void* instead_of(const char* name, void* function);
/// Like instead_of(), for functions that send commands.
[[nodiscard]] void* instead_of_command(const char* name, void* function);
/// In a child after fork().
void forget_command_buffers();
[[nodiscard]] bool is_same(const char* a, const char* b);

}  // namespace berth::guard::cl
