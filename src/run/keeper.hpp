// The keeper: parent of the workload and subreaper of all its processes, in its own session, where
// the terminal sends no signals. If the front (the `berth run` that the user started) ends for any
// reason, the keeper goes on, and then ends all processes of the workload.
#pragma once

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "run/front.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// Runs in a new child of `front`, with every signal blocked, until it exits. It exchanges records
/// with the front through `channel`. If the front dies, the keeper also ends its signal probe,
/// which may be stopped.
[[noreturn]] void keep(const Launch& launch, const Inherited& inherited, const Watcher& watcher,
                       pid_t front, Descriptor channel);

}  // namespace berth::run
