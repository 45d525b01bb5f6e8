// Graphs of the simulated CUDA driver. A graph has a total duration, which a launch sends to the
// device as work, and a list of nodes. A launch takes the memory of the allocation nodes, in units
// of 2 MiB. Freed memory stays reserved for other graphs until the program calls
// cuDeviceGraphMemTrim.
#include <pthread.h>
#include <stdlib.h>

#include "simulator/cuda_core.hpp"

using namespace berth::simulator;

struct CUgraphNode_st {
  int type;
  CUgraphNode next;
  CUDA_MEM_ALLOC_NODE_PARAMS alloc;  // parameters of an allocation node
  CUdeviceptr freed;                 // the address that a free node frees
};
struct CUgraph_st {
  std::uint64_t nanoseconds;
  std::size_t nodes;
  CUgraphNode first, last;
  std::uint32_t uses;  // references: one by the program, and one by each executable graph
};
struct CUgraphExec_st {
  CUgraph graph;
  std::uint64_t nanoseconds;
  std::size_t nodes;  // number of nodes at instantiation; `graph` may get more nodes later
  unsigned long long flags;
};

namespace {

constexpr std::uint64_t kPage = 2U << 20U;

/// How many bytes this process's graphs use and reserve on each device, now and at most so far.
struct GraphMemory {
  std::uint64_t used, used_high, reserved, reserved_high;
};
constinit GraphMemory g_memory[wire::kCudaDevices] = {};
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

struct Locked {
  Locked() { pthread_mutex_lock(&g_lock); }
  ~Locked() { pthread_mutex_unlock(&g_lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

/// The start of CUDA_KERNEL_NODE_PARAMS. The function is the first member in every version of the
/// struct.
struct KernelNode {
  CUfunction function;
};

CUgraphNode add_node(CUgraph graph, int type) {
  auto* node = static_cast<CUgraphNode>(calloc(1, sizeof(CUgraphNode_st)));
  if (node == nullptr) return nullptr;
  node->type = type;
  if (graph->last != nullptr)
    graph->last->next = node;
  else
    graph->first = node;
  graph->last = node;
  ++graph->nodes;
  return node;
}

std::uint64_t pages(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}
CUdevice device_of(const CUgraphNode_st& node) {
  return node.alloc.poolProps.location.id;
}

bool is_live(CUdeviceptr address) {
  Allocation found = {};
  return find_memory(address, Kind::kGraph, found);
}

/// The lock must be held when this function or one of the functions below is called.
bool free_live(CUdeviceptr address) {
  Allocation gone = {};
  if (!forget_memory(address, Kind::kGraph, gone)) return false;
  g_memory[gone.device].used -= gone.bytes;
  return true;
}

CUresult take_memory(const CUgraphNode_st& node) {
  const CUdevice device = device_of(node);
  const std::uint64_t bytes = pages(node.alloc.bytesize);
  GraphMemory& memory = g_memory[device];
  const std::uint64_t cached = memory.reserved - memory.used;
  if (const std::uint64_t more = bytes > cached ? bytes - cached : 0; more > 0) {
    if (const CUresult result = charge(device, more); result != CUDA_SUCCESS) return result;
    memory.reserved += more;
  }
  memory.used += bytes;
  if (memory.used > memory.used_high) memory.used_high = memory.used;
  if (memory.reserved > memory.reserved_high) memory.reserved_high = memory.reserved;
  static_cast<void>(keep_foreign(node.alloc.dptr, {bytes, device, Kind::kGraph, nullptr, 1, true}));
  return CUDA_SUCCESS;
}

CUresult take_all_memory(const CUgraphExec_st& exec) {
  std::size_t n = 0;
  CUresult result = CUDA_SUCCESS;
  for (CUgraphNode node = exec.graph->first; n < exec.nodes; node = node->next, ++n) {
    if (node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !is_live(node->alloc.dptr)) continue;
    if ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    free_live(node->alloc.dptr);
  }
  n = 0;
  for (CUgraphNode node = exec.graph->first; n < exec.nodes; node = node->next, ++n)
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && result == CUDA_SUCCESS)
      result = take_memory(*node);
  n = 0;
  for (CUgraphNode node = exec.graph->first; n < exec.nodes; node = node->next, ++n) {
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) free_live(node->freed);
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && result != CUDA_SUCCESS)
      free_live(node->alloc.dptr);
  }
  return result;
}

/// Reserves the memory that the next launch needs. Call it before the launch, with the lock held.
CUresult reserve(const CUgraphExec_st& exec) {
  std::uint64_t needs[wire::kCudaDevices] = {};
  std::size_t n = 0;
  for (CUgraphNode node = exec.graph->first; n < exec.nodes; node = node->next, ++n)
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !is_live(node->alloc.dptr))
      needs[device_of(*node)] += pages(node->alloc.bytesize);
  for (CUdevice device = 0; device < static_cast<int>(wire::kCudaDevices); ++device) {
    GraphMemory& memory = g_memory[device];
    const std::uint64_t cached = memory.reserved - memory.used;
    if (needs[device] <= cached) continue;
    if (const CUresult result = charge(device, needs[device] - cached); result != CUDA_SUCCESS)
      return result;
    memory.reserved += needs[device] - cached;
    if (memory.reserved > memory.reserved_high) memory.reserved_high = memory.reserved;
  }
  return CUDA_SUCCESS;
}

