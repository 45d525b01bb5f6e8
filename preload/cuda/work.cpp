// Device time. If the job has a share, its processes send work only during their turn on the
// device. Until then, the program's call waits. Work in flight is limited, so that a turn ends soon
// after its quantum: within a fraction of a millisecond or one kernel.
#include "preload/cuda/hooks.hpp"
#include "preload/turns.hpp"

namespace berth::guard {
namespace {

/// kSlowLink: bytes per nanosecond over a slow link. kTurnPerMove: a turn takes at least this many
/// times as long as moving the memory.
constexpr std::uint64_t kSlowLink = 2, kTurnPerMove = 20;

/// The state of this process on one device. Everything except `left` is written with the lock held.
struct Gate {
  Turn turn;
  // 1: the job has a share of the device; -1: it has none; 0: not checked yet
  int state;
  std::int64_t left;       // calls that may be sent before the clock is read again
  std::uint64_t batch;     // number of calls in a batch; the initial value of `left`
  std::uint64_t each;      // estimated duration of a call in nanoseconds; 0: unknown
  std::uint64_t in_batch;  // calls between the events `base` and `mark`
  CUevent base, mark,
      spare;          // the time before `base` is counted; the batch before `mark` may still run
  CUevent tail;       // recorded after everything that was sent before the program began to wait
  CUstream last;      // stream of the newest work
  bool marked, open;  // marked: `mark` is set; open: `base` was recorded
  bool tailed;        // `tail` was recorded and nothing was sent since
  bool fetches;       // another process had the device since our memory was moved there (--spill)
};
constinit Gate g_gates[wire::kMaxDevices] = {};
// number of destroyed contexts; a new context may have the address of a destroyed one
constinit std::uint32_t g_changes = 0;
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

struct Driver {
  CUresult (*event_create)(CUevent*, unsigned);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_elapsed)(float*, CUevent, CUevent);
  CUresult (*event_query)(CUevent);
  CUresult (*is_capturing)(CUstream, int*);
};
const Driver& driver() {
  static const Driver all = {
      reinterpret_cast<decltype(Driver::event_create)>(driver_function("cuEventCreate")),
      reinterpret_cast<decltype(Driver::event_record)>(driver_function("cuEventRecord")),
      reinterpret_cast<decltype(Driver::event_elapsed)>(driver_function("cuEventElapsedTime")),
      reinterpret_cast<decltype(Driver::event_query)>(driver_function("cuEventQuery")),
      reinterpret_cast<decltype(Driver::is_capturing)>(driver_function("cuStreamIsCapturing"))};
  return all;
}

bool make_events(Gate& gate) {
  const Driver& calls = driver();
  if (calls.event_create == nullptr) return false;
  CUevent* const all[] = {&gate.base, &gate.mark, &gate.spare, &gate.tail};
  for (CUevent* event : all)
    if (calls.event_create(event, 0) != CUDA_SUCCESS) return false;
  return true;
}

/// Prepares this process to take turns on the device. Call it with the lock held. False: the job
/// has no share of this device, or the share cannot be enforced.
bool begin_gate(Gate& gate, int at) {
  if (gate.state != 0) return gate.state > 0;
  int state = -1;
  if (takes_turns(region()->limits->device[at])) {
    if (join_turns(gate.turn, at) && make_events(gate)) state = 1;
    if (state < 0) tell_no_turns();
  }
  __atomic_store_n(&gate.state, state, __ATOMIC_RELEASE);
  return state > 0;
}

/// Counts the device's time between `base` and a completed event. Subtracts the last `others`
/// nanoseconds, in which another process had the turn.
std::uint64_t count_until(Gate& gate, int at, CUevent event, std::uint64_t others = 0) {
  float milliseconds = 0;
  if (driver().event_elapsed(&milliseconds, gate.base, event) != CUDA_SUCCESS || milliseconds < 0)
    return 0;
  const auto whole = static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
  const std::uint64_t took = whole > others ? whole - others : 0;
  charge_time(gate.turn, at, took);
  return took;
}

void learn(Gate& gate, std::uint64_t took, std::uint64_t calls) {
  if (took > 0 && calls > 0) gate.each = took / calls + 1;
}

/// The number of calls since `base` was recorded.
std::uint64_t sent_in(const Gate& gate) {
  const std::int64_t left = __atomic_load_n(&gate.left, __ATOMIC_RELAXED);
  const std::uint64_t now = gate.batch - (left > 0 ? static_cast<std::uint64_t>(left) : 0);
  return now + (gate.marked ? gate.in_batch : 0);
}

/// Waits until our work is done, and counts its device time.
void settle(Gate& gate, int at) {
  if (!gate.open) return;
  gate.open = false;
  const bool tailed = gate.tailed;
  gate.tailed = false;
  if (!tailed && driver().event_record(gate.spare, gate.last) != CUDA_SUCCESS) return;
  if (real::cuCtxSynchronize() != CUDA_SUCCESS) return;
  const std::uint64_t sent = sent_in(gate);
  gate.marked = false;
  const std::uint64_t others = tailed ? 0 : since_lost(gate.turn);
  learn(gate, count_until(gate, at, tailed ? gate.tail : gate.spare, others), sent);
}

/// Limits work in flight to two milliseconds or one kernel, which also limits the wait at the end
/// of a turn. A batch's time is counted while the next one runs.
void end_batch(Gate& gate, int at, CUstream stream) {
  if (!gate.open || driver().event_record(gate.spare, stream) != CUDA_SUCCESS) return;
  const CUevent newest = gate.spare;
  if (!gate.marked) {
    gate.spare = gate.mark;
  } else {
    if (real::cuEventSynchronize(gate.mark) != CUDA_SUCCESS) return;
    learn(gate, count_until(gate, at, gate.mark), gate.in_batch);
    gate.spare = gate.base;
    gate.base = gate.mark;
  }
  gate.mark = newest;
  gate.in_batch = gate.batch;
  gate.marked = true;
}

void begin_batch(Gate& gate, std::uint64_t now) {
  const std::uint64_t most = gate.each == 0 ? 1 : kInFlight / 2 / gate.each;
  gate.batch = most == 0 ? 1 : most > 64 ? 64 : most;
  const std::uint64_t lasts = gate.each * 2 > kInFlight ? gate.each * 2 : kInFlight;
  set_busy_until(gate.turn, now + lasts);
  // The current call is the first one of the batch.
  __atomic_store_n(&gate.left, static_cast<std::int64_t>(gate.batch) - 1, __ATOMIC_RELAXED);
}

/// Counts the device's time as ours from now on.
void begin_counting(Gate& gate, CUstream stream) {
  gate.marked = gate.tailed = false;
  gate.open = driver().event_record(gate.base, stream) == CUDA_SUCCESS;
}

/// If the work that was sent before a pause is done, counts its device time without the pause.
void close_pause(Gate& gate, int at, CUstream stream) {
  gate.tailed = false;
  if (driver().event_query == nullptr || driver().event_query(gate.tail) != CUDA_SUCCESS) return;
  learn(gate, count_until(gate, at, gate.tail), sent_in(gate));
  begin_counting(gate, stream);
}

bool spills(int at) {
  return (region()->limits->device[at].flags & wire::kSpill) != 0;
}

/// With --spill, moves our managed memory back to the device. During our turn, other processes
/// pause, so our memory may displace theirs. Returns the length of the turn, which is at least 20
/// times as long as the move. Call it when our work is done.
std::uint64_t fetch_memory(Gate& gate, int at, CUstream stream, std::uint64_t quantum) {
  wire::Counters& own = counters(at);
  gate.fetches = false;
  std::size_t left = 0, total = 0;
  if (wire::read_word(own.spilled) == 0 || real::cuMemGetInfo_v2 == nullptr ||
      real::cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS)
    return quantum;
  begin_counting(gate, stream);
  const Moved moved = move_to_device(at, here().device, left + moved_by_all(gate.turn), stream);
  if (moved.calls == 0) return quantum;
  set_busy_until(gate.turn, clock_now() + moved.bytes / kSlowLink);
  set_moved(gate.turn, moved.bytes, moved.bytes > left);
  gate.open = false;
  if (driver().event_record(gate.spare, stream) != CUDA_SUCCESS ||
      real::cuCtxSynchronize() != CUDA_SUCCESS)
    return quantum;
  const std::uint64_t took = count_until(gate, at, gate.spare);
  count(own.prefetches, moved.calls);
  count(own.prefetched, moved.bytes);
  count(own.prefetching, took);
  return took * kTurnPerMove > quantum ? took * kTurnPerMove : quantum;
}

/// Reads the clock. Decides whether our turn continues, and how many calls may be sent until the
/// next check.
void pass_slowly(Gate& gate, int at, CUstream stream) {
  const Locked lock(g_lock);
  if (!begin_gate(gate, at) || is_captured(stream)) return;
  Turn& turn = gate.turn;
  update_weight(turn, at);
  const bool capped = over_cap(turn, clock_now()) > 0;
  if (capped) {
    settle(gate, at);
    pause_for_cap(turn);
  }
  const bool ours = !capped && turn.ends != 0 && holds(turn);
  std::uint64_t quantum = turn.quantum;
  if (ours && clock_now() < turn.ends && !is_urgent(turn)) {
    if (gate.tailed)
      close_pause(gate, at, stream);
    else
      end_batch(gate, at, stream);
    return begin_batch(gate, clock_now());
  }
  if (!ours || is_wanted(turn)) {
    settle(gate, at);
    if (ours) hand_on(turn, true);
    quantum = wait_for_turn(turn, at);
    if (turn.changed_hands && spills(at)) gate.fetches = true;
  } else if (gate.fetches) {
    settle(gate, at);
  } else if (gate.tailed) {
    close_pause(gate, at, stream);
  } else {
    end_batch(gate, at, stream);
  }
  // A turn is short if we got it only because the holder paused. Do not move memory for such a
  // turn.
  if (gate.fetches && quantum >= turn.quantum) quantum = fetch_memory(gate, at, stream, quantum);
  begin_turn(turn, quantum);
  if (!gate.open) begin_counting(gate, stream);
  begin_batch(gate, clock_now());
}

/// The index of this thread's device in the region; -1: it has no limits.
int place_here() {
  static __thread CUcontext known = nullptr;
  static __thread int place = -1;
  static __thread std::uint32_t at_change = 0;
  if (region() == nullptr) return -1;
  const CUcontext context = current_context();
  const std::uint32_t change = __atomic_load_n(&g_changes, __ATOMIC_ACQUIRE);
  if (context == known && context != nullptr && change == at_change) return place;
  at_change = change;
  place = place_of(here().device);
  known = context;
  return place;
}

}  // namespace

