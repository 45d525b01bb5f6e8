// The keeper: parent of the workload and subreaper of all it starts, in a session of its own, where
// no signal of the terminal comes. It outlives the front, however that dies, and then ends
// everything below it.
#pragma once

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// The rest of the life of a fresh child of `front`, with every signal blocked. It tells and obeys
/// through `channel`. If the front dies, the keeper also ends its signal probe, which may be
/// stopped.
[[noreturn]] void keep(const Launch& launch, const Inherited& inherited, pid_t front,
                       Descriptor channel);

}  // namespace berth::run
