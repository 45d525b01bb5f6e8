// Graphs of the simulated CUDA driver: a graph is a sum of time, which a launch sends to the
// device.
#include <stdlib.h>

#include "simulator/cuda_core.hpp"

using namespace berth::simulator;

struct CUgraph_st {
  std::uint64_t nanoseconds;
  std::size_t nodes;
};
struct CUgraphExec_st {
  std::uint64_t nanoseconds;
};

namespace berth::simulator {

void capture(CUgraph graph, std::uint64_t nanoseconds) {
  graph->nanoseconds += nanoseconds;
  ++graph->nodes;
}

}  // namespace berth::simulator

namespace {

/// CUDA_KERNEL_NODE_PARAMS: the function comes first in every version.
struct KernelNode {
  CUfunction function;
};

CUresult instantiate(CUgraphExec* out, CUgraph graph) {
  NEED_CONTEXT();
  NEED(out != nullptr && graph != nullptr);
  *out = static_cast<CUgraphExec>(calloc(1, sizeof(CUgraphExec_st)));
  if (*out == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  (*out)->nanoseconds = graph->nanoseconds;
  return CUDA_SUCCESS;
}

}  // namespace

CUDA(cuGraphCreate)(CUgraph* out, unsigned flags) {
  NEED_CONTEXT();
  NEED(out != nullptr && flags == 0);
  *out = static_cast<CUgraph>(calloc(1, sizeof(CUgraph_st)));
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUDA(cuGraphDestroy)(CUgraph graph) {
  NEED_DRIVER();
  NEED(graph != nullptr);
  free(graph);
  return CUDA_SUCCESS;
}
CUDA(cuGraphGetNodes)(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  NEED_DRIVER();
  NEED(graph != nullptr && count != nullptr && nodes == nullptr);
  *count = graph->nodes;
  return CUDA_SUCCESS;
}
CUDA(cuGraphAddKernelNode_v2)
(CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t, const void* parameters) {
  NEED_CONTEXT();
  NEED(node != nullptr && graph != nullptr && parameters != nullptr);
  const CUfunction function = static_cast<const KernelNode*>(parameters)->function;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  capture(graph, duration_of(function));
  *node = reinterpret_cast<CUgraphNode>(graph->nodes);
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuGraphAddKernelNode, cuGraphAddKernelNode_v2);
CUDA(cuGraphInstantiateWithFlags)(CUgraphExec* out, CUgraph graph, unsigned long long) {
  return instantiate(out, graph);
}
CUDA(cuGraphInstantiate)
(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return instantiate(out, graph);
}
CUDA_ALIAS(cuGraphInstantiate_v2, cuGraphInstantiate);
CUDA(cuGraphExecDestroy)(CUgraphExec graph) {
  NEED_DRIVER();
  NEED(graph != nullptr);
  free(graph);
  return CUDA_SUCCESS;
}
CUDA(cuGraphLaunch)(CUgraphExec graph, CUstream stream) {
  NEED_CONTEXT();
  NEED(graph != nullptr);
  return send(stream, graph->nanoseconds);
}
CUDA_ALIAS(cuGraphLaunch_ptsz, cuGraphLaunch);

CUDA(cuStreamBeginCapture_v2)(CUstream stream, int) {
  NEED_CONTEXT();
  if (!is_stream(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capturing != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  return cuGraphCreate(&stream->capturing, 0);
}
CUDA_ALIAS(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2);
CUDA(cuStreamEndCapture)(CUstream stream, CUgraph* graph) {
  NEED_CONTEXT();
  NEED(graph != nullptr);
  if (!is_stream(stream) || stream->capturing == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  *graph = stream->capturing;
  stream->capturing = nullptr;
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuStreamEndCapture_ptsz, cuStreamEndCapture);
