// Events: a program waits for faults. The Xid faults of the machine file occur at their configured
// times. Real NVML does not report what occurred before a program registered. The simulator does
// report a fault that no program has received yet, so that it does not matter when the first
// program starts.
#include <stdlib.h>

#include "simulator/nvml_core.hpp"

struct nvmlEventSet_st {
  std::uint64_t wanted[berth::wire::sim::kMaxDevices];
  // when the set was registered for each device, as a number from Shared::xid_order
  std::uint64_t registered[berth::wire::sim::kMaxDevices];
  // one bit for each fault in the state; 1: this set has reported the fault
  std::uint64_t delivered;
};
static_assert(berth::wire::sim::kMaxFaults <= 64);

using namespace berth::simulator;

namespace {

constexpr std::uint64_t kKnownEvents = NVML_EVENT_SINGLE_BIT_ECC | NVML_EVENT_DOUBLE_BIT_ECC |
                                       NVML_EVENT_PSTATE | NVML_EVENT_XID | NVML_EVENT_CLOCK;

struct Next {
  std::uint32_t fault = wire::kNone, device = 0;
  std::uint64_t time = 0;
};

/// Increments Shared::xid_order and returns it. Returns 0 if there is no shared memory.
std::uint64_t next_number() {
  wire::Shared* const shared = view().shared();
  return shared == nullptr ? 0 : __atomic_add_fetch(&shared->xid_order, 1, __ATOMIC_SEQ_CST);
}

/// True if another program received this Xid before the set was registered for the device.
bool is_past(const nvmlEventSet_st& set, std::uint32_t fault, std::uint32_t device) {
  wire::Shared* const shared = view().shared();
  if (shared == nullptr) return false;
  const std::uint64_t taken = __atomic_load_n(&shared->xid_taken[fault], __ATOMIC_SEQ_CST);
  return taken != 0 && taken < set.registered[device];
}

void note_taken(std::uint32_t fault) {
  wire::Shared* const shared = view().shared();
  if (shared == nullptr) return;
  std::uint64_t none = 0;
  __atomic_compare_exchange_n(&shared->xid_taken[fault], &none, next_number(), false,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/// The earliest Xid for which the set was registered and which it has not yet received.
Next next_event(const nvmlEventSet_st& set) {
  Next next;
  for (std::uint32_t i = 0; i < view().state().faults; ++i) {
    const wire::Fault& fault = view().fault(i);
    if (fault.kind != wire::kXid || (set.delivered >> i & 1U) != 0) continue;
    for (std::uint32_t d = 0; d < view().state().devices; ++d) {
      const bool concerned = fault.device == d || fault.device == wire::kNone;
      if (!concerned || (set.wanted[d] & NVML_EVENT_XID) == 0 || is_past(set, i, d)) continue;
      if (next.fault == wire::kNone || fault.from < next.time) next = {i, d, fault.from};
    }
  }
  return next;
}

nvmlReturn_t wait(const Call& call, nvmlEventSet_st* set, std::uint32_t timeout_ms, Next* event) {
  if (!call.ok()) return call.result();
  const std::uint64_t end = call.now() + timeout_ms * wire::kMillisecond;
  *event = next_event(*set);
  const bool frozen = view().state().frozen >= 0;
  const bool comes = event->fault != wire::kNone && event->time <= (frozen ? call.now() : end);
  if (comes && event->time > call.now()) sleep_for(event->time - call.now());
  if (!comes) sleep_for(timeout_ms * wire::kMillisecond);
  if (!comes) return NVML_ERROR_TIMEOUT;
  set->delivered |= std::uint64_t{1} << event->fault;
  note_taken(event->fault);
  return NVML_SUCCESS;
}

}  // namespace

NVML(nvmlEventSetCreate)(nvmlEventSet_t* set) {
  ENTER(nvmlEventSetCreate, set != nullptr);
  *set = static_cast<nvmlEventSet_t>(calloc(1, sizeof(nvmlEventSet_st)));
  return *set == nullptr ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}
NVML(nvmlEventSetFree)(nvmlEventSet_t set) {
  ENTER(nvmlEventSetFree, set != nullptr);
  free(set);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetSupportedEventTypes)(nvmlDevice_t device, std::uint64_t* types) {
  ENTER(nvmlDeviceGetSupportedEventTypes, device, types != nullptr);
  *types = kKnownEvents;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceRegisterEvents)(nvmlDevice_t device, std::uint64_t types, nvmlEventSet_t set) {
  ENTER(nvmlDeviceRegisterEvents, device, set != nullptr);
  if ((types & ~kKnownEvents) != 0) return NVML_ERROR_NOT_SUPPORTED;
  if ((types & NVML_EVENT_XID) != 0 && set->registered[call.number()] == 0)
    set->registered[call.number()] = next_number();
  set->wanted[call.number()] |= types;
  return NVML_SUCCESS;
}
NVML(nvmlEventSetWait_v2)(nvmlEventSet_t set, nvmlEventData_t* data, std::uint32_t timeout_ms) {
  Next event;
  const nvmlReturn_t result =
      wait(Call(f_nvmlEventSetWait_v2, set != nullptr && data != nullptr), set, timeout_ms, &event);
  if (result != NVML_SUCCESS) return result;
  *data = {handle_of(event.device), NVML_EVENT_XID, view().fault(event.fault).value,
           NVML_VALUE_NOT_AVAILABLE_32, NVML_VALUE_NOT_AVAILABLE_32};
  return NVML_SUCCESS;
}
/// The first version of the function, whose struct ends before the instance ids.
NVML(nvmlEventSetWait)(nvmlEventSet_t set, nvmlEventData_t* data, std::uint32_t timeout_ms) {
  Next event;
  const nvmlReturn_t result =
      wait(Call(f_nvmlEventSetWait, set != nullptr && data != nullptr), set, timeout_ms, &event);
  if (result != NVML_SUCCESS) return result;
  data->device = handle_of(event.device);
  data->eventType = NVML_EVENT_XID;
  data->eventData = view().fault(event.fault).value;
  return NVML_SUCCESS;
}
