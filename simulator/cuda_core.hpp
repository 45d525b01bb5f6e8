// Internals of the simulated CUDA driver. As in nvml_core.hpp, the code may use only libc, and must
// not throw exceptions or print.
#pragma once

#include "vendor/cuda/abi.hpp"
#include "wire/sim_cuda.hpp"
#include "wire/sim_state.hpp"

/// A handle is the address of an object of these types. Context handles are checked before use.
struct CUctx_st {
  CUdevice device;
  std::uint32_t uses;  // how often a primary context was retained; 1 for other contexts
  std::uint32_t flags;
  bool primary;
};
struct CUstream_st {
  CUcontext context;
  std::uint32_t flags;
  // the graph that records calls on this stream; nullptr: the stream is not capturing
  CUgraph capturing;
  int priority;
};

namespace berth::simulator {

namespace wire = berth::wire::sim;

#define CUDA(name) extern "C" __attribute__((visibility("default"))) CUresult name

/// CUDA_ALIAS exports a second function that jumps to the first one. Both need an address of their
/// own, because they also have different addresses in NVIDIA's library.
#if defined(__x86_64__)
#define CUDA_JUMP "jmp "
#else
#define CUDA_JUMP "b "
#endif
#define CUDA_ALIAS(name, target)                                                    \
  extern "C" __attribute__((visibility("default"))) decltype(target) name;          \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", %function\n" #name \
          ":\n" CUDA_JUMP #target "\n.size " #name ", .-" #name "\n")

[[nodiscard]] std::uint64_t clock_now();
[[nodiscard]] wire::CudaShared& shared();
/// Maps the shared memory and lists the devices. Returns cuInit's result.
[[nodiscard]] CUresult begin();
[[nodiscard]] bool begun();
/// This process's entry in the shared table. After a fork, the child has none until it initialises
/// the driver.
[[nodiscard]] wire::CudaProcess& self();

/// The number of devices that CUDA_VISIBLE_DEVICES leaves visible. CUdevice numbers are positions
/// in CUDA's order.
[[nodiscard]] int device_count();
[[nodiscard]] bool is_device(CUdevice device);
[[nodiscard]] const wire::Device& describe(CUdevice device);
/// The device's number in the shared memory.
[[nodiscard]] std::uint32_t number_of(CUdevice device);
[[nodiscard]] std::uint32_t cuda_version();

/// This thread's current context; nullptr if it has none.
[[nodiscard]] CUcontext current_context();
[[nodiscard]] bool is_context(CUcontext context);

/// Kinds of memory. Each kind must be freed by its own function.
enum class Kind : std::uint32_t {
  kLinear,
  kManaged,
  kPhysical,
  kArray,
  kMipmap,
  kMapped,
  kImported,
  kGraph
};
struct Allocation {
  // bytes charged to the device; if `kind` is kMapped: the handle of the mapped memory
  std::uint64_t bytes;
  CUdevice device;
  Kind kind;
  CUcontext context;  // nullptr: belongs to no context
  std::uint32_t references;
  // true: this process was not charged for the memory, so freeing it gives nothing back
  bool foreign = false;
  std::uint64_t mapped = 0;  // size of a mapping
  // For managed memory: the devices that the program named in cuMemAdvise.
  CUdevice preferred = CU_DEVICE_INVALID, accessed = CU_DEVICE_INVALID;
};
/// Takes memory from the device; OUT_OF_MEMORY if there is not enough.
[[nodiscard]] CUresult charge(CUdevice device, std::uint64_t bytes);
void give_back(CUdevice device, std::uint64_t bytes);
void drop_memory_of(CUcontext context);
/// Reserves an address range without memory. Returns 0 if no range is left.
[[nodiscard]] std::uint64_t take_range(std::uint64_t bytes);
void drop_range(std::uint64_t address, std::uint64_t bytes);
/// Records memory for which this process is not charged. Returns false if the table is full.
[[nodiscard]] bool keep_foreign(std::uint64_t address, const Allocation& allocation);
/// Finds the allocation of this kind at the address, and copies its record to `found`. Returns
/// false if there is none.
[[nodiscard]] bool find_memory(std::uint64_t address, Kind kind, Allocation& found);
/// Does the same as find_memory(), and removes the record.
[[nodiscard]] bool forget_memory(std::uint64_t address, Kind kind, Allocation& found);
void forget_all_of_graphs(CUdevice device);
/// Frees memory that a graph allocated. Returns false if no graph allocated memory at this address.
[[nodiscard]] bool free_graph_memory(std::uint64_t address);
/// Frees the memory of all graphs on the device. Called when the device's primary context is
/// destroyed.
void drop_graph_memory(CUdevice device);
/// Adds an allocation or a free to the graph, because the stream is capturing.
[[nodiscard]] CUresult capture_allocation(CUgraph graph, CUdeviceptr* out, std::size_t bytes,
                                          CUdevice device);
[[nodiscard]] CUresult capture_free(CUgraph graph, CUdeviceptr address);
/// Whether the program created the stream: it is neither the null stream nor a thread's default
/// stream.
[[nodiscard]] inline bool is_stream(CUstream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) > 2;
}
/// Adds the duration of a captured call to the graph.
void capture(CUgraph graph, std::uint64_t nanoseconds);
/// Sends work to the stream's device. If the stream is capturing, adds the work to its graph
/// instead.
[[nodiscard]] CUresult send(CUstream stream, std::uint64_t nanoseconds);
[[nodiscard]] std::uint64_t duration_of(CUfunction function);
/// Sends work of this duration to a device, for this process.
[[nodiscard]] CUresult submit(CUdevice device, std::uint64_t nanoseconds, bool is_kernel);
void wait_for_all(CUdevice device);
[[nodiscard]] bool all_done(CUdevice device);

#define NEED_DRIVER() \
  if (!begun()) return CUDA_ERROR_NOT_INITIALIZED
#define NEED_CONTEXT() \
  NEED_DRIVER();       \
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT
#define NEED(condition) \
  if (!(condition)) return CUDA_ERROR_INVALID_VALUE

}  // namespace berth::simulator
