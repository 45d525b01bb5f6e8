// Memory of graphs. The driver takes it when a graph is launched or uploaded, and keeps it for the
// process's other graphs. So the guard counts what the driver has reserved for graphs. Before a
// launch, it charges the most that the launch may add. Afterwards the driver reports what it took.
#include <sys/mman.h>

#include "preload/cuda/hooks.hpp"
#include "preload/ledger.hpp"
#include "wire/address_table.hpp"

namespace berth::guard {
namespace {

/// The driver takes memory of graphs in pages of this size.
constexpr std::uint64_t kPage = 2U << 20U;

/// What an instantiated graph allocates.
struct Needs {
  std::uint64_t bytes[wire::kMaxDevices];  // the index is the CUdevice
  bool any, frees;
  bool frees_own;  // the graph frees its memory when it is launched again
  bool live;       // the graph was launched, and no memory of graphs was freed since
};

constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
constinit berth::wire::AddressTable<Needs> g_graphs;  // the key is the CUgraphExec
constinit std::uint64_t g_charged[wire::kMaxDevices] = {};
constinit int g_seen = 0;  // 1: at least one graph allocates memory

struct Driver {
  CUresult (*nodes)(CUgraph, CUgraphNode*, std::size_t*);
  CUresult (*type)(CUgraphNode, int*);
  CUresult (*allocation)(CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS*);
  CUresult (*child)(CUgraphNode, CUgraph*);
  CUresult (*attribute)(CUdevice, int, void*);
};
const Driver& driver() {
  static const Driver all = {
      reinterpret_cast<decltype(Driver::nodes)>(driver_function("cuGraphGetNodes")),
      reinterpret_cast<decltype(Driver::type)>(driver_function("cuGraphNodeGetType")),
      reinterpret_cast<decltype(Driver::allocation)>(
          driver_function("cuGraphMemAllocNodeGetParams")),
      reinterpret_cast<decltype(Driver::child)>(driver_function("cuGraphChildGraphNodeGetGraph")),
      reinterpret_cast<decltype(Driver::attribute)>(
          driver_function("cuDeviceGetGraphMemAttribute"))};
  return all;
}

void add_node(CUgraphNode node, Needs& needs, int depth);

void add_nodes(CUgraph graph, Needs& needs, int depth) {
  std::size_t count = 0;
  if (driver().nodes == nullptr || driver().type == nullptr || driver().allocation == nullptr ||
      driver().nodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0)
    return;
  const std::size_t room = count * sizeof(CUgraphNode);
  void* where = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (where == MAP_FAILED) return;
  auto* nodes = static_cast<CUgraphNode*>(where);
  if (driver().nodes(graph, nodes, &count) == CUDA_SUCCESS)
    for (std::size_t i = 0; i < count; ++i) add_node(nodes[i], needs, depth);
  munmap(where, room);
}

void add_node(CUgraphNode node, Needs& needs, int depth) {
  int type = 0;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  if (driver().type(node, &type) != CUDA_SUCCESS) return;
  needs.frees = needs.frees || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  if (CUgraph inner = nullptr; type == CU_GRAPH_NODE_TYPE_GRAPH && depth < 8) {
    if (driver().child != nullptr && driver().child(node, &inner) == CUDA_SUCCESS)
      add_nodes(inner, needs, depth + 1);
    return;
  }
  if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || driver().allocation(node, &params) != CUDA_SUCCESS)
    return;
  const CUmemLocation& at = params.poolProps.location;
  if (at.type != CU_MEM_LOCATION_TYPE_DEVICE || at.id < 0 ||
      at.id >= static_cast<int>(wire::kMaxDevices))
    return;
  needs.any = true;
  std::uint64_t& sum = needs.bytes[at.id];
  const std::uint64_t most = ~std::uint64_t{0} - kPage;
  sum = params.bytesize > most - sum ? most : sum + (params.bytesize + kPage - 1) / kPage * kPage;
}

std::uint64_t ask(CUdevice device, int attribute) {
  std::uint64_t value = 0;
  return driver().attribute != nullptr &&
                 driver().attribute(device, attribute, &value) == CUDA_SUCCESS
             ? value
             : 0;
}

/// Makes the counters equal to what the driver has reserved. Call it with the lock held. `was`: the
/// charge before the call that may have changed the reserve. A change is recorded as an event in
/// the job's counters, because NVML's earlier values are then no longer comparable.
void recount(CUdevice device, std::uint64_t was) {
  const int place = place_of(device);
  if (place < 0) return;
  const std::uint64_t now = ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT),
                      before = g_charged[device];
  wire::Counters& own = counters(place);
  if (now > before) {
    wire::add_word(own.used, now - before);
    wire::raise_word(own.peak, wire::read_word(own.used));
    wire::raise_word(region()->usage->peak[place],
                     wire::sum_of(*region()->usage, static_cast<std::uint32_t>(place)).used);
  } else {
    wire::give_back(own, before - now);
  }
  g_charged[device] = now;
  if (now != was) count(now > was ? own.allocations : own.frees);
}

