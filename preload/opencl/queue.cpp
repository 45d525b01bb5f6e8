// Queues of jobs with a share measure their commands (CL_QUEUE_PROFILING_ENABLE). The program does
// not see it: the queue's properties and the times of its commands are as without the guard.
#include <string.h>

#include "preload/opencl/gate.hpp"
#include "wire/address_table.hpp"

namespace berth::guard::cl {
namespace {

/// How the program created a queue that measures only because of the guard.
struct Asked {
  // length of the program's list of properties, with the 0 at the end; 0: there was no list
  Uint words;
  bool has_flags;  // CL_QUEUE_PROPERTIES is in the list
};
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
/// The queues that the guard changed, by address. A later queue may reuse the address, so each
/// creation adds or removes an entry.
constinit berth::wire::AddressTable<Asked> g_queues;

constexpr Uint kMostWords = 64;

bool is_measured_by_us(Queue queue, Asked& asked) {
  const Locked lock(g_lock);
  const Asked* found = g_queues.find(key_of(queue));
  if (found != nullptr) asked = *found;
  return found != nullptr;
}
bool remember(Queue queue, const Asked& asked) {
  const Locked lock(g_lock);
  return g_queues.put(key_of(queue), asked);
}
Queue forget(Queue queue) {
  const Locked lock(g_lock);
  Asked asked = {};
  if (queue != nullptr) g_queues.take(key_of(queue), asked);
  return queue;
}

/// Creates the queue. If the job has a share on the device, the queue measures its commands. If
/// not, it is created as the program requested.
template <typename WithTimes, typename Plain>
Queue create(DeviceId device, bool has_times, const Asked& asked, Int* error,
             WithTimes&& with_times, Plain&& plain) {
  if (!has_times && has_share(place_of(device))) {
    Int result = kSuccess;
    const Queue queue = with_times(&result);
    if (queue != nullptr) {
      // If there is no memory for the entry, the program sees that the queue measures its commands.
      static_cast<void>(remember(queue, asked));
      if (error != nullptr) *error = result;
      return queue;
    }
  }
  return forget(plain(error));
}

/// Answers the program's query. Fails if the program's buffer is too small.
Int answer(const void* value, std::size_t bytes, std::size_t room, void* into, std::size_t* size) {
  if (into != nullptr && room < bytes) return kInvalidValue;
  if (into != nullptr) memcpy(into, value, bytes);
  if (size != nullptr) *size = bytes;
  return kSuccess;
}

}  // namespace

Queue clCreateCommandQueue(Context context, DeviceId device, Flags flags, Int* error) {
  return create(
      device, (flags & kQueueProfilingEnable) != 0, {0, true}, error,
      [&](Int* result) {
        return real::clCreateCommandQueue(context, device, flags | kQueueProfilingEnable, result);
      },
      [&](Int* result) { return real::clCreateCommandQueue(context, device, flags, result); });
}

Queue clCreateCommandQueueWithProperties(Context context, DeviceId device, const Flags* properties,
                                         Int* error) {
  Flags all[kMostWords + 3] = {};
  Asked asked = {};
  Flags flags = 0;
  Uint at = 0;
  for (; properties != nullptr && at < kMostWords && properties[at] != 0; at += 2) {
    all[at] = properties[at];
    all[at + 1] = properties[at + 1];
    if (properties[at] != kQueueProperties) continue;
    flags |= properties[at + 1];
    all[at + 1] |= kQueueProfilingEnable;
    asked.has_flags = true;
  }
  asked.words = properties == nullptr ? 0 : at + 1;
  if (!asked.has_flags) {
    all[at] = kQueueProperties;
    all[at + 1] = kQueueProfilingEnable;
  }
  // Do not change a queue that is on the device itself, because the program does not send commands
  // to such a queue.
  const bool is_left = at >= kMostWords || (flags & (kQueueProfilingEnable | kQueueOnDevice)) != 0;
  return create(
      device, is_left, asked, error,
      [&](Int* result) {
        return real::clCreateCommandQueueWithProperties(context, device, all, result);
      },
      [&](Int* result) {
        return real::clCreateCommandQueueWithProperties(context, device, properties, result);
      });
}

Int clGetCommandQueueInfo(Queue queue, Uint key, std::size_t room, void* value, std::size_t* size) {
  Asked asked = {};
  if ((key != kQueueProperties && key != kQueuePropertiesArray) || !is_measured_by_us(queue, asked))
    return real::clGetCommandQueueInfo(queue, key, room, value, size);
  Flags all[kMostWords + 3] = {};
  std::size_t bytes = 0;
  const Int result = real::clGetCommandQueueInfo(queue, key, sizeof(all), all, &bytes);
  if (result != kSuccess) return result;
  if (key == kQueueProperties) {
    all[0] &= ~kQueueProfilingEnable;
    return answer(all, sizeof(all[0]), room, value, size);
  }
  for (Uint i = 0; i + 1 < bytes / sizeof(all[0]) && all[i] != 0; i += 2)
    if (all[i] == kQueueProperties) all[i + 1] &= ~kQueueProfilingEnable;
  // The guard has added its own pair of properties at the end, so cut it off.
  if (!asked.has_flags && asked.words > 0) all[asked.words - 1] = 0;
  return answer(all, asked.words * sizeof(all[0]), room, value, size);
}

Int clGetEventProfilingInfo(Event event, Uint key, std::size_t room, void* value,
                            std::size_t* size) {
  Asked asked = {};
  Queue queue = nullptr;
  const bool is_ours =
      region() != nullptr && real::clGetEventInfo != nullptr &&
      real::clGetEventInfo(event, kEventQueue, sizeof(queue), &queue, nullptr) == kSuccess &&
      is_measured_by_us(queue, asked);
  return is_ours ? kProfilingInfoNotAvailable
                 : real::clGetEventProfilingInfo(event, key, room, value, size);
}

/// Call it in a forked child, which has none of the parent's queues.
void forget_queues() {
  g_queues = {};
  make_fresh(g_lock);
}

}  // namespace berth::guard::cl
