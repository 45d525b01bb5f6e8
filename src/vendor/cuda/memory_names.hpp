// Tells by name which functions of the driver may take device memory. A newer driver may have
// functions that this list lacks; memory that they take is not counted.
#pragma once

#include <string.h>

#include <cstddef>

namespace berth::vendor::cuda {

enum class MemoryName {
  kNone,     // takes no device memory: it describes or frees memory, or takes host memory
  kOthers,   // gives access to memory that another process, interface or function took
  kHidden,   // takes memory that only NVML shows: contexts, modules, streams
  kUnknown,  // not in the list
};

/// True if the name suggests that the function takes memory.
inline bool may_take_memory(const char* name) {
  constexpr const char* kParts[] = {"Alloc",  "Bind",     "Consumer", "Create",   "Import",
                                    "Load",   "Map",      "Open",     "Pool",     "Instantiate",
                                    "Retain", "Producer", "Register", "SetLimit", "Upload"};
  for (const char* part : kParts)
    if (strstr(name, part) != nullptr) return true;
  return false;
}

/// The kind of a function that the guard does not wrap.
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
