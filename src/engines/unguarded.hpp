// Programs in pods that use a GPU without the guard, so that their share is not enforced:
// statically linked programs, programs for musl, and programs that clear LD_PRELOAD. Berth's pod
// cannot see processes of other pods. But the driver reports how much memory of a GPU is in use,
// and the guard counts the memory of its programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engines/kube_devices.hpp"
#include "guard/container_use.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// The folder's name in STATE/slots for the counters of a container whose first device is this one:
/// "GPU-1::3" → "GPU-1--3".
[[nodiscard]] std::string slot_name(const std::string& id);

/// Stores which slots belong to devices that pods have. The counters of a killed pod stay until
/// another pod gets its device. If they were counted, they would hide the memory of a program
/// without the guard.
void note_running(const std::string& state, const std::vector<std::string>& slots);

/// The counters of all containers that got a share: STATE/slots/*, STATE/claims/*. If
/// note_running() has stored which slots are in use, leaves out the slots of pods that have ended.
[[nodiscard]] std::vector<guard::CountedUse> counted_in_pods(const std::string& state);

/// Sets KubeUnit::unguarded if at least 1 GiB more memory is in use than the programs with the
/// guard can explain. Each of them may take 1 GiB for its context. Units without a share do not
/// change.
void mark_unguarded(std::vector<KubeUnit>& units, const model::Snapshot& seen,
                    const std::vector<guard::CountedUse>& counted);

}  // namespace berth::engines