bool is_captured(CUstream stream) {
  int status = 0;
  return stream != nullptr && driver().is_capturing != nullptr &&
         driver().is_capturing(stream, &status) == CUDA_SUCCESS && status != 0;
}

int begin_work(CUstream stream) {
  const int at = place_here();
  if (at < 0) return -1;
  Gate& gate = g_gates[at];
  const int state = __atomic_load_n(&gate.state, __ATOMIC_ACQUIRE);
  if (state < 0) return at;
  if (state > 0) {
    __atomic_store_n(&gate.last, stream, __ATOMIC_RELAXED);
    __atomic_store_n(&gate.turn.own->sent, gate.turn.own->sent + 1, __ATOMIC_RELAXED);
    if (holds(gate.turn) && __atomic_fetch_sub(&gate.left, 1, __ATOMIC_RELAXED) > 0) return at;
  }
  pass_slowly(gate, at, stream);
  return at;
}

void end_work(int at, Work work, std::uint64_t bytes) {
  if (at >= 0) count_work(counters(at), work, bytes);
}

void forget_contexts() {
  __atomic_fetch_add(&g_changes, 1, __ATOMIC_RELEASE);
}

void forget_turns() {
  for (Gate& gate : g_gates) gate = {};
  make_fresh(g_lock);
  forget_contexts();
}

void begin_wait() {
  const int at = place_here();
  if (at < 0 || __atomic_load_n(&g_gates[at].state, __ATOMIC_ACQUIRE) <= 0) return;
  const Locked lock(g_lock);
  Gate& gate = g_gates[at];
  if (!gate.open || gate.tailed || is_captured(gate.last)) return;
  __atomic_store_n(&gate.left, 0, __ATOMIC_RELAXED);
  gate.tailed = driver().event_record(gate.tail, gate.last) == CUDA_SUCCESS;
}

void end_wait() {
  for (Gate& gate : g_gates)
    if (__atomic_load_n(&gate.state, __ATOMIC_ACQUIRE) > 0) set_busy_until(gate.turn, clock_now());
}

}  // namespace berth::guard
