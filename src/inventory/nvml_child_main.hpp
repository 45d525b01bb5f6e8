// The forked process that calls NVIDIA's driver: it opens the library, then reads the devices once
// or samples them until the parent ends it.
#pragma once

#include "inventory/nvml_child.hpp"

namespace berth::inventory {

/// The main function of the child. It writes frames to the pipe and never returns.
[[noreturn]] void run_nvml_child(int pipe, const NvmlTask& task);

}  // namespace berth::inventory
