// Functions of extensions that send commands: command buffers (cl_khr_command_buffer), and copies
// of Intel's unified shared memory. Every platform may have its own versions of these functions, so
// the queue decides which version is called.
#include "preload/ledger.hpp"
#include "preload/opencl/layer.hpp"
#include "wire/address_table.hpp"

namespace berth::guard::cl {
namespace {

using CommandBuffer = struct OpaqueCommandBuffer*;

constexpr Int kInvalidOperation = -59, kInvalidCommandBuffer = -1138;

constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
/// The first queue of each command buffer, by the buffer's address. A later command buffer may
/// reuse the address, so each creation replaces the entry.
constinit berth::wire::AddressTable<Queue> g_buffers;

template <typename Function>
Function* of_queue(Queue queue, const char* name) {
  Context context = nullptr;
  if (queue == nullptr || real::clGetCommandQueueInfo == nullptr ||
      real::clGetCommandQueueInfo(queue, kQueueContext, sizeof(context), &context, nullptr) !=
          kSuccess)
    return nullptr;
  return reinterpret_cast<Function*>(extension_of(context, name));
}

/// Sends a command that takes a turn, and counts it.
template <typename Send>
Int send(Queue queue, const WaitList& wait_for, Event*& event, Work work, std::uint64_t bytes,
         Send&& call) {
  const int place = place_of_queue(queue);
  Timed timed(place, queue, wait_for, event);
  // In PoCL, the event of a command buffer has the times of a marker after the buffer's commands.
  if (work == Work::kLaunch) timed.ignore_event_times();
  const Int result = call();
  timed.sent(result == kSuccess);
  if (place >= 0 && result == kSuccess) count_work(counters(place), work, bytes);
  return result;
}

CommandBuffer create_buffer(Uint count, const Queue* queues, const Flags* properties, Int* error) {
  using Function = CommandBuffer(Uint, const Queue*, const Flags*, Int*);
  auto* function = count == 0 || queues == nullptr
                       ? nullptr
                       : of_queue<Function>(queues[0], "clCreateCommandBufferKHR");
  if (function == nullptr) {
    if (error != nullptr) *error = kInvalidValue;
    return nullptr;
  }
  const CommandBuffer made = function(count, queues, properties, error);
  if (made == nullptr) return nullptr;
  const Locked lock(g_lock);
  static_cast<void>(g_buffers.put(key_of(made), queues[0]));
  return made;
}

/// Sends a command buffer. All of its commands count as one command, as a CUDA graph counts as one
/// launch. If its queues are on several devices, it takes a turn only on the first.
Int send_buffer(Uint count, Queue* queues, CommandBuffer buffer, Uint waits, const Event* list,
                Event* event) {
  using Function = Int(Uint, Queue*, CommandBuffer, Uint, const Event*, Event*);
  Queue queue = count > 0 && queues != nullptr ? queues[0] : nullptr;
  if (queue == nullptr) {
    const Locked lock(g_lock);
    const Queue* known = g_buffers.find(key_of(buffer));
    if (known != nullptr) queue = *known;
  }
  auto* function = of_queue<Function>(queue, "clEnqueueCommandBufferKHR");
  if (function == nullptr) return kInvalidCommandBuffer;
  return send(queue, {waits, list}, event, Work::kLaunch, 0,
              [&] { return function(count, queues, buffer, waits, list, event); });
}

Int copy_usm(Queue queue, Uint blocks, void* to, const void* from, std::size_t bytes, Uint waits,
             const Event* list, Event* event) {
  using Function = Int(Queue, Uint, void*, const void*, std::size_t, Uint, const Event*, Event*);
  auto* function = of_queue<Function>(queue, "clEnqueueMemcpyINTEL");
  if (function == nullptr) return kInvalidOperation;
  return send(queue, {waits, list}, event, Work::kCopyOther, bytes,
              [&] { return function(queue, blocks, to, from, bytes, waits, list, event); });
}
Int fill_usm(Queue queue, void* to, const void* pattern, std::size_t size, std::size_t bytes,
             Uint waits, const Event* list, Event* event) {
  using Function =
      Int(Queue, void*, const void*, std::size_t, std::size_t, Uint, const Event*, Event*);
  auto* function = of_queue<Function>(queue, "clEnqueueMemFillINTEL");
  if (function == nullptr) return kInvalidOperation;
  return send(queue, {waits, list}, event, Work::kFill, bytes,
              [&] { return function(queue, to, pattern, size, bytes, waits, list, event); });
}

}  // namespace

void* instead_of_command(const char* name, void* function) {
  if (is_same(name, "clCreateCommandBufferKHR")) return reinterpret_cast<void*>(create_buffer);
  if (is_same(name, "clEnqueueCommandBufferKHR")) return reinterpret_cast<void*>(send_buffer);
  if (is_same(name, "clEnqueueMemcpyINTEL")) return reinterpret_cast<void*>(copy_usm);
  if (is_same(name, "clEnqueueMemFillINTEL")) return reinterpret_cast<void*>(fill_usm);
  return function;
}

/// Call it in a forked child, which has none of the parent's command buffers.
void forget_command_buffers() {
  g_buffers = {};
  make_fresh(g_lock);
}

}  // namespace berth::guard::cl
