// All functions exported by the simulated CUDA driver, sorted by name.
#pragma once

#include <cstddef>

namespace berth::simulator {

struct Export {
  const char* name;
  void* function;
};
extern const Export kExports[];
extern const std::size_t kExportCount;

}  // namespace berth::simulator
