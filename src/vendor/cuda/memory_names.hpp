// Finds by their names the driver functions that may allocate device memory. A newer driver may
// have functions that this list lacks; memory that these functions allocate is not counted.
#pragma once

#include <string.h>

#include <cstddef>

namespace berth::vendor::cuda {

enum class MemoryName {
  kNone,     // allocates no device memory: describes or frees it, or allocates host memory
  kOthers,   // gives access to memory that others (process, API, function) allocated
  kHidden,   // allocates memory that only NVML shows: contexts, modules, streams
  kUnknown,  // not in the list
};

/// Whether the function's name suggests that it allocates memory.
inline bool may_take_memory(const char* name) {
  constexpr const char* kParts[] = {"Alloc",  "Bind",     "Consumer", "Create",   "Import",
                                    "Load",   "Map",      "Open",     "Pool",     "Instantiate",
                                    "Retain", "Producer", "Register", "SetLimit", "Upload"};
  for (const char* part : kParts)
    if (strstr(name, part) != nullptr) return true;
  return false;
}

/// Returns the kind of a driver function that the guard does not wrap.
inline MemoryName memory_name(const char* name) {
  struct Row {
    const char* name;
    MemoryName kind;
  };
  static constexpr Row kRows[] = {
#define MEMORY_NAME(name, kind) {#name, MemoryName::kind},
#include "vendor/cuda/memory_names.inc"
#undef MEMORY_NAME
  };
  std::size_t low = 0, high = sizeof(kRows) / sizeof(kRows[0]);
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int order = strcmp(kRows[middle].name, name);
    if (order == 0) return kRows[middle].kind;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return MemoryName::kUnknown;
}

}  // namespace berth::vendor::cuda