void recount_all() {
  for (CUdevice device = 0; device < static_cast<int>(wire::kMaxDevices); ++device)
    if (g_charged[device] > 0) recount(device, g_charged[device]);
}

/// The maximum memory that a launch may add, which is the part that does not fit into the driver's
/// reserve.
std::uint64_t most_added(CUdevice device, const Needs& needs) {
  const std::uint64_t reserved = ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT),
                      used = ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT),
                      own = needs.frees_own && needs.live ? needs.bytes[device] : 0,
                      kept = (reserved > used ? reserved - used : 0) + own;
  return needs.bytes[device] > kept ? needs.bytes[device] - kept : 0;
}

bool charge_for(CUdevice device, const Needs& needs) {
  const int place = place_of(device);
  const std::uint64_t more = place < 0 ? 0 : most_added(device, needs);
  if (more == 0) return true;
  if (wire::charge(*region()->usage, counters(place), static_cast<std::uint32_t>(place), more,
                   memory_limit(place)) == wire::Answer::kGranted) {
    g_charged[device] += more;
    return true;
  }
  count(counters(place).refusals);
  tell_refused(place, more);
  return false;
}

/// Call it if memory of an unknown graph was freed: then no graph counts as live.
void end_all_lives() {
  g_graphs.for_each([](std::uint64_t, Needs& needs) { needs.live = false; });
}

/// Charges the memory that the call may take, and then calls the driver. Call it with the lock
/// held.
template <typename Call>
CUresult take_memory(Needs needs, Call&& call) {
  bool granted = true;
  std::uint64_t was[wire::kMaxDevices];
  for (std::size_t i = 0; i < wire::kMaxDevices; ++i) was[i] = g_charged[i];
  for (CUdevice device = 0; granted && device < static_cast<int>(wire::kMaxDevices); ++device)
    if (needs.bytes[device] > 0) granted = charge_for(device, needs);
  const CUresult result = granted ? call() : CUDA_ERROR_OUT_OF_MEMORY;
  if (granted && result == CUDA_ERROR_OUT_OF_MEMORY)
    for (CUdevice device = 0; device < static_cast<int>(wire::kMaxDevices); ++device)
      if (needs.bytes[device] > 0 && place_of(device) >= 0)
        tell_device_full(place_of(device), needs.bytes[device]);
  for (CUdevice device = 0; device < static_cast<int>(wire::kMaxDevices); ++device)
    if (needs.bytes[device] > 0) recount(device, was[device]);
  return result;
}

template <typename Call>
CUresult launch(CUgraphExec graph, CUstream stream, Call&& call) {
  if (__atomic_load_n(&g_seen, __ATOMIC_ACQUIRE) == 0 || is_captured(stream)) return call();
  const Locked lock(g_lock);
  const Needs* known = g_graphs.find(key_of(graph));
  if (known == nullptr) return call();
  const Needs needs = *known;
  const CUresult result = needs.any ? take_memory(needs, call) : call();
  if (needs.frees) end_all_lives();
  if (Needs* after = g_graphs.find(key_of(graph)))
    after->live = result == CUDA_SUCCESS && !needs.frees;
  return result;
}