/// Removes one reference, and frees the graph if it was the last. An address range stays reserved
/// while there is still memory in it.
void drop_use(CUgraph graph) {
  if (--graph->uses > 0) return;
  for (CUgraphNode node = graph->first; node != nullptr;) {
    const CUgraphNode next = node->next;
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !is_live(node->alloc.dptr))
      drop_range(node->alloc.dptr, pages(node->alloc.bytesize));
    free(node);
    node = next;
  }
  free(graph);
}

CUresult instantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  NEED_CONTEXT();
  NEED(out != nullptr && graph != nullptr);
  *out = static_cast<CUgraphExec>(calloc(1, sizeof(CUgraphExec_st)));
  if (*out == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const Locked lock;
  **out = {graph, graph->nanoseconds, graph->nodes, flags};
  const CUresult result =
      (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0 ? reserve(**out) : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) {
    ++graph->uses;
  } else {
    free(*out);
    *out = nullptr;
  }
  return result;
}

CUresult add_allocation(CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* params, CUgraphNode* out) {
  NEED(params != nullptr && params->bytesize > 0);
  NEED(params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  if (!is_device(params->poolProps.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (params->bytesize > ~std::uint64_t{0} - kPage) return CUDA_ERROR_OUT_OF_MEMORY;
  params->dptr = take_range(pages(params->bytesize));
  if (params->dptr == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const Locked lock;
  const CUgraphNode node = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  if (node == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  node->alloc = *params;
  if (out != nullptr) *out = node;
  return CUDA_SUCCESS;
}

CUresult add_free(CUgraph graph, CUdeviceptr address, CUgraphNode* out) {
  const Locked lock;
  const CUgraphNode node = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
  if (node == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  node->freed = address;
  if (out != nullptr) *out = node;
  return CUDA_SUCCESS;
}

CUresult add_any(CUgraphNode* node, CUgraph graph, CUgraphNodeParams* params) {
  NEED_CONTEXT();
  NEED(node != nullptr && graph != nullptr && params != nullptr);
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return add_allocation(graph, &params->alloc, node);
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) return add_free(graph, params->free, node);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

namespace berth::simulator {

void capture(CUgraph graph, std::uint64_t nanoseconds) {
  const Locked lock;
  graph->nanoseconds += nanoseconds;
  static_cast<void>(add_node(graph, CU_GRAPH_NODE_TYPE_KERNEL));
}

CUresult capture_allocation(CUgraph graph, CUdeviceptr* out, std::size_t bytes, CUdevice device) {
  NEED(out != nullptr);
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  params.bytesize = bytes;
  const CUresult result = add_allocation(graph, &params, nullptr);
  if (result == CUDA_SUCCESS) *out = params.dptr;
  return result;
}
CUresult capture_free(CUgraph graph, CUdeviceptr address) {
  return add_free(graph, address, nullptr);
}

bool free_graph_memory(std::uint64_t address) {
  const Locked lock;
  return free_live(address);
}

void drop_graph_memory(CUdevice device) {
  const Locked lock;
  if (g_memory[device].reserved > 0) give_back(device, g_memory[device].reserved);
  g_memory[device] = {};
  forget_all_of_graphs(device);
}

}  // namespace berth::simulator

CUDA(cuGraphCreate)(CUgraph* out, unsigned flags) {
  NEED_CONTEXT();
  NEED(out != nullptr && flags == 0);
  *out = static_cast<CUgraph>(calloc(1, sizeof(CUgraph_st)));
  if (*out == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  (*out)->uses = 1;
  return CUDA_SUCCESS;
}
CUDA(cuGraphDestroy)(CUgraph graph) {
  NEED_DRIVER();
  NEED(graph != nullptr);
  const Locked lock;
  drop_use(graph);
  return CUDA_SUCCESS;
}
CUDA(cuGraphGetNodes)(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  NEED_DRIVER();
  NEED(graph != nullptr && count != nullptr);
  const Locked lock;
  if (nodes == nullptr) {
    *count = graph->nodes;
    return CUDA_SUCCESS;
  }
  std::size_t n = 0;
  for (CUgraphNode node = graph->first; node != nullptr && n < *count; node = node->next)
    nodes[n++] = node;
  while (n < *count) nodes[n++] = nullptr;
  if (*count > graph->nodes) *count = graph->nodes;
  return CUDA_SUCCESS;
}
CUDA(cuGraphNodeGetType)(CUgraphNode node, int* type) {
  NEED_DRIVER();
  NEED(node != nullptr && type != nullptr);
  *type = node->type;
  return CUDA_SUCCESS;
}
CUDA(cuGraphAddKernelNode_v2)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t, const void* parameters) {
  NEED_CONTEXT();
  NEED(node != nullptr && graph != nullptr && parameters != nullptr);
  const CUfunction function = static_cast<const KernelNode*>(parameters)->function;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  capture(graph, duration_of(function));
  *node = graph->last;
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuGraphAddKernelNode, cuGraphAddKernelNode_v2);
CUDA(cuGraphAddMemAllocNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t,
 CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  NEED_CONTEXT();
  NEED(node != nullptr && graph != nullptr);
  return add_allocation(graph, params, node);
}
CUDA(cuGraphAddMemFreeNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t, CUdeviceptr address) {
  NEED_CONTEXT();
  NEED(node != nullptr && graph != nullptr && address != 0);
  return add_free(graph, address, node);
}
CUDA(cuGraphAddNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t, CUgraphNodeParams* params) {
  return add_any(node, graph, params);
}
CUDA(cuGraphAddNode_v2)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, const void*, std::size_t,
 CUgraphNodeParams* params) {
  return add_any(node, graph, params);
}
CUDA_ALIAS(cuGraphAddNode_v3, cuGraphAddNode_v2);
CUDA(cuGraphMemAllocNodeGetParams)(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  NEED_DRIVER();
  NEED(node != nullptr && params != nullptr && node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  *params = node->alloc;
  return CUDA_SUCCESS;
}
CUDA(cuGraphInstantiateWithFlags)(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}
CUDA(cuGraphInstantiate)
(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return instantiate(out, graph, 0);
}
CUDA_ALIAS(cuGraphInstantiate_v2, cuGraphInstantiate);
CUDA(cuGraphInstantiateWithParams)
(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  NEED(params != nullptr);
  const CUresult result = instantiate(out, graph, params->flags);
  params->result_out = result == CUDA_SUCCESS ? 0 : 1;
  return result;
}
CUDA_ALIAS(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams);
CUDA(cuGraphUpload)(CUgraphExec exec, CUstream) {
  NEED_CONTEXT();
  NEED(exec != nullptr);
  const Locked lock;
  return reserve(*exec);
}
CUDA_ALIAS(cuGraphUpload_ptsz, cuGraphUpload);
CUDA(cuGraphExecDestroy)(CUgraphExec exec) {
  NEED_DRIVER();
  NEED(exec != nullptr);
  const Locked lock;
  drop_use(exec->graph);
  free(exec);
  return CUDA_SUCCESS;
}
CUDA(cuGraphLaunch)(CUgraphExec exec, CUstream stream) {
  NEED_CONTEXT();
  NEED(exec != nullptr);
  {
    const Locked lock;
    if (const CUresult result = take_all_memory(*exec); result != CUDA_SUCCESS) return result;
  }
  return send(stream, exec->nanoseconds);
}
CUDA_ALIAS(cuGraphLaunch_ptsz, cuGraphLaunch);

CUDA(cuDeviceGraphMemTrim)(CUdevice device) {
  NEED_DRIVER();
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Locked lock;
  GraphMemory& memory = g_memory[device];
  if (memory.reserved > memory.used) give_back(device, memory.reserved - memory.used);
  memory.reserved = memory.used;
  return CUDA_SUCCESS;
}
CUDA(cuDeviceGetGraphMemAttribute)(CUdevice device, int attribute, void* value) {
  NEED_DRIVER();
  NEED(value != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Locked lock;
  const GraphMemory& memory = g_memory[device];
  const std::uint64_t all[] = {memory.used, memory.used_high, memory.reserved,
                               memory.reserved_high};
  NEED(attribute >= 0 && attribute < 4);
  *static_cast<std::uint64_t*>(value) = all[attribute];
  return CUDA_SUCCESS;
}

CUDA(cuStreamBeginCapture_v2)(CUstream stream, int) {
  NEED_CONTEXT();
  if (!is_stream(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capturing != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  return cuGraphCreate(&stream->capturing, 0);
}
CUDA_ALIAS(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2);
CUDA(cuStreamBeginCapture)(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, 0);
}
CUDA_ALIAS(cuStreamBeginCapture_ptsz, cuStreamBeginCapture);
CUDA(cuStreamEndCapture)(CUstream stream, CUgraph* graph) {
  NEED_CONTEXT();
  NEED(graph != nullptr);
  if (!is_stream(stream) || stream->capturing == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  *graph = stream->capturing;
  stream->capturing = nullptr;
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuStreamEndCapture_ptsz, cuStreamEndCapture);
