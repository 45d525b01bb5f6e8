// What is said about NVIDIA's driver as a whole when it does not work: one identifier, sentence and
// hint for each way.
#pragma once

#include <chrono>
#include <string>

#include "inventory/nvml_frames.hpp"
#include "model/snapshot.hpp"

namespace berth::inventory {

/// The child said why it ended.
void describe_failure(const frames::Failed& failed, const std::string& library,
                      model::Driver& driver);
/// The child was killed by `signal` (0: it ended by itself without a word, -1: not known).
void describe_death(int signal, model::Driver& driver);
/// Nothing came in time. `loaded`: the library was open, so it was the initialisation that hung.
void describe_silence(bool loaded, std::chrono::milliseconds waited, model::Driver& driver);
/// It is initialised, but not one device answered.
void describe_silent_devices(std::chrono::milliseconds waited, model::Driver& driver);
/// There could be no child.
void describe_no_child(model::Driver& driver);

}  // namespace berth::inventory