template <typename Call>
CUresult instantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags, Call&& call) {
  if (region() == nullptr || graph == nullptr) return call();
  Needs needs = {};
  add_nodes(graph, needs, 0);
  if (!needs.any && !needs.frees) return call();
  if (driver().attribute == nullptr)
    __atomic_store_n(&region()->usage->trouble, wire::kGraphMemory, __ATOMIC_RELAXED);
  needs.frees_own = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  __atomic_store_n(&g_seen, 1, __ATOMIC_RELEASE);
  const Locked lock(g_lock);
  const bool upload = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  const CUresult result = upload ? take_memory(needs, call) : call();
  if (result == CUDA_SUCCESS && out != nullptr) g_graphs.put(key_of(*out), needs);
  return result;
}

}  // namespace

void recount_graphs() {
  if (__atomic_load_n(&g_seen, __ATOMIC_ACQUIRE) == 0 || region() == nullptr) return;
  const Locked lock(g_lock);
  recount_all();
  end_all_lives();
}

void forget_graphs() {
  g_graphs = {};
  for (std::uint64_t& charged : g_charged) charged = 0;
  g_seen = 0;
  make_fresh(g_lock);
}

}  // namespace berth::guard

using namespace berth::guard;

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log,
                            std::size_t size) {
  NEED_REAL(cuGraphInstantiate);
  return instantiate(out, graph, 0,
                     [&] { return real::cuGraphInstantiate(out, graph, node, log, size); });
}
CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log,
                               std::size_t size) {
  NEED_REAL(cuGraphInstantiate_v2);
  return instantiate(out, graph, 0,
                     [&] { return real::cuGraphInstantiate_v2(out, graph, node, log, size); });
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  NEED_REAL(cuGraphInstantiateWithFlags);
  return instantiate(out, graph, flags,
                     [&] { return real::cuGraphInstantiateWithFlags(out, graph, flags); });
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  NEED_REAL(cuGraphInstantiateWithParams);
  return instantiate(out, graph, params == nullptr ? 0 : params->flags,
                     [&] { return real::cuGraphInstantiateWithParams(out, graph, params); });
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  NEED_REAL(cuGraphInstantiateWithParams_ptsz);
  return instantiate(out, graph, params == nullptr ? 0 : params->flags,
                     [&] { return real::cuGraphInstantiateWithParams_ptsz(out, graph, params); });
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  NEED_REAL(cuGraphExecDestroy);
  {
    const Locked lock(g_lock);
    Needs gone = {};
    g_graphs.take(key_of(graph), gone);
  }
  return real::cuGraphExecDestroy(graph);
}
CUresult cuGraphUpload(CUgraphExec graph, CUstream stream) {
  NEED_REAL(cuGraphUpload);
  return launch(graph, stream, [&] { return real::cuGraphUpload(graph, stream); });
}
CUresult cuGraphUpload_ptsz(CUgraphExec graph, CUstream stream) {
  NEED_REAL(cuGraphUpload_ptsz);
  return launch(graph, per_thread(stream), [&] { return real::cuGraphUpload_ptsz(graph, stream); });
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  NEED_REAL(cuGraphLaunch);
  const int at = begin_work(stream);
  const CUresult result = launch(graph, stream, [&] { return real::cuGraphLaunch(graph, stream); });
  if (result == CUDA_SUCCESS) end_work(at, Work::kLaunch, 0);
  return result;
}
CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  NEED_REAL(cuGraphLaunch_ptsz);
  const int at = begin_work(per_thread(stream));
  const CUresult result =
      launch(graph, per_thread(stream), [&] { return real::cuGraphLaunch_ptsz(graph, stream); });
  if (result == CUDA_SUCCESS) end_work(at, Work::kLaunch, 0);
  return result;
}
CUresult cuDeviceGraphMemTrim(CUdevice device) {
  NEED_REAL(cuDeviceGraphMemTrim);
  const Locked lock(g_lock);
  const CUresult result = real::cuDeviceGraphMemTrim(device);
  if (__atomic_load_n(&g_seen, __ATOMIC_ACQUIRE) != 0 && region() != nullptr) recount_all();
  return result;
}
