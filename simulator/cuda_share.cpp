// Simulated CUDA memory that was allocated by another process, or by another API such as Vulkan.
// Only the process that created it is charged for it. Each process has its own addresses, so the
// contents are not shared.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simulator/cuda_core.hpp"

using namespace berth::simulator;

struct CUextMemory_st {
  std::uint64_t bytes;
};

namespace {

constexpr std::uint64_t kTicket = 0x45524148534e5242;  // the bytes "BRNSHARE" as a number
constexpr int kFileDescriptor = 1;                     // the handle type for file descriptors

/// The content of a handle that is exported to other processes.
struct Ticket {
  std::uint64_t magic;
  std::int64_t pid;
  std::uint64_t start, address, bytes;
  std::uint32_t device;  // in the shared memory
  std::uint32_t unused;  // 0, so that no undefined byte is written
};
static_assert(sizeof(Ticket) <= sizeof(CUipcMemHandle));

Ticket ticket_for(std::uint64_t address, const Allocation& memory) {
  return {kTicket, getpid(),     berth::wire::stat_of(getpid()).start,
          address, memory.bytes, number_of(memory.device),
          0};
}

/// Converts a device number of the shared memory to a CUdevice. Returns -1 if the device is not
/// visible to this process.
CUdevice device_numbered(std::uint32_t number) {
  for (CUdevice device = 0; device < device_count(); ++device)
    if (number_of(device) == number) return device;
  return -1;
}

CUresult import(std::uint64_t* out, std::uint64_t bytes, CUdevice device, Kind kind,
                CUcontext context) {
  const std::uint64_t address = take_range(bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!keep_foreign(address, {bytes, device, kind, context, 1, true}))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

}  // namespace

CUDA(cuIpcGetMemHandle)(CUipcMemHandle* handle, CUdeviceptr address) {
  NEED_CONTEXT();
  Allocation memory = {};
  NEED(handle != nullptr && find_memory(address, Kind::kLinear, memory));
  const Ticket ticket = ticket_for(address, memory);
  *handle = {};
  memcpy(handle, &ticket, sizeof(ticket));
  return CUDA_SUCCESS;
}
CUDA(cuIpcOpenMemHandle_v2)(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  NEED_CONTEXT();
  NEED(out != nullptr && flags == 1);
  Ticket ticket = {};
  memcpy(&ticket, &handle, sizeof(ticket));
  if (ticket.magic != kTicket || ticket.bytes == 0 || !berth::wire::lives(ticket.pid, ticket.start))
    return CUDA_ERROR_INVALID_HANDLE;
  if (ticket.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const CUdevice device = device_numbered(ticket.device);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  return import(out, ticket.bytes, device, Kind::kImported, current_context());
}
CUDA_ALIAS(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2);
CUDA(cuIpcCloseMemHandle)(CUdeviceptr address) {
  NEED_CONTEXT();
  Allocation gone = {};
  NEED(forget_memory(address, Kind::kImported, gone));
  drop_range(address, gone.bytes);
  return CUDA_SUCCESS;
}

CUDA(cuMemExportToShareableHandle)
(void* out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags) {
  NEED_DRIVER();
  Allocation memory = {};
  NEED(out != nullptr && flags == 0 && find_memory(handle, Kind::kPhysical, memory));
  if (type != kFileDescriptor) return CUDA_ERROR_NOT_SUPPORTED;
  const Ticket ticket = ticket_for(handle, memory);
  const int file = memfd_create("cuda-memory", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_UNKNOWN;
  if (pwrite(file, &ticket, sizeof(ticket), 0) != static_cast<ssize_t>(sizeof(ticket))) {
    close(file);
    return CUDA_ERROR_UNKNOWN;
  }
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}
CUDA(cuMemImportFromShareableHandle)
(CUmemGenericAllocationHandle* handle, void* shared, int type) {
  NEED_DRIVER();
  NEED(handle != nullptr);
  if (type != kFileDescriptor) return CUDA_ERROR_NOT_SUPPORTED;
  Ticket ticket = {};
  const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(shared));
  if (pread(file, &ticket, sizeof(ticket), 0) != static_cast<ssize_t>(sizeof(ticket)) ||
      ticket.magic != kTicket || ticket.bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const CUdevice device = device_numbered(ticket.device);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  return import(handle, ticket.bytes, device, Kind::kPhysical, nullptr);
}

CUDA(cuImportExternalMemory)
(CUexternalMemory* out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* from) {
  NEED_CONTEXT();
  NEED(out != nullptr && from != nullptr && from->size > 0);
  if (from->type != kFileDescriptor) return CUDA_ERROR_NOT_SUPPORTED;
  struct stat status = {};
  NEED(fstat(from->fd, &status) == 0);
  *out = static_cast<CUexternalMemory>(calloc(1, sizeof(CUextMemory_st)));
  if (*out == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  (*out)->bytes = from->size;
  close(from->fd);  // after an import, the driver owns the descriptor
  return CUDA_SUCCESS;
}
CUDA(cuExternalMemoryGetMappedBuffer)
(CUdeviceptr* out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* part) {
  NEED_CONTEXT();
  NEED(out != nullptr && memory != nullptr && part != nullptr && part->size > 0);
  NEED(part->offset <= memory->bytes && part->size <= memory->bytes - part->offset);
  return import(out, part->size, current_context()->device, Kind::kLinear, current_context());
}
CUDA(cuDestroyExternalMemory)(CUexternalMemory memory) {
  NEED_CONTEXT();
  NEED(memory != nullptr);
  free(memory);
  return CUDA_SUCCESS;
}
