// Finds programs in pods that use a GPU without the guard, so that their share is not enforced:
// statically linked programs, programs for musl, and programs that clear LD_PRELOAD. Berth's pod
// cannot see processes of other pods. But the driver reports how much memory of a GPU is in use,
// and the guard counts the memory of its own programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engines/kube_devices.hpp"
#include "guard/container_use.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// Returns the name of a container's folder in STATE/slots, which has the container's counters.
/// `id` is the container's first device: "GPU-1::3" → "GPU-1--3".
[[nodiscard]] std::string slot_name(const std::string& id);

/// Stores the names of the slots (folders of counters) whose devices pods have now. The counters of
/// a killed pod remain until another pod gets its device. If they were counted, they would hide the
/// memory of a program without the guard.
void note_running(const std::string& state, const std::vector<std::string>& slots);

/// The counters of all containers that got a share: STATE/slots/*, STATE/claims/*. If
/// note_running() has stored which slots are in use, leaves out the slots of pods that have ended.
[[nodiscard]] std::vector<guard::CountedUse> counted_in_pods(const std::string& state);

/// Sets KubeUnit::unguarded if more than 1 GiB of memory is in use that the programs with the guard
/// cannot explain. Each of these programs may also use 1 GiB for its context. Units without a share
/// do not change.
void mark_unguarded(std::vector<KubeUnit>& units, const model::Snapshot& seen,
                    const std::vector<guard::CountedUse>& counted);

}  // namespace berth::engines
