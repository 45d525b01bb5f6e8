// Queries the driver in a child process with deadlines, through the reader in inventory/.
#pragma once

#include "doctor/facts/driver_answers.hpp"
#include "inventory/nvml_details.hpp"
#include "model/snapshot.hpp"

namespace berth::doctor {

/// `gpu_sleeps`: a GPU is asleep, so only make calls that do not wake it.
[[nodiscard]] DriverAnswers ask_driver(bool gpu_sleeps);
/// Converts a snapshot to answers.
[[nodiscard]] DriverAnswers answers_from(const model::Snapshot& snapshot);
/// Adds details that only the doctor needs.
void add_details(const inventory::NvmlDetails& details, DriverAnswers& answers);

}  // namespace berth::doctor
