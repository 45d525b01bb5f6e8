// Look-up of the simulated CUDA driver's functions, and the names of its errors.
#include <string.h>

#include "simulator/cuda_core.hpp"
#include "simulator/cuda_exports.hpp"

using namespace berth::simulator;

namespace {

struct Version {
  const char* name;
  int since;
  const char *function, *per_thread;
};
constexpr Version kVersions[] = {
#define BERTH_CUDA(name, since, function, per_thread) {#name, since, #function, #per_thread},
#include "vendor/cuda/versions.inc"
#undef BERTH_CUDA
};

constexpr CUdriverProcAddressQueryResult kFound = CU_GET_PROC_ADDRESS_SUCCESS;

void* exported(const char* name) {
  std::size_t low = 0, high = kExportCount;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int order = strcmp(kExports[middle].name, name);
    if (order == 0) return kExports[middle].function;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return nullptr;
}

/// Finds the newest version of a function that is neither newer than requested nor newer than the
/// driver.
void* find(const char* name, int version, bool per_thread, CUdriverProcAddressQueryResult& status) {
  const Version* best = nullptr;
  status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  for (const Version& one : kVersions) {
    if (strcmp(one.name, name) != 0 || one.since > static_cast<int>(cuda_version())) continue;
    if (best == nullptr) status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (one.since <= version) best = &one;
  }
  if (best == nullptr) return nullptr;
  status = kFound;
  const bool has_own = strcmp(best->per_thread, "none") != 0;
  return exported(per_thread && has_own ? best->per_thread : best->function);
}

struct Named {
  CUresult result;
  const char *name, *words;
};
constexpr Named kErrors[] = {
#define ROW(name, words) {name, #name, words},
    ROW(CUDA_SUCCESS, "no error") ROW(CUDA_ERROR_INVALID_VALUE, "invalid argument") ROW(
        CUDA_ERROR_OUT_OF_MEMORY, "out of memory") ROW(CUDA_ERROR_NOT_INITIALIZED,
                                                       "initialization error")
        ROW(CUDA_ERROR_DEINITIALIZED, "driver shutting down") ROW(
            CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")
            ROW(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal") ROW(
                CUDA_ERROR_INVALID_IMAGE,
                "device kernel image is invalid") ROW(CUDA_ERROR_INVALID_CONTEXT,
                                                      "invalid device context")
                ROW(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle") ROW(
                    CUDA_ERROR_ILLEGAL_STATE,
                    "the operation cannot be performed in the present state")
                    ROW(CUDA_ERROR_NOT_FOUND, "named symbol not found") ROW(
                        CUDA_ERROR_NOT_READY,
                        "device not ready") ROW(CUDA_ERROR_ILLEGAL_ADDRESS,
                                                "an illegal memory access was encountered")
                        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed") ROW(
                            CUDA_ERROR_NOT_PERMITTED, "operation not permitted")
                            ROW(CUDA_ERROR_NOT_SUPPORTED, "operation not supported") ROW(
                                CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                                "system has unsupported display driver / cuda driver combination")
                                ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                    "operation not permitted when stream is capturing")
                                    ROW(CUDA_ERROR_UNKNOWN, "unknown error")
#undef ROW
};

CUresult give_words(CUresult error, const char** out, const char* Named::*which) {
  NEED(out != nullptr);
  *out = nullptr;
  for (const Named& one : kErrors)
    if (one.result == error) *out = one.*which;
  return *out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUDA(cuGetProcAddress_v2)
(const char* name, void** function, int version, std::uint64_t flags,
 CUdriverProcAddressQueryResult* status) {
  NEED(name != nullptr && function != nullptr && flags <= 2);
  CUdriverProcAddressQueryResult said = kFound;
  *function = find(name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, said);
  if (status != nullptr) *status = said;
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
CUDA(cuGetProcAddress)(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
CUDA(cuGetErrorName)(CUresult error, const char** name) {
  return give_words(error, name, &Named::name);
}
CUDA(cuGetErrorString)(CUresult error, const char** words) {
  return give_words(error, words, &Named::words);
}
