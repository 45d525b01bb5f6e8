// Asks the driver, through the inventory's forked reader and its deadlines.
#pragma once

#include "doctor/facts/driver_answers.hpp"
#include "inventory/nvml_details.hpp"
#include "model/snapshot.hpp"

namespace berth::doctor {

/// `gpu_sleeps`: asks only what lets it sleep.
[[nodiscard]] DriverAnswers ask_driver(bool gpu_sleeps);
/// What a snapshot says, as answers. Pure.
[[nodiscard]] DriverAnswers answers_from(const model::Snapshot& snapshot);
/// Adds what only the doctor asks. Pure.
void add_details(const inventory::NvmlDetails& details, DriverAnswers& answers);

}  // namespace berth::doctor
